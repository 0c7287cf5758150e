export { readCsvInput, type CsvInput } from './csv-input.ts'
export { createApp, type About, type App, type AppDependencies, type Hosting } from './app.ts'
export {
  ConfigError,
  defineConfig,
  findConfig,
  loadConfig,
  type AppParts,
  type AppServices,
  type BailiffConfig,
  type ConfigFault,
  type ConnectionSeed,
  type OrganizationSeed,
} from './config.ts'
export { ListenError, type ListenFault } from './listen.ts'
export { PlatformError, startPlatform, type Platform, type PlatformOptions } from './platform.ts'
export { VaultKeyMissing } from './vault-key.ts'
export {
  readSettings,
  SettingsError,
  type Environment,
  type SettingProblem,
  type Settings,
  type VendorKeys,
} from './settings.ts'
export { identityStore, type Identity, type IdentityStore } from '../storage/identity-store.ts'
