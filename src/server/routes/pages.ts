import { readFile } from 'node:fs/promises'
import { Hono } from 'hono'
import type { AppEnv } from '../app-env.ts'

/** The one page; its script looks at the path. */
const PAGE = 'console.html'

/** Named one by one: a path from a request never becomes a path of a file. */
const ASSETS: Readonly<Record<string, string>> = {
  'console.css': 'text/css; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'elements.js': 'text/javascript; charset=utf-8',
  'inbox.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
  'run.js': 'text/javascript; charset=utf-8',
  'session.js': 'text/javascript; charset=utf-8',
}

/** Nothing inline and nothing from elsewhere: text of a model that slips through as markup still runs nothing. */
const POLICY = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"

export function pageRoutes(): Hono<AppEnv> {
  const read = cached((file: string) => readFile(new URL(`../pages/${file}`, import.meta.url), 'utf8'))
  const routes = new Hono<AppEnv>()
  for (const path of ['/', '/runs/:id']) {
    routes.get(path, async (c) =>
      c.html(await read(PAGE), 200, { 'content-security-policy': POLICY, 'cache-control': 'no-store' }),
    )
  }
  for (const [file, type] of Object.entries(ASSETS)) {
    routes.get(`/assets/${file}`, async (c) =>
      c.body(await read(file), 200, { 'content-type': type, 'cache-control': 'no-cache' }),
    )
  }
  return routes
}

function cached(read: (file: string) => Promise<string>): (file: string) => Promise<string> {
  const texts = new Map<string, Promise<string>>()
  return (file) => {
    const text = texts.get(file) ?? read(file)
    texts.set(file, text)
    return text
  }
}
