-- Two schemas: `agent` is the platform, `public` the organization's domain data.
-- Every organization-owned table starts its key or an index with organization_id and has row-level security. The
-- service path sets no role (BEGIN/set_config/COMMIT halves the throughput) and filters explicitly; the policies guard
-- every path that runs as `bailiff_member` with app.organization_id set.
CREATE SCHEMA agent;

CREATE TABLE agent.organizations (
  id            uuid PRIMARY KEY,
  slug          text NOT NULL UNIQUE,
  name          text NOT NULL,
  -- { selfApproval, approvalTtlS, policyDefaults: { read, write, send } }; absent keys take the platform's defaults.
  settings      jsonb NOT NULL DEFAULT '{}',
  -- Moves with every change of a rule or of the defaults; a claim compares it with what its decision was made on.
  rules_version bigint NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agent.users (
  id         uuid PRIMARY KEY,
  email      text NOT NULL,
  name       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX users_email ON agent.users (lower(email));

CREATE TABLE agent.memberships (
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  user_id         uuid NOT NULL REFERENCES agent.users (id) ON DELETE CASCADE,
  role            text NOT NULL CHECK (role IN ('owner', 'approver', 'member', 'viewer')),
  created_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, user_id)
);

CREATE TABLE agent.api_keys (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  kind            text NOT NULL CHECK (kind IN ('run', 'approve', 'admin')),
  name            text NOT NULL,
  -- sha-256 of the key; the key itself is shown once and never stored.
  key_hash        bytea NOT NULL UNIQUE,
  created_at      timestamptz NOT NULL DEFAULT now(),
  revoked_at      timestamptz
);
CREATE INDEX api_keys_organization ON agent.api_keys (organization_id);

CREATE TABLE agent.console_sessions (
  token_hash      bytea PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  -- Whose authority it carries: a person's, or an API key's that signed in; it ends with either.
  user_id         uuid REFERENCES agent.users (id) ON DELETE CASCADE,
  key_id          uuid REFERENCES agent.api_keys (id) ON DELETE CASCADE,
  -- `sign_in` tokens are printed at start and work once; they become a `session`.
  kind            text NOT NULL CHECK (kind IN ('sign_in', 'session')),
  created_at      timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz NOT NULL,
  used_at         timestamptz,
  CHECK (num_nonnulls(user_id, key_id) = 1)
);
CREATE INDEX console_sessions_organization ON agent.console_sessions (organization_id);

-- The catalogue of contract versions: a version is a stored function of the hash, so deployments that run side by side
-- agree on it and never flip-flop.
CREATE TABLE agent.tools (
  name        text NOT NULL,
  schema_hash bytea NOT NULL,
  version     integer NOT NULL,
  spec        jsonb NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, schema_hash),
  UNIQUE (name, version)
);

CREATE TABLE agent.tool_states (
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  tool            text NOT NULL,
  enabled         boolean NOT NULL,
  changed_at      timestamptz NOT NULL DEFAULT now(),
  changed_by      jsonb NOT NULL,
  PRIMARY KEY (organization_id, tool)
);

CREATE TABLE agent.definitions (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  slug            text NOT NULL,
  version         integer NOT NULL,
  -- { instructions, tools, model, ceilings }
  body            jsonb NOT NULL,
  body_hash       bytea NOT NULL,
  published_at    timestamptz NOT NULL DEFAULT now(),
  UNIQUE (organization_id, slug, version)
);

-- A live right of one definition to call one tool. A withdrawn grant stays, so that publishing again cannot restore it.
CREATE TABLE agent.grants (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  definition      text NOT NULL,
  tool            text NOT NULL,
  granted_at      timestamptz NOT NULL DEFAULT now(),
  granted_by      jsonb NOT NULL,
  revoked_at      timestamptz,
  revoked_by      jsonb,
  UNIQUE (organization_id, definition, tool)
);

