import type { Reporter, SerializedError, TestModule, TestRunEndReason, Vitest } from 'vitest/node'

interface Count {
  passed: number
  failed: number
  skipped: number
}

/** Makes `N passed, N failed` the very last line of a run, whatever else was printed, for people and scripts alike. */
export class ClosingLine implements Reporter {
  /** A run that never reaches its end has failed. */
  #count: Count = { passed: 0, failed: 1, skipped: 0 }

  onInit(vitest: Vitest): void {
    if (vitest.config.watch) return
    process.once('exit', () => {
      // The embedded server's exit hook ends the process with 0, whatever the tests said.
      if (this.#count.failed > 0) process.exitCode = 1
      process.stdout.write(`${closingLine(this.#count)}\n`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[], reason: TestRunEndReason): void {
    this.#count = count(modules)
    this.#count.failed += unhandled.length
    if (reason !== 'passed' && this.#count.failed === 0) this.#count.failed = 1
  }
}

/** A file or suite that could not be collected counts as one failure: its tests are not known. */
function count(modules: readonly TestModule[]): Count {
  const count: Count = { passed: 0, failed: 0, skipped: 0 }
  for (const module of modules) {
    count.failed += module.errors().length
    for (const suite of module.children.allSuites()) count.failed += suite.errors().length
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'passed') count.passed += 1
      else if (state === 'skipped') count.skipped += 1
      else count.failed += 1
    }
  }
  return count
}

function closingLine({ passed, failed, skipped }: Count): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
