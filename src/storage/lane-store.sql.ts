import { statement } from './statement.ts'

/** Of a row `r`: it could go on now or later and holds no place. The words of the index `runs_waiting`, which is found by them. */
const WAITS = `(r.status = 'queued' OR (r.status = 'parked' AND r.wake_at IS NOT NULL)) AND r.held_at IS NULL AND r.source <> 'library'`

/** Since when a waiting run could go on, to be compared with `statement_timestamp()`: an index is searched by no other clock that moves. Nothing but its own turn moves it, so that whoever waits longest is first for ever. */
const READY_SINCE = 'coalesce(r.wake_at, r.created_at)'

/** Of a row `r` that is queued or parked. A parked one without a time waits for somebody to say when. */
const IS_READY = `(coalesce(${READY_SINCE} <= statement_timestamp(), false) AND (r.status = 'queued' OR r.wake_at IS NOT NULL))`

/** Of a row `r`: its segment has not been heard of for as many seconds as the parameter says. */
const dead = (
  staleS: string,
): string => `r.begun_at <= clock_timestamp() - make_interval(secs => ${staleS}::float8) AND NOT EXISTS (
        SELECT FROM agent.run_heartbeats h WHERE h.run_id = r.id AND h.segment_id = r.segment_id
          AND h.beat_at > clock_timestamp() - make_interval(secs => ${staleS}::float8))`

/** Places that are taken in the lane of a row `of`. A run of somebody's own loop takes none. */
const taken = (of: string): string => `(SELECT count(*) FROM agent.runs a
       WHERE a.organization_id = ${of}.organization_id AND a.lane = ${of}.lane AND a.status = 'running' AND a.source <> 'library')`

/** The key of a lane's lock: transactions that give out its places, or close it, come one after the other. */
const laneKey = (of: string): string =>
  `hashtextextended('bailiff.lane ' || ${of}.organization_id::text || ' ' || ${of}.lane, 0)`

/**
 * Takes the run's row and then the lane, in that order: whoever holds a lane waits for no row any more, so that lanes are
 * held for a moment only and never in a circle. Nothing is taken for a run that has ended.
 */
export const LOCK_LANE_OF_RUN = statement(
  'lane_lock_run',
  `WITH mine AS (
     SELECT r.organization_id, r.lane, r.source FROM agent.runs r
     WHERE r.id = $1::uuid AND r.status IN ('queued', 'running', 'parked') FOR UPDATE
   )
   SELECT pg_advisory_xact_lock(${laneKey('mine')}) FROM mine WHERE mine.source <> 'library'`,
)

export const LOCK_LANE = statement(
  'lane_lock',
  `SELECT pg_advisory_xact_lock(${laneKey('mine')}) FROM (SELECT $1::uuid AS organization_id, $2::text AS lane) mine`,
)

/**
 * Gives the places of dead segments back, in the lane of one run: what was silent for so long owns nothing any more, and
 * its writes are refused when it wakes. So every row that says `running` holds a place, and counting them is exact.
 * Rows that somebody else holds are left for the next time: the holder of a lane must not wait.
 */
export const REAP_LANE = statement(
  'lane_reap',
  `UPDATE agent.runs SET status = 'queued', segment_id = NULL, wake_at = NULL, abandoned = abandoned + 1
   WHERE id IN (
     SELECT r.id FROM agent.runs mine
     JOIN agent.runs r ON r.organization_id = mine.organization_id AND r.lane = mine.lane AND r.status = 'running'
     WHERE mine.id = $1::uuid AND (r.id = mine.id OR (r.source <> 'library' AND mine.source <> 'library'))
       AND ${dead('$2')}
     FOR UPDATE OF r SKIP LOCKED)`,
)

/**
 * Begins a run whose lane has a place for it: fewer are running, together with those that wait longer, than the lane
 * takes. Those that wait longer count although they hold no place yet; otherwise a flood of new runs, each asking at the
 * right moment, would keep them out for ever. Needs the lane's lock, and a snapshot from after it was taken: the lock is a
 * statement of its own.
 */
export const BEGIN = statement(
  'run_begin',
  `WITH place AS MATERIALIZED (
     SELECT mine.id, mine.source = 'library' OR (l.paused_at IS NULL AND ${taken('mine')} + (
       SELECT count(*) FROM (
         SELECT FROM agent.runs r
         WHERE r.organization_id = mine.organization_id AND r.lane = mine.lane AND ${WAITS}
           AND ${READY_SINCE} <= statement_timestamp()
           AND (${READY_SINCE}, r.id) < (coalesce(mine.wake_at, mine.created_at), mine.id)
         LIMIT room.places) longer
     ) < room.places) AS free
     FROM agent.runs mine
     LEFT JOIN agent.lanes l ON l.organization_id = mine.organization_id AND l.lane = mine.lane
     CROSS JOIN LATERAL (SELECT coalesce(l.max_active, CASE mine.lane WHEN 'batch' THEN $4::integer ELSE $3::integer END) AS places) room
     WHERE mine.id = $1::uuid
   ), begun AS (
     UPDATE agent.runs r SET status = 'running', segment_id = $2::uuid, begun_at = clock_timestamp(), wake_at = NULL, message = NULL,
       started_at = coalesce(r.started_at, clock_timestamp())
     FROM place
     WHERE r.id = place.id AND place.free AND r.held_at IS NULL AND r.status IN ('queued', 'parked')
     RETURNING r.*
   ), heart AS (
     INSERT INTO agent.run_heartbeats AS h (run_id, organization_id, segment_id, beat_at)
     SELECT id, organization_id, segment_id, begun_at FROM begun
     ON CONFLICT (run_id) DO UPDATE SET segment_id = EXCLUDED.segment_id, beat_at = EXCLUDED.beat_at
   )
   SELECT begun.*, clock_timestamp() AS now FROM begun`,
)

