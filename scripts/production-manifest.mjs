// Rewrites ./package.json for a production image: what a server brings along is installed with it, in the very versions
// of the lockfile, and nothing that only development needs. Run in a copy, never in the repository.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'

if (existsSync('.git')) throw new Error('this rewrites package.json: run it in a copy')

/** The embedded database has no place in a container, and random histories have none in production. */
const LEFT_OUT = ['@electric-sql/pglite', 'fast-check']

const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
for (const name of Object.keys(manifest.peerDependencies)) {
  if (!LEFT_OUT.includes(name)) manifest.dependencies[name] = manifest.devDependencies[name]
}
delete manifest.devDependencies
writeFileSync('package.json', JSON.stringify(manifest, null, 2))
