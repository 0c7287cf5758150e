#!/usr/bin/env node
import { buildProgram } from './program.ts'
import { reportFailure } from './failure.ts'

buildProgram()
  .parseAsync()
  .catch((error: unknown) => {
    process.exitCode = reportFailure(error, process.argv.includes('--json'))
  })