CREATE TABLE agent.policy_rules (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  name            text NOT NULL,
  tools           jsonb NOT NULL,
  condition       text,
  effect          text NOT NULL CHECK (effect IN ('allow', 'deny', 'require_approval')),
  mode            text NOT NULL CHECK (mode IN ('enforce', 'shadow')),
  approvers       jsonb NOT NULL DEFAULT '[]',
  ttl_s           integer,
  -- { count, per: run | hour | day }; null applies the rule to every call it matches.
  call_limit      jsonb,
  created_at      timestamptz NOT NULL DEFAULT now(),
  created_by      jsonb NOT NULL,
  deleted_at      timestamptz
);
CREATE UNIQUE INDEX policy_rules_name ON agent.policy_rules (organization_id, name) WHERE deleted_at IS NULL;

CREATE TABLE agent.connections (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  provider        text NOT NULL,
  label           text NOT NULL,
  state           text NOT NULL CHECK (state IN ('connected', 'needs_reauth', 'revoked')),
  -- Public settings only. Secrets never stand here.
  settings        jsonb NOT NULL DEFAULT '{}',
  created_at      timestamptz NOT NULL DEFAULT now(),
  changed_at      timestamptz NOT NULL DEFAULT now(),
  UNIQUE (organization_id, provider, label)
);

CREATE TABLE agent.runs (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  root_run_id     uuid NOT NULL,
  definition_id   uuid NOT NULL REFERENCES agent.definitions (id),
  definition      text NOT NULL,
  status          text NOT NULL CHECK (status IN ('queued', 'running', 'parked', 'completed', 'partial', 'failed', 'cancelled')),
  -- Stable code of a failed run, reason of a partial one.
  reason          text,
  message         text,
  source          text NOT NULL,
  input           json NOT NULL,
  output          json,
  -- { contracts, principal, ceilings, instructions, model }: frozen at start.
  snapshot        json NOT NULL,
  turns           integer NOT NULL DEFAULT 0,
  tool_calls      integer NOT NULL DEFAULT 0,
  -- Moves with every reason to look at the run again; a segment parks only if it has not moved since it started.
  wake_counter    bigint NOT NULL DEFAULT 0,
  -- Segments that failed in a row; a finished model turn sets it back.
  failures        integer NOT NULL DEFAULT 0,
  -- Names the segment that owns the run while it is running, and when it took the run.
  segment_id      uuid,
  begun_at        timestamptz,
  deadline        timestamptz NOT NULL,
  wake_at         timestamptz,
  created_at      timestamptz NOT NULL DEFAULT now(),
  started_at      timestamptz,
  ended_at        timestamptz
);
CREATE INDEX runs_listing ON agent.runs (organization_id, id DESC);
CREATE INDEX runs_open ON agent.runs (status, wake_at) WHERE status IN ('queued', 'running', 'parked');

-- Apart from the run row, so that a person's cancel never waits for a segment's update.
CREATE TABLE agent.run_control (
  run_id              uuid PRIMARY KEY,
  organization_id     uuid NOT NULL,
  cancel_requested_at timestamptz,
  cancel_reason       text,
  cancelled_by        jsonb
);

-- A narrow table of its own: a heartbeat on the run row slows every claim beside it to 0.43 of its rate.
CREATE TABLE agent.run_heartbeats (
  run_id          uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  segment_id      uuid NOT NULL,
  beat_at         timestamptz NOT NULL
);

CREATE TABLE agent.run_sessions (
  run_id          uuid PRIMARY KEY REFERENCES agent.runs (id) ON DELETE CASCADE,
  organization_id uuid NOT NULL,
  framework       text NOT NULL,
  -- Version of the state's shape; a newer build upcasts an older one.
  state_version   integer NOT NULL,
  state           json NOT NULL,
  -- Set while proposals of a turn are open; approvals filed for them carry it.
  pause_id        uuid,
  saved_at        timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agent.approvals (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  run_id          uuid NOT NULL,
  idempotency_key text NOT NULL,
  pause_id        uuid,
  span_id         uuid NOT NULL,
  kind            text NOT NULL CHECK (kind IN ('action', 'outcome')),
  state           text NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'cancelled', 'stale')),
  action          text NOT NULL,
  tool_version    integer NOT NULL,
  arguments       json NOT NULL,
  arguments_hash  bytea NOT NULL,
  connection_id   uuid,
  preview         text,
  rule_id         uuid,
  rule_name       text,
  facts           json NOT NULL DEFAULT '{}',
  approvers       jsonb NOT NULL DEFAULT '[]',
  principal       json NOT NULL,
  requested_at    timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz NOT NULL,
  decided_at      timestamptz,
  decided_by      jsonb,
  note            text
);
-- One open question a call; the key is released by a terminal row.
CREATE UNIQUE INDEX approvals_pending ON agent.approvals (run_id, idempotency_key) WHERE state = 'pending';
CREATE INDEX approvals_by_key ON agent.approvals (run_id, idempotency_key);
CREATE INDEX approvals_listing ON agent.approvals (organization_id, state, id);
CREATE INDEX approvals_expiry ON agent.approvals (expires_at) WHERE state = 'pending';

