import type { Database } from '../src/storage/database.ts'
import { unnamed } from '../src/storage/statement.ts'

/*
 * Every change that gives out or gives back a place of a lane, written down by the database itself in the transaction of
 * the change. A begin that is right is written down after what freed its place had been committed; two that pass each
 * other show as a sum above the limit.
 */
const INSTALL = `
  CREATE SCHEMA IF NOT EXISTS audit;
  CREATE TABLE IF NOT EXISTS audit.places (
    seq bigserial PRIMARY KEY, at timestamptz NOT NULL, run_id uuid NOT NULL, organization_id uuid NOT NULL, lane text NOT NULL, change integer NOT NULL
  );
  TRUNCATE audit.places;
  CREATE OR REPLACE FUNCTION audit.note_place() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO audit.places (at, run_id, organization_id, lane, change)
    VALUES (clock_timestamp(), NEW.id, NEW.organization_id, NEW.lane, CASE WHEN NEW.status = 'running' THEN 1 ELSE -1 END);
    RETURN NULL;
  END $$;
  CREATE OR REPLACE TRIGGER note_place AFTER UPDATE OF status ON agent.runs FOR EACH ROW
    WHEN (NEW.source <> 'library' AND (OLD.status = 'running') <> (NEW.status = 'running')) EXECUTE FUNCTION audit.note_place();
`

const PEAKS = unnamed(`
  SELECT organization_id AS "organizationId", lane, max(taken)::integer AS peak, count(*) FILTER (WHERE change > 0)::integer AS begun
  FROM (
    SELECT organization_id, lane, change, sum(change) OVER (PARTITION BY organization_id, lane ORDER BY at, change) AS taken
    FROM audit.places
  ) sums GROUP BY organization_id, lane ORDER BY organization_id, lane`)

const BEGUN = unnamed(`SELECT run_id AS id FROM audit.places WHERE change > 0 ORDER BY at`)

export interface LanePeak {
  readonly organizationId: string
  readonly lane: string
  /** Places that were taken at the same time, at most. */
  readonly peak: number
  readonly begun: number
}

/** Starts to write changes down; what was written before is forgotten. As the owner of the tables. */
export async function auditLanes(database: Database): Promise<void> {
  await database.execute(INSTALL)
}

export async function lanePeaks(database: Database): Promise<readonly LanePeak[]> {
  return (await database.query<LanePeak>(PEAKS)).rows
}

/** Ids of runs in the order in which their segments began. */
export async function begunOrder(database: Database): Promise<readonly string[]> {
  return (await database.query<{ id: string }>(BEGUN)).rows.map(({ id }) => id)
}
