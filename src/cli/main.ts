#!/usr/bin/env node
import { buildProgram } from './program.ts'
import { reportFailure } from './failure.ts'

// A reader that has seen enough, such as head, is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

buildProgram()
  .parseAsync()
  .catch((error: unknown) => {
    process.exitCode = reportFailure(error, process.argv.includes('--json'))
  })
