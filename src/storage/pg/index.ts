export { type PgOptions, pgDatabase } from './driver.ts'
export { DatabaseUnavailable } from '../errors.ts'
