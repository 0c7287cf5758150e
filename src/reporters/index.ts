export { sentryReporter, type SentryOptions, type SentryReporter } from './sentry.ts'