-- High-rate tables: no foreign keys to organizations or runs (0.77 of the rate, measured), hash keys as bytea, no index
-- on lease or status so that updates stay heap-only.
CREATE TABLE agent.idempotency_keys (
  organization_id uuid NOT NULL,
  scope           text NOT NULL,
  key             text NOT NULL,
  run_id          uuid,
  status          text NOT NULL CHECK (status IN ('processing', 'completed', 'reclaimable')),
  request_hash    bytea NOT NULL,
  attempt         integer NOT NULL DEFAULT 1,
  -- The span of the attempt that owns the claim: completion is conditional on it, so a late worker changes nothing.
  owner           uuid NOT NULL,
  lease_until     timestamptz NOT NULL,
  response        json,
  -- Rules with a limit that counted this call, each with the period it was counted in; null for most calls.
  counted         jsonb,
  claimed_at      timestamptz NOT NULL DEFAULT now(),
  completed_at    timestamptz,
  PRIMARY KEY (organization_id, scope, key)
) WITH (fillfactor = 80);
CREATE INDEX idempotency_keys_run ON agent.idempotency_keys (run_id);

-- Allowed calls that a rule with a limit has counted. Rules are named, not numbered, so that one that is saved again
-- goes on counting. Narrow, with room on the page: a counter is updated far more often than it is made.
CREATE TABLE agent.rule_counters (
  organization_id uuid NOT NULL,
  -- As `agent.limit_period` writes it.
  period          text NOT NULL,
  rule            text NOT NULL,
  used            integer NOT NULL CHECK (used >= 0),
  PRIMARY KEY (organization_id, period, rule)
) WITH (fillfactor = 50);

-- The period a call falls into now: the run tree, or the hour or day in UTC by the clock of the database.
CREATE FUNCTION agent.limit_period(per text, root_run_id uuid) RETURNS text LANGUAGE sql STABLE AS
$$ SELECT per || ':' || CASE per
     WHEN 'run' THEN root_run_id::text
     WHEN 'hour' THEN to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')
     WHEN 'day' THEN to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD')
   END $$;

-- Undoes the statement that calls it: a claim and what it counts stand or fall together.
CREATE FUNCTION agent.limit_reached() RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the limit of a rule is reached' USING ERRCODE = 'BL001'; END $$;

-- Untrusted content that entered a run tree, by the tool that brought it. Written before the content is answered.
CREATE TABLE agent.run_taints (
  organization_id uuid NOT NULL,
  root_run_id     uuid NOT NULL,
  source          text NOT NULL,
  tainted_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, root_run_id, source)
);

