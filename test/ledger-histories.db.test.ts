import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { v7 as uuidv7 } from 'uuid'
import { approvalStore } from '../src/storage/approval-store.ts'
import { callLedger } from '../src/storage/call-ledger.ts'
import type { Database } from '../src/storage/database.ts'
import { history } from '../src/testing/ledger-history.ts'
import { playHistory, type LedgerScene } from '../src/testing/ledger-suite.ts'
import { testDatabase, type TestDatabase, unusedOrganization } from './setup/database.ts'

let db: TestDatabase
let other: Database

beforeAll(async () => {
  db = await testDatabase()
  other = await db.another()
})
afterAll(() => db.close())

// As a member the statements are the same; what is asked there is only whether they keep to their organization.
const HISTORIES = inject('role') === 'member' ? 40 : Number(process.env['BAILIFF_TEST_HISTORIES'] ?? 150)
const BY = '{"kind":"system","id":"suite","name":"suite"}'

/** A fresh organization with one run; ledger and approvals on two pools, as two processes would have them. */
async function scene(): Promise<LedgerScene> {
  const organizationId = await unusedOrganization(db)
  const [definitionId, runId] = [uuidv7(), uuidv7()]
  const run = (text: string): Promise<void> => db.database.execute(text)
  await run(`
    INSERT INTO agent.organizations (id, slug, name) VALUES ('${organizationId}', '${organizationId}', 'suite');
    INSERT INTO agent.definitions (id, organization_id, slug, version, body, body_hash) VALUES ('${definitionId}', '${organizationId}', 'suite', 1, '{}', '\\x00');
    INSERT INTO agent.runs (id, organization_id, root_run_id, definition_id, definition, status, source, input, snapshot, deadline)
      VALUES ('${runId}', '${organizationId}', '${runId}', '${definitionId}', 'suite', 'running', 'api', '{}', '{}', now() + interval '1 day');
    INSERT INTO agent.run_control (run_id, organization_id) VALUES ('${runId}', '${organizationId}');
    INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by)
      VALUES ('${uuidv7()}', '${organizationId}', 'suite', 'notes.write', '${BY}'), ('${uuidv7()}', '${organizationId}', 'suite', 'mail.send', '${BY}')`)
  return {
    ledger: callLedger(db.database, { newId: () => uuidv7() }),
    approvals: approvalStore(other),
    organizationId,
    runId,
    agent: 'suite',
    newId: () => uuidv7(),
    setGranted: (tool, granted) =>
      run(
        `UPDATE agent.grants SET revoked_at = ${granted ? 'NULL' : 'now()'} WHERE organization_id = '${organizationId}' AND tool = '${tool}'`,
      ),
    setEnabled: (tool, enabled) =>
      run(`INSERT INTO agent.tool_states (organization_id, tool, enabled, changed_by) VALUES ('${organizationId}', '${tool}', ${enabled}, '${BY}')
        ON CONFLICT (organization_id, tool) DO UPDATE SET enabled = ${enabled}`),
    changeRules: () =>
      run(`UPDATE agent.organizations SET rules_version = rules_version + 1 WHERE id = '${organizationId}'`),
    cancel: () => run(`UPDATE agent.run_control SET cancel_requested_at = now() WHERE run_id = '${runId}'`),
    expireLeases: () =>
      run(
        `UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 hour' WHERE organization_id = '${organizationId}'`,
      ),
    makeDue: (id) => run(`UPDATE agent.approvals SET expires_at = now() - interval '1 hour' WHERE id = '${id}'`),
  }
}

test(
  `the store agrees with the reference model over ${HISTORIES} random histories`,
  async () => {
    let played = 0
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        await playHistory(await scene(), steps)
        played += 1
      }),
      { numRuns: HISTORIES },
    )
    expect(played).toBeGreaterThanOrEqual(HISTORIES)
  },
  HISTORIES * 1_000,
)
