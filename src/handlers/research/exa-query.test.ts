import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { exaQueryText } from './exa-query.ts'
import { JOB_FUNCTIONS, type PeopleQuery, SENIORITIES } from './persona.ts'

describe('the words of a people search', () => {
  test.each<[Omit<PeopleQuery, 'limit'>, string]>([
    [{ title: 'Buyer' }, 'Buyer'],
    [{ title: 'Buyer', titleFamily: 'purchasing' }, 'Buyer or similar (purchasing)'],
    [{ titleFamily: 'purchasing' }, 'people with purchasing titles'],
    [{ company: 'Sample Freight' }, 'people, at Sample Freight'],
    [{ domain: 'sample.test' }, 'people, at the company of sample.test'],
    [{ function: 'people', location: 'Utrecht' }, 'people, in human resources, based in Utrecht'],
    [
      {
        title: 'Head of Operations',
        seniority: 'head',
        function: 'supply_chain',
        company: 'Sample Freight',
        domain: 'sample.test',
        location: 'Utrecht',
      },
      'Head of Operations, head of a department, in supply chain and logistics, at Sample Freight (sample.test), based in Utrecht',
    ],
  ])('for %j', (query, text) => {
    expect(exaQueryText({ limit: 5, ...query })).toBe(text)
  })

  test('hold every field that was given, and stay within a bound that the fields set', () => {
    const words = fc.option(fc.string({ minLength: 1, maxLength: 100 }), { nil: undefined })
    const queries = fc.record({
      limit: fc.constant(5),
      title: words,
      titleFamily: words,
      seniority: fc.option(fc.constantFrom(...SENIORITIES), { nil: undefined }),
      function: fc.option(fc.constantFrom(...JOB_FUNCTIONS), { nil: undefined }),
      location: words,
      company: words,
      domain: words,
    })
    fc.assert(
      fc.property(queries, (query) => {
        const text = exaQueryText(query)
        const { title, titleFamily, location, company, domain } = query
        for (const field of [title, titleFamily, location, company, domain]) expect(text).toContain(field ?? '')
        expect(text.length).toBeLessThan(700)
      }),
    )
  })
})
