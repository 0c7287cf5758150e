import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../test/server-app.ts'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'

let db: TestDatabase
let server: ServerApp

beforeAll(async () => {
  db = await testDatabase()
  server = await serverApp(db.database)
})
afterAll(() => db.close())

describe('problem details', () => {
  test.for([
    { what: 'an unknown address', path: '/api/v1/nothing', status: 404, code: 'not_found' },
    { what: 'a cursor that is none', path: '/api/v1/runs?cursor=abc', status: 400, code: 'malformed_request' },
    { what: 'a limit out of range', path: '/api/v1/approvals?limit=0', status: 400, code: 'malformed_request' },
    { what: 'an unknown state', path: '/api/v1/approvals?state=open', status: 400, code: 'malformed_request' },
  ])('$what', async ({ path, status, code }) => {
    const response = await server.request(path, { as: server.keys.admin })
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({
      type: `urn:bailiff:problem:${code}`,
      status,
      code,
      title: expect.any(String),
      detail: expect.any(String),
      remedy: expect.any(String),
    })
  })

  test('without a key, nothing of the API answers', async () => {
    for (const path of ['runs', 'approvals', 'tools', 'rules', 'usage', 'session', 'nothing']) {
      const response = await server.request(`/api/v1/${path}`)
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toContain('Bearer')
    }
  })

  test.for(['Basic abc', 'Bearer', 'Bearer a b', 'bk_x'])(
    'a strange authorization header is no key: %s',
    async (authorization) => {
      const strange = await serverApp(db.database)
      expect((await strange.request('/api/v1/runs', { headers: { authorization } })).status).toBe(401)
    },
  )

  test('a body that is not JSON, or not said to be, is refused', async () => {
    const post = (body: string, headers: Record<string, string>) =>
      server.json('/api/v1/runs', { as: server.keys.admin, method: 'POST', body, headers })
    expect(await post('{"definition":', {})).toMatchObject({ status: 400, body: { code: 'malformed_request' } })
    expect(await post('definition=notes', { 'content-type': 'text/plain' })).toMatchObject({
      status: 415,
      body: { code: 'unsupported_media_type' },
    })
  })

  test('a body over one megabyte is refused before it is read', async () => {
    const response = await server.request('/api/v1/runs', {
      as: server.keys.admin,
      method: 'POST',
      body: JSON.stringify('x'.repeat(1024 * 1024)),
    })
    expect(response.status).toBe(413)
    expect(await response.json()).toMatchObject({ code: 'payload_too_large' })
  })

  test('a text that the database cannot store is refused like any other input', async () => {
    const nul = { definition: 'no\u0000tes', tool: 'notes.write' }
    expect(await server.json('/api/v1/grants', { as: server.keys.admin, method: 'POST', body: nul })).toMatchObject({
      status: 422,
      body: { code: 'invalid_input' },
    })
    expect((await server.request('/api/v1/rules/a%00b', { as: server.keys.admin, method: 'DELETE' })).status).toBe(422)
  })

  test('a fault says nothing of itself', async () => {
    const broken = await serverApp(db.database)
    Object.assign(broken.core.stores.rules, { list: () => Promise.reject(new Error('password=hunter2')) })
    const response = await broken.request('/api/v1/rules', { as: broken.keys.admin })
    expect(response.status).toBe(500)
    expect(await response.text()).not.toContain('hunter2')
  })
})

describe('the document', () => {
  test('lists every route of the API', async () => {
    const { paths } = (await server.json<{ paths: Record<string, object> }>('/api/v1/openapi.json')).body
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const served = server.app.routes
      .filter(({ method, path }) => method !== 'ALL' && (path.startsWith('/api/') || path.endsWith('z')))
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    const missing = served.filter((route) => route !== 'GET /api/v1/openapi.json' && !documented.includes(route))
    expect(missing).toStrictEqual([])
    expect(documented.length).toBeGreaterThan(20)
  })

  test('describes every route with an answer and its problems', async () => {
    const { body } = await server.json<{
      paths: Record<string, Record<string, { summary?: string; responses: object }>>
    }>('/api/v1/openapi.json')
    for (const methods of Object.values(body.paths)) {
      for (const route of Object.values(methods)) {
        expect(route.summary).toBeTypeOf('string')
        expect(Object.keys(route.responses)).not.toHaveLength(0)
      }
    }
  })
})

describe('where it may be asked from', () => {
  const ask = async (app: ServerApp, host: string) => (await app.request('/healthz', { headers: { host } })).status

  test('on loopback only by its own names, so that no page can rebind a name to it', async () => {
    for (const host of ['localhost', 'localhost:4400', '127.0.0.1:4400', '[::1]:4400'])
      expect(await ask(server, host)).toBe(200)
    for (const host of ['evil.example', 'evil.example:4400', 'localhost.evil.example', '127.0.0.1.evil.example'])
      expect(await ask(server, host)).toBe(403)
  })

  test('elsewhere, or behind a proxy that is trusted, by any name', async () => {
    expect(await ask(await serverApp(db.database, { hosting: { loopback: false } }), 'bailiff.acme.test')).toBe(200)
    expect(await ask(await serverApp(db.database, { hosting: { trustProxy: true } }), 'bailiff.acme.test')).toBe(200)
  })
})

describe('headers', () => {
  test('pages load nothing from elsewhere and nothing inline', async () => {
    for (const path of ['/', '/runs/01890000-0000-7000-8000-000000000000']) {
      const response = await server.request(path)
      expect(response.status).toBe(200)
      expect(response.headers.get('content-security-policy')).toContain("default-src 'self'")
      const html = await response.text()
      expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\son\w+=|style=|https?:/)
      for (const [, asset] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g))
        expect((await server.request(asset ?? '')).status).toBe(200)
    }
  })

  test('every module that the page loads is served, and none writes markup', async () => {
    const seen = new Set<string>()
    const read = async (file: string): Promise<void> => {
      if (seen.has(file)) return
      seen.add(file)
      const response = await server.request(`/assets/${file}`)
      expect(response.headers.get('content-type')).toContain('text/javascript')
      const source = await response.text()
      expect(source).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function/)
      for (const [, imported] of source.matchAll(/from '\.\/([\w.-]+)'/g)) await read(imported ?? '')
    }
    await read('console.js')
    expect(seen.size).toBeGreaterThan(3)
  })

  test('paths of files are never taken from a request', async () => {
    for (const path of ['/assets/../app.ts', '/assets/..%2fapp.ts', '/assets/app.ts', '/assets/'])
      expect((await server.request(path)).status).toBe(404)
  })

  test('every answer is typed, unframed and kept out of referrers and caches', async () => {
    for (const path of ['/', '/healthz', '/api/v1/runs', '/nothing']) {
      const { headers } = await server.request(path)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })
})

test('health and readiness answer without a key', async () => {
  expect(await server.json('/healthz')).toStrictEqual({ status: 200, body: { status: 'ok' } })
  expect(await server.json('/readyz')).toStrictEqual({ status: 200, body: { status: 'ok', reasons: [] } })
})