/** Why a run did not begin. */
export const NOT_BEGUN = statement(
  'run_not_begun',
  `SELECT r.*, l.paused_at IS NOT NULL AS lane_paused, c.cancel_requested_at IS NOT NULL AS cancelled, c.cancel_reason
   FROM agent.runs r
   LEFT JOIN agent.lanes l ON l.organization_id = r.organization_id AND l.lane = r.lane
   LEFT JOIN agent.run_control c ON c.run_id = r.id
   WHERE r.id = $1::uuid`,
)

const limitOf = (lane: string, [interactive, batch]: readonly [string, string]): string =>
  `coalesce(l.max_active, CASE ${lane} WHEN 'batch' THEN ${batch}::integer ELSE ${interactive}::integer END)`

/** Ready runs for the free places of a lane `w`, whoever waits longest first. */
const forFreePlaces = (
  defaults: readonly [string, string],
): string => `SELECT r.id, ${READY_SINCE} AS since FROM agent.runs r
     WHERE r.organization_id = w.organization_id AND r.lane = w.lane AND ${WAITS} AND ${READY_SINCE} <= statement_timestamp()
     ORDER BY ${READY_SINCE}, r.id
     LIMIT (CASE WHEN l.paused_at IS NULL THEN greatest(0, ${limitOf('w.lane', defaults)} - ${taken('w')}) ELSE 0 END)`

export const NEXT = statement(
  'lane_next',
  `SELECT ready.id FROM (SELECT $1::uuid AS organization_id, $2::text AS lane) w
   LEFT JOIN agent.lanes l ON l.organization_id = w.organization_id AND l.lane = w.lane
   CROSS JOIN LATERAL (${forFreePlaces(['$3', '$4'])}) ready
   ORDER BY ready.since, ready.id`,
)

/**
 * Of every lane, as many as have a place: a lane that is full of waiting runs is looked at with one step in an index, and
 * names none. With them the runs whose segment died, and those whose time is over: these end without a place.
 */
export const DUE = statement(
  'run_due',
  `WITH RECURSIVE w AS (
     (SELECT r.organization_id, r.lane FROM agent.runs r WHERE ${WAITS} ORDER BY r.organization_id, r.lane LIMIT 1)
     UNION ALL
     SELECT n.organization_id, n.lane FROM w CROSS JOIN LATERAL (
       SELECT r.organization_id, r.lane FROM agent.runs r
       WHERE ${WAITS} AND (r.organization_id, r.lane) > (w.organization_id, w.lane)
       ORDER BY r.organization_id, r.lane LIMIT 1) n
   )
   SELECT due.id FROM (
     SELECT ready.id, ready.since FROM w
     LEFT JOIN agent.lanes l ON l.organization_id = w.organization_id AND l.lane = w.lane
     CROSS JOIN LATERAL (${forFreePlaces(['$3', '$4'])}) ready
     UNION
     SELECT r.id, r.begun_at FROM agent.runs r WHERE r.status = 'running' AND r.source <> 'library' AND ${dead('$1')}
     UNION
     (SELECT r.id, ${READY_SINCE} FROM agent.runs r
      WHERE r.status IN ('queued', 'parked') AND r.held_at IS NULL AND r.source <> 'library' AND r.deadline <= statement_timestamp()
      ORDER BY r.deadline LIMIT $2::integer)
   ) due
   WHERE $5::uuid IS NULL OR EXISTS (SELECT FROM agent.runs o WHERE o.id = due.id AND o.organization_id = $5::uuid)
   ORDER BY due.since LIMIT $2::integer`,
)

/** `queued` is what could go on now. What waits for a time counts as parked, be it for a person or for its next try. */
export const LANE_COUNTS = statement(
  'lane_counts',
  `SELECT r.lane,
     count(*) FILTER (WHERE r.status = 'running')::integer AS active,
     count(*) FILTER (WHERE r.status <> 'running' AND r.held_at IS NULL AND ${IS_READY})::integer AS queued,
     count(*) FILTER (WHERE r.status <> 'running' AND (r.held_at IS NOT NULL OR NOT ${IS_READY}))::integer AS parked
   FROM agent.runs r
   WHERE r.organization_id = $1::uuid AND r.status IN ('queued', 'running', 'parked') AND r.source <> 'library'
   GROUP BY r.lane`,
)
