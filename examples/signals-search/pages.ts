import type { ParallelSearchRequest, ParallelSearchResult } from '../../simulators/parallel.ts'

/** Pages for the stand-in of the search: every company has news, but for those that call themselves quiet. */
export function newsPages({ queries }: ParallelSearchRequest): readonly ParallelSearchResult[] {
  const company = (queries[0] ?? '').replace(/ company profile$/, '')
  const about = {
    url: 'https://example.com/about',
    title: `About ${company}`,
    publish_date: null,
    excerpts: [`${company} is a trading company in Utrecht.`],
  }
  if (company.startsWith('Quiet')) return [about]
  const news = {
    url: 'https://example.com/news',
    title: `${company} grows`,
    publish_date: '2026-03-11',
    excerpts: [`${company} opened a second warehouse and is looking for a head of operations.`],
  }
  return [about, news]
}
