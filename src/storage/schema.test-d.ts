import type { Insertable, Selectable, Updateable } from 'kysely'
import { describe, expectTypeOf, test } from 'vitest'
import type { JsonValue } from '../tools/json.ts'
import type { DatabaseSchema } from './schema.ts'
import type { ScopedSchema } from './scoped-db.ts'

describe('a row of the database', () => {
  type Run = DatabaseSchema['agent.runs']

  test('is read as JavaScript values', () => {
    expectTypeOf<Selectable<Run>>().toExtend<{
      id: string
      input: JsonValue
      output: JsonValue | null
      wake_counter: number
      created_at: Date
      ended_at: Date | null
      status: 'queued' | 'running' | 'parked' | 'completed' | 'partial' | 'failed' | 'cancelled'
    }>()
    expectTypeOf<Selectable<DatabaseSchema['agent.approvals']>['arguments_hash']>().toEqualTypeOf<Buffer>()
    expectTypeOf<Selectable<DatabaseSchema['public.ai_usage_log']>['cost_cents']>().toEqualTypeOf<number>()
  })

  test('is written with JSON as text, and without what the database fills in', () => {
    expectTypeOf<Insertable<Run>['input']>().toEqualTypeOf<string>()
    expectTypeOf<undefined>().toExtend<Insertable<Run>['created_at']>()
    expectTypeOf<undefined>().toExtend<Insertable<Run>['turns']>()
    expectTypeOf<undefined>().not.toExtend<Insertable<Run>['deadline']>()
    expectTypeOf<Insertable<Run>['organization_id']>().toEqualTypeOf<string>()
  })
})

describe('a row behind a scope', () => {
  type Person = ScopedSchema['public.people']

  test('is stamped with its organization and stays there', () => {
    expectTypeOf<Selectable<Person>['organization_id']>().toEqualTypeOf<string>()
    expectTypeOf<undefined>().toExtend<Insertable<Person>['organization_id']>()
    expectTypeOf<'organization_id'>().not.toExtend<keyof Updateable<Person>>()
  })

  test('is none of the platform’s credentials or of a table without an owner', () => {
    expectTypeOf<'agent.api_keys'>().not.toExtend<keyof ScopedSchema>()
    expectTypeOf<'agent.console_sessions'>().not.toExtend<keyof ScopedSchema>()
    expectTypeOf<'agent.tools'>().not.toExtend<keyof ScopedSchema>()
  })
})
