import type { UpkeepTurns } from '../runs/upkeep.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** One of several that ask at once changes the row; the others find it due later. */
const TAKE = statement(
  'upkeep_take',
  `INSERT INTO agent.upkeep AS u (name, due_at) VALUES ($1::text, $2::timestamptz + make_interval(secs => $3::float8))
   ON CONFLICT (name) DO UPDATE SET due_at = EXCLUDED.due_at WHERE u.due_at <= $2::timestamptz`,
)

const GIVE_BACK = statement(
  'upkeep_give_back',
  'UPDATE agent.upkeep SET due_at = $2::timestamptz WHERE name = $1::text',
)

export function upkeepTurns(database: Queryable): UpkeepTurns {
  return {
    async take(name, now, periodS) {
      return (await database.query(TAKE, [name, now, periodS])).affected > 0
    },
    async giveBack(name, now) {
      await database.query(GIVE_BACK, [name, now])
    },
  }
}
