import { writeFile } from 'node:fs/promises'
import { migrate } from '../../src/storage/migrate.ts'
import { pgliteDatabase } from '../../src/storage/pglite/index.ts'

const [target] = process.argv.slice(2)
if (target === undefined) throw new Error('usage: build-image.ts <target file>')

const database = await pgliteDatabase()
await migrate(database)
const image = await database.image()
await writeFile(target, Buffer.from(await image.arrayBuffer()))
await database.close()
