import { OpenAPIHono, type z } from '@hono/zod-openapi'
import type { App, AppEnv } from '../app-env.ts'
import { HttpProblem } from '../problems.ts'
import { ProblemSchema } from '../schemas.ts'

const PROBLEM_DETAILS = {
  description: 'Problem details (RFC 9457) with a stable `code` and a `remedy`',
  content: { 'application/problem+json': { schema: ProblemSchema } },
}

/** The answers of a route: one good one, and problem details for every other status. */
export function answers<const Status extends 200 | 201, Schema extends z.ZodType>(
  status: Status,
  description: string,
  schema: Schema,
) {
  const good = { description, content: { 'application/json': { schema } } }
  return { [status]: good, default: PROBLEM_DETAILS } as { [Key in Status]: typeof good } & {
    readonly default: typeof PROBLEM_DETAILS
  }
}

export function jsonBody<Schema extends z.ZodType>(schema: Schema) {
  return { required: true, content: { 'application/json': { schema } } } as const
}

/** A router whose validation faults are problem details. */
export function router(): App {
  return new OpenAPIHono<AppEnv>({
    defaultHook: (result) => {
      if (!result.success) throw invalid(result.target, result.error)
    },
  })
}

function invalid(target: string, error: z.core.$ZodError): HttpProblem {
  const problems = error.issues.slice(0, 20).map(({ path, message }) => ({ path: path.join('.'), message }))
  const detail = problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')
  if (target === 'param')
    return new HttpProblem({
      code: 'not_found',
      detail: 'there is nothing with that id',
      remedy: 'take ids from a list of this API',
    })
  if (target === 'json')
    return new HttpProblem({
      code: 'invalid_input',
      detail,
      remedy: 'correct the body; /api/v1/openapi.json describes it',
      extra: { problems },
    })
  return new HttpProblem({
    code: 'malformed_request',
    detail,
    remedy: 'correct the query parameters; /api/v1/openapi.json describes them',
    extra: { problems },
  })
}
