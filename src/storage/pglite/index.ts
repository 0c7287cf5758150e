export { type PgliteDatabase, type PGliteLike, type PgliteOptions, pgliteDatabase } from './driver.ts'
export { DataFolderInUse } from '../errors.ts'
