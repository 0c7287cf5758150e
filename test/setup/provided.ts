declare module 'vitest' {
  interface ProvidedContext {
    dialect: 'pglite' | 'postgres'
    /** Path of the tar that embedded databases start from. */
    pgliteImage: string
    /** Superuser URL of the server of this run, with `/` as its path. */
    postgresUrl: string
    /** Set where tests run as a role without rights of its own, in one organization, under row-level security. */
    role?: 'member'
  }
}

/** Database on the server of this run that holds the migrated schema and nothing else. Nobody connects to it. */
export const TEMPLATE = 'bailiff_template'

/** The organization that row-level security shows to tests that run as a member, and the usual one everywhere else. */
export const ORGANIZATION = '0192f0c1-0000-7000-8000-000000000001'

/** Login of tests that run as a member. */
export const MEMBER = { name: 'bailiff_test_member', password: 'test' } as const