CREATE TABLE agent.spans (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  run_id          uuid NOT NULL,
  root_run_id     uuid,
  parent_id       uuid,
  kind            text NOT NULL CHECK (kind IN ('run', 'segment', 'llm', 'tool')),
  name            text NOT NULL,
  status          text NOT NULL CHECK (status IN ('running', 'ok', 'error')),
  code            text,
  started_at      timestamptz NOT NULL,
  ended_at        timestamptz,
  -- Small facts for the tree: approval id, replayed, attempt, usage id, tool version.
  attributes      jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX spans_tree ON agent.spans (organization_id, run_id, started_at, id);

-- Payloads apart from the tree rows, which are read far more often.
CREATE TABLE agent.span_payloads (
  span_id         uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  input           json,
  output          json
);

CREATE TABLE agent.policy_decisions (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  run_id          uuid NOT NULL,
  span_id         uuid NOT NULL,
  tool            text NOT NULL,
  -- Of the arguments that were decided on, so that a replay knows whether it has the same ones.
  arguments_hash  bytea NOT NULL,
  stage           smallint NOT NULL,
  outcome         text NOT NULL CHECK (outcome IN ('allow', 'deny', 'require_approval', 'fault')),
  rule_id         uuid,
  rule_name       text,
  message         text,
  facts           json NOT NULL DEFAULT '{}',
  shadow          json NOT NULL DEFAULT '[]',
  approval_id     uuid,
  decided_at      timestamptz NOT NULL
);
CREATE INDEX policy_decisions_run ON agent.policy_decisions (organization_id, run_id, decided_at);

CREATE TABLE public.ai_usage_log (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  root_run_id     uuid NOT NULL,
  run_id          uuid NOT NULL,
  span_id         uuid,
  kind            text NOT NULL CHECK (kind IN ('model', 'tool')),
  provider        text NOT NULL,
  item            text NOT NULL,
  -- What was counted: { inputTokens, outputTokens } or { credits }.
  quantity        jsonb NOT NULL,
  cost_cents      numeric(14, 6) NOT NULL CHECK (cost_cents >= 0),
  created_at      timestamptz NOT NULL DEFAULT now()
);
-- Covers the one read of the accrual checkpoint: the total of a run tree.
CREATE INDEX ai_usage_log_tree ON public.ai_usage_log (organization_id, root_run_id) INCLUDE (cost_cents);
CREATE INDEX ai_usage_log_day ON public.ai_usage_log (organization_id, created_at);

CREATE TABLE public.people (
  id                  uuid PRIMARY KEY,
  organization_id     uuid NOT NULL,
  email               text NOT NULL,
  full_name           text NOT NULL,
  company             text,
  title               text,
  -- Provenance: which run and tool wrote the row last, and whether its content came from outside. Null run: a person or an import.
  written_by_run      uuid,
  written_by_root_run uuid,
  written_by_tool     text,
  -- The root run that created the row; null when it was there before any run.
  created_by_root_run uuid,
  trusted             boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz
);
CREATE UNIQUE INDEX people_email ON public.people (organization_id, lower(email)) WHERE deleted_at IS NULL;

DO $$
BEGIN
  -- Roles belong to the cluster: another database of it may have made this one, or be making it now.
  CREATE ROLE bailiff_member NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END $$;
GRANT USAGE ON SCHEMA agent, public TO bailiff_member;

-- The organization of the statement; unset reads as no organization, so an unset path sees nothing.
CREATE FUNCTION agent.current_organization() RETURNS uuid LANGUAGE sql STABLE AS
$$ SELECT nullif(current_setting('app.organization_id', true), '')::uuid $$;

DO $$
DECLARE
  owned text;
BEGIN
  FOREACH owned IN ARRAY ARRAY[
    'agent.memberships', 'agent.api_keys', 'agent.console_sessions', 'agent.tool_states', 'agent.definitions',
    'agent.grants', 'agent.policy_rules', 'agent.connections', 'agent.runs', 'agent.run_control',
    'agent.run_heartbeats', 'agent.run_sessions', 'agent.approvals', 'agent.idempotency_keys', 'agent.rule_counters',
    'agent.run_taints', 'agent.spans', 'agent.span_payloads', 'agent.policy_decisions', 'public.ai_usage_log',
    'public.people'
  ] LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned);
    EXECUTE format(
      'CREATE POLICY organization_isolation ON %s USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization())',
      owned);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO bailiff_member', owned);
  END LOOP;
END $$;

-- Credentials of the platform itself are for the service path alone.
REVOKE ALL ON agent.api_keys, agent.console_sessions FROM bailiff_member;
ALTER TABLE agent.organizations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON agent.organizations USING (id = agent.current_organization());
GRANT SELECT ON agent.organizations TO bailiff_member;
