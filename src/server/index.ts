export { readCsvInput, type CsvInput } from '../cli/csv-input.ts'
export { ConfigError, defineConfig, loadConfig } from './config.ts'
export type { AppParts, AppServices, BailiffConfig, ConnectionSeed, OrganizationSeed } from './config.ts'
