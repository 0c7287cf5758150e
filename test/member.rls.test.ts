import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../src/storage/database.ts'
import { usageStore } from '../src/storage/usage-store.ts'
