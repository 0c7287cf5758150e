import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsOf, type Import } from './imports.ts'
import { tokensOf, type Comment, type Token } from './tokens.ts'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export interface SourceFile {
  /** From the root of the project, with slashes. */
  readonly path: string
  readonly text: string
  readonly tokens: readonly Token[]
  readonly comments: readonly Comment[]
  readonly imports: readonly Import[]
}

/** Every TypeScript file of the given folders; a folder that is not there has none. */
export function readSources(folders: readonly string[]): SourceFile[] {
  return folders
    .filter((folder) => existsSync(join(ROOT, folder)))
    .flatMap((folder) => readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .toSorted()
    .map((path) => sourceFile(path, readFileSync(join(ROOT, path), 'utf8')))
}

export function sourceFile(path: string, text: string): SourceFile {
  try {
    const { tokens, comments } = tokensOf(text)
    return { path, text, tokens, comments, imports: importsOf(tokens) }
  } catch (error) {
    throw new Error(`${path} cannot be read`, { cause: error })
  }
}

export function isTest(path: string): boolean {
  return /\.(test|test-d)\.ts$/.test(path)
}
