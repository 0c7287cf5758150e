// Makes dist/ from src/. Run as `node scripts/build.ts`.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist')

/** Read at run time from beside the compiled files; the compiler does not know of them. */
const STATIC = ['storage/migrations', 'server/pages']

rmSync(dist, { recursive: true, force: true })
compile()
for (const folder of STATIC) copyStatic(folder)
chmodSync(join(dist, 'cli/main.js'), 0o755)

function compile(): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  try {
    execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
  } catch {
    // The compiler has said what is wrong. Half a build must not pass for one.
    rmSync(dist, { recursive: true, force: true })
    process.exit(1)
  }
}

function copyStatic(folder: string): void {
  const from = join(root, 'src', folder)
  if (!existsSync(from)) return
  cpSync(from, join(dist, folder), { recursive: true, filter: (path) => !path.endsWith('.ts') })
}
