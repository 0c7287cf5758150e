/*
 * Writes an example of what this build stores beside those of earlier builds: saved conversations by version, and a
 * database with parked runs by migration. Files that exist stay as they are. Run as
 * `node --conditions=bailiff:source scripts/record-upgrade-examples.ts`.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { OWN_LOOP, OWN_LOOP_STATE_VERSION } from '../src/frameworks/ai-sdk/own-conversation.ts'
import { FRAMEWORK_NAME, STATE_VERSION } from '../src/frameworks/ai-sdk/state.ts'
import { migrate } from '../src/storage/migrate.ts'
import { pgliteDatabase } from '../src/storage/pglite/index.ts'
import { parkedFile, pathOf, stateFile } from '../test/upgrades/examples.ts'
import { record } from '../test/upgrades/record.ts'
import { savedStates } from '../test/upgrades/states.ts'

const database = await pgliteDatabase()
await migrate(database)
const { parked, ownLoop } = await record(database)
await database.close()

const examples: readonly (readonly [string, unknown])[] = [
  [stateFile(FRAMEWORK_NAME, STATE_VERSION), await savedStates()],
  [stateFile(OWN_LOOP, OWN_LOOP_STATE_VERSION), ownLoop],
  [parkedFile(parked.migration), parked],
]
const oxfmt = fileURLToPath(new URL('../node_modules/.bin/oxfmt', import.meta.url))
for (const [file, example] of examples) {
  const path = pathOf(file)
  if (existsSync(path)) {
    console.log(`${file} is there and stays as it is`)
    continue
  }
  writeFileSync(path, `${JSON.stringify(example, null, 2)}\n`)
  execFileSync(oxfmt, [path])
  console.log(`${file} is written`)
}
