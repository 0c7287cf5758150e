declare module 'vitest' {
  interface ProvidedContext {
    dialect: 'pglite' | 'postgres'
    /** Path of the tar that embedded databases start from. */
    pgliteImage: string
    /** Superuser URL of the server of this run, with `/` as its path. */
    postgresUrl: string
  }
}

/** Database on the server of this run that holds the migrated schema and nothing else. Nobody connects to it. */
export const TEMPLATE = 'bailiff_template'
