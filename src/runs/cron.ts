/** Seconds from tick to tick, counted from 1970; or the five fields of cron text, in UTC. */
export type Every = number | string

/** A time text or a number of seconds that no clock can follow. */
export class CronError extends Error {
  override readonly name = 'CronError'
}

const MINUTE_MS = 60_000
const DAY_S = 86_400

interface Field {
  readonly name: string
  readonly from: number
  readonly to: number
}

const FIELDS: readonly Field[] = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12 },
  // 7 is Sunday too.
  { name: 'day of week', from: 0, to: 7 },
]

/** The tick that `now` falls into: every clock that reads the same second names the same one. Null between two minutes of a cron text. @throws CronError */
export function tickAt(every: Every, now: Date): Date | null {
  if (typeof every === 'number') {
    const length = everySeconds(every) * 1000
    return new Date(Math.floor(now.getTime() / length) * length)
  }
  const fields = fieldsOf(every)
  const minute = new Date(Math.floor(now.getTime() / MINUTE_MS) * MINUTE_MS)
  return matches(fields, minute) ? minute : null
}

/** The same ticks as cron text, for engines that count in minutes; less than a minute becomes one. @throws CronError */
export function cronText(every: Every): string {
  if (typeof every === 'string') {
    fieldsOf(every)
    return every.trim().split(/\s+/).join(' ')
  }
  const minutes = everySeconds(every) / 60
  if (minutes <= 1) return '* * * * *'
  if (Number.isInteger(minutes) && 60 % minutes === 0) return minutes === 60 ? '0 * * * *' : `*/${minutes} * * * *`
  const hours = minutes / 60
  if (Number.isInteger(hours) && 24 % hours === 0) return hours === 24 ? '0 0 * * *' : `0 */${hours} * * *`
  throw new CronError(`${every} seconds are no even part of an hour or a day, which this engine counts in`)
}

/** @throws CronError */
export function everySeconds(every: number): number {
  if (!Number.isInteger(every) || every < 1 || every > DAY_S)
    throw new CronError('seconds between ticks are a whole number from 1 to 86400')
  return every
}

type Fields = readonly ReadonlySet<number>[]

function fieldsOf(text: string): Fields {
  const parts = text.slice(0, 256).trim().split(/\s+/)
  if (parts.length !== FIELDS.length)
    throw new CronError('cron text has five fields: minute, hour, day of month, month, day of week')
  return FIELDS.map((field, index) => new Set((parts[index] ?? '').split(',').flatMap((part) => valuesOf(field, part))))
}

/** `*`, `7`, `1-5`, each with `/2` behind it for every second one. */
function valuesOf(field: Field, part: string): number[] {
  const match = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/.exec(part)
  if (match === null) throw new CronError(`${JSON.stringify(part)} is no ${field.name}`)
  const [, first, last, step] = match
  const from = first === undefined ? field.from : Number(first)
  const to = last !== undefined ? Number(last) : first === undefined || step !== undefined ? field.to : from
  const by = step === undefined ? 1 : Number(step)
  if (from < field.from || to > field.to || from > to || by < 1)
    throw new CronError(`${JSON.stringify(part)} is no ${field.name}`)
  return Array.from({ length: Math.floor((to - from) / by) + 1 }, (_, index) => from + index * by)
}

/** A restricted day of month and a restricted day of week are alternatives, as cron has always read them. */
function matches(fields: Fields, minute: Date): boolean {
  const has = (index: number, value: number): boolean => fields[index]?.has(value) === true
  const weekday = minute.getUTCDay()
  const ofMonth = has(2, minute.getUTCDate())
  const ofWeek = has(4, weekday) || (weekday === 0 && has(4, 7))
  const restricted = (index: number, size: number): boolean => (fields[index]?.size ?? 0) < size
  const day = restricted(2, 31) && restricted(4, 7) ? ofMonth || ofWeek : ofMonth && ofWeek
  return day && has(0, minute.getUTCMinutes()) && has(1, minute.getUTCHours()) && has(3, minute.getUTCMonth() + 1)
}
