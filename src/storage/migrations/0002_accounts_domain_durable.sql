-- Accounts with sealed secrets, the CRM and what agents remember, runs that nest, upkeep, lanes, and work that a vendor
-- finishes later: in the order of these parts.

-- Accounts with a lifecycle: who signs in how, what expires when, and the secrets themselves, sealed.

ALTER TABLE agent.connections
  -- Where the secret half is: kept by the deployment itself, or here in the vault, typed in or granted by the provider.
  ADD COLUMN auth          text NOT NULL DEFAULT 'external' CHECK (auth IN ('external', 'secret', 'oauth2')),
  -- For people: the mailbox or user at the provider. Nothing is decided by it.
  ADD COLUMN account       text,
  -- What the provider granted, as it spells it.
  ADD COLUMN scope         text,
  -- End of the access token; null for what does not end by itself.
  ADD COLUMN expires_at    timestamptz,
  ADD COLUMN reauth_reason text,
  ADD COLUMN changed_by    jsonb,
  ADD CONSTRAINT connections_owner UNIQUE (organization_id, id);

-- A label names one live connection; once that is uninstalled, the label is free.
ALTER TABLE agent.connections DROP CONSTRAINT connections_organization_id_provider_label_key;
CREATE UNIQUE INDEX connections_label ON agent.connections (organization_id, provider, label) WHERE state <> 'revoked';
CREATE INDEX connections_by_provider ON agent.connections (organization_id, provider, label);

-- One sealed value a row: AES-256-GCM under a data key of its own, which is wrapped by a key that is never in the
-- database. Organization, connection, field and key are authenticated with it, so a row that is moved does not open.
CREATE TABLE agent.connection_secrets (
  organization_id uuid NOT NULL,
  connection_id   uuid NOT NULL,
  field           text NOT NULL,
  -- Of the sealed form.
  version         integer NOT NULL,
  kek_id          text NOT NULL,
  -- iv | tag | ciphertext, both.
  wrapped_dek     bytea NOT NULL,
  sealed          bytea NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT now(),
  rotated_at      timestamptz,
  PRIMARY KEY (organization_id, connection_id, field),
  FOREIGN KEY (organization_id, connection_id) REFERENCES agent.connections (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX connection_secrets_kek ON agent.connection_secrets (kek_id, connection_id, field);

-- Sign-ins at a provider that have begun and not come back.
CREATE TABLE agent.connection_authorizations (
  -- sha-256: a state read here is of no use to anybody.
  state_hash      bytea PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  provider        text NOT NULL,
  -- Of a new connection; null where one is connected again.
  label           text,
  connection_id   uuid,
  settings        jsonb NOT NULL DEFAULT '{}',
  redirect_uri    text NOT NULL,
  -- sha-256 of the cookie of the browser that must come back; null where it was begun with a key.
  browser_hash    bytea,
  version         integer NOT NULL,
  kek_id          text NOT NULL,
  wrapped_dek     bytea NOT NULL,
  -- The PKCE verifier.
  sealed          bytea NOT NULL,
  begun_by        jsonb NOT NULL,
  begun_at        timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz NOT NULL,
  CHECK (num_nonnulls(label, connection_id) = 1),
  FOREIGN KEY (organization_id, connection_id) REFERENCES agent.connections (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX connection_authorizations_owner ON agent.connection_authorizations (organization_id, connection_id);

-- For the service path alone: members get no right on either, whatever the policy would show.
ALTER TABLE agent.connection_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization_isolation ON agent.connection_secrets
  USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization());
ALTER TABLE agent.connection_authorizations ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization_isolation ON agent.connection_authorizations
  USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization());

-- What an organization's agents work on beside people: companies, lists, memories. And what all organizations share.

-- A person found by research has a profile and no address yet.
ALTER TABLE public.people
  ALTER COLUMN email DROP NOT NULL,
  -- In the one spelling that `profileUrl` makes of any.
  ADD COLUMN linkedin_url text,
  ADD COLUMN location text,
  ADD COLUMN company_id uuid,
  -- The root run that gave the row its address; null when it came from outside of any run. A row may be older than that.
  ADD COLUMN email_by_root_run uuid,
  ADD CONSTRAINT people_identified CHECK (email IS NOT NULL OR linkedin_url IS NOT NULL),
  ADD CONSTRAINT people_linkedin_url_spelling CHECK (linkedin_url LIKE 'https://www.linkedin.com/in/_%');
-- Until here an address never changed: who made the row gave it its address.
UPDATE public.people SET email_by_root_run = created_by_root_run;
CREATE UNIQUE INDEX people_linkedin_url ON public.people (organization_id, linkedin_url) WHERE deleted_at IS NULL;
CREATE INDEX people_listing ON public.people (organization_id, full_name, id) WHERE deleted_at IS NULL;
CREATE INDEX people_company ON public.people (organization_id, company_id) WHERE deleted_at IS NULL;

CREATE TABLE public.companies (
  id                  uuid PRIMARY KEY,
  organization_id     uuid NOT NULL,
  -- Names the company, in the one spelling that `companyDomain` makes of any: lower case, without scheme, path and www.
  domain              text NOT NULL CHECK (domain = lower(domain) AND domain LIKE '_%._%' AND domain !~ '[/:@[:space:]]'),
  name                text NOT NULL,
  industry            text,
  -- A range in words of the source: `51-200`, `10001+`.
  employees           text,
  location            text,
  description         text,
  -- Provenance, as in public.people.
  written_by_run      uuid,
  written_by_root_run uuid,
  written_by_tool     text,
  created_by_root_run uuid,
  trusted             boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz,
  UNIQUE (organization_id, id)
);
CREATE UNIQUE INDEX companies_domain ON public.companies (organization_id, domain) WHERE deleted_at IS NULL;
CREATE INDEX companies_listing ON public.companies (organization_id, name, id) WHERE deleted_at IS NULL;

-- The organization is part of the reference: a person cannot point at a company of another one.
ALTER TABLE public.people ADD CONSTRAINT people_company_fkey FOREIGN KEY (organization_id, company_id)
  REFERENCES public.companies (organization_id, id) ON DELETE SET NULL (company_id);

CREATE TABLE public.lists (
  id                  uuid PRIMARY KEY,
  organization_id     uuid NOT NULL,
  name                text NOT NULL,
  -- What its members are.
  kind                text NOT NULL CHECK (kind IN ('person', 'company')),
  description         text,
  written_by_run      uuid,
  written_by_root_run uuid,
  written_by_tool     text,
  created_by_root_run uuid,
  trusted             boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz,
  UNIQUE (organization_id, id)
);
CREATE UNIQUE INDEX lists_name ON public.lists (organization_id, lower(name)) WHERE deleted_at IS NULL;

-- The key makes membership a set. No reference to the member, which is a row of one of two tables: reads join it.
CREATE TABLE public.list_members (
  organization_id     uuid NOT NULL,
  list_id             uuid NOT NULL,
  member_id           uuid NOT NULL,
  written_by_run      uuid,
  written_by_root_run uuid,
  written_by_tool     text,
  created_by_root_run uuid,
  trusted             boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz,
  PRIMARY KEY (organization_id, list_id, member_id),
  FOREIGN KEY (organization_id, list_id) REFERENCES public.lists (organization_id, id) ON DELETE CASCADE
);

-- What agents learned and what people prefer. Never changed: what is no longer true is forgotten, and said anew.
CREATE TABLE public.memories (
  id                  uuid PRIMARY KEY,
  organization_id     uuid NOT NULL,
  kind                text NOT NULL CHECK (kind IN ('observation', 'preference')),
  -- In lower case, with single spaces.
  subject             text NOT NULL,
  text                text NOT NULL,
  -- sha-256 of kind and text, without differences of white space: saying it again is the same row.
  content_hash        bytea NOT NULL,
  written_by_run      uuid,
  written_by_root_run uuid,
  written_by_tool     text,
  created_by_root_run uuid,
  trusted             boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz
);
CREATE UNIQUE INDEX memories_content ON public.memories (organization_id, subject, content_hash) WHERE deleted_at IS NULL;
CREATE INDEX memories_listing ON public.memories (organization_id, id DESC) WHERE deleted_at IS NULL;

DO $$
DECLARE
  owned text;
BEGIN
  FOREACH owned IN ARRAY ARRAY['public.companies', 'public.lists', 'public.list_members', 'public.memories'] LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned);
    EXECUTE format(
      'CREATE POLICY organization_isolation ON %s USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization())',
      owned);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO bailiff_member', owned);
  END LOOP;
END $$;

-- Intelligence: what is publicly known about companies, for all organizations. No row says who recorded it. Row-level
-- security without a policy and without a grant denies every user role; one store on the service path reads and writes.
CREATE TABLE public.intel_companies (
  -- As companies.domain.
  domain            text PRIMARY KEY CHECK (domain = lower(domain) AND domain LIKE '_%._%' AND domain !~ '[/:@[:space:]]'),
  first_observed_at timestamptz NOT NULL DEFAULT now(),
  last_observed_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE public.intel_observations (
  id           uuid PRIMARY KEY,
  domain       text NOT NULL REFERENCES public.intel_companies (domain) ON DELETE CASCADE,
  attribute    text NOT NULL,
  value        text NOT NULL,
  -- Where it can be read: the address of a public page, without query and fragment.
  source       text NOT NULL,
  -- sha-256 of attribute, value and source: seeing it again moves observed_at.
  content_hash bytea NOT NULL,
  observed_at  timestamptz NOT NULL DEFAULT now(),
  UNIQUE (domain, content_hash)
);
CREATE INDEX intel_observations_latest ON public.intel_observations (domain, attribute, source, observed_at DESC);

ALTER TABLE public.intel_companies ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.intel_observations ENABLE ROW LEVEL SECURITY;
REVOKE ALL ON public.intel_companies, public.intel_observations FROM PUBLIC, bailiff_member;

-- When a key was first taken. Attempts that take over a dead claim keep it, so that a receiver's memory of the key is
-- counted from the first of them. A build that does not know the column writes it by its default.
ALTER TABLE agent.idempotency_keys ADD COLUMN first_claimed_at timestamptz;
UPDATE agent.idempotency_keys SET first_claimed_at = claimed_at;
ALTER TABLE agent.idempotency_keys ALTER COLUMN first_claimed_at SET DEFAULT clock_timestamp();
ALTER TABLE agent.idempotency_keys ALTER COLUMN first_claimed_at SET NOT NULL;

-- Workflows, child runs, lanes and holds.
ALTER TABLE agent.runs
  ADD COLUMN kind text NOT NULL DEFAULT 'agent' CHECK (kind IN ('agent', 'workflow')),
  -- Null for a run that nobody's step started.
  ADD COLUMN parent_run_id uuid,
  -- Path of the step that started it.
  ADD COLUMN parent_step text,
  ADD COLUMN lane text NOT NULL DEFAULT 'interactive' CHECK (lane IN ('interactive', 'batch')),
  -- An operator has to let it go on: set after the database came back from a backup, which may not know of effects.
  ADD COLUMN held_at timestamptz,
  ADD COLUMN held_reason text,
  ADD CONSTRAINT runs_parent CHECK ((parent_run_id IS NULL) = (parent_step IS NULL));
CREATE UNIQUE INDEX runs_child ON agent.runs (parent_run_id, parent_step) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_active ON agent.runs (organization_id, lane) WHERE status = 'running';
CREATE INDEX runs_ended ON agent.runs (ended_at) WHERE ended_at IS NOT NULL;

-- How many runs of an organization may be active at the same time. No row takes the deployment's defaults.
CREATE TABLE agent.lanes (
  organization_id uuid NOT NULL REFERENCES agent.organizations (id) ON DELETE CASCADE,
  lane            text NOT NULL CHECK (lane IN ('interactive', 'batch')),
  -- Null takes the deployment's default.
  max_active      integer CHECK (max_active >= 1),
  paused_at       timestamptz,
  paused_by       jsonb,
  PRIMARY KEY (organization_id, lane)
);

-- One row a step of a workflow run: what it did is read back from here, and never done again.
CREATE TABLE agent.run_steps (
  run_id          uuid NOT NULL REFERENCES agent.runs (id) ON DELETE CASCADE,
  organization_id uuid NOT NULL,
  -- The node, and for each item of a map its place: `people[3].contact`.
  path            text NOT NULL,
  node            text NOT NULL,
  kind            text NOT NULL,
  state           text NOT NULL CHECK (state IN ('running', 'waiting', 'completed', 'failed', 'skipped')),
  attempt         integer NOT NULL DEFAULT 1,
  output          json,
  -- { code, message } of a failed step.
  error           json,
  -- What a waiting step waits for: { kind, until, … }.
  wait            jsonb,
  child_run_id    uuid,
  started_at      timestamptz NOT NULL DEFAULT now(),
  ended_at        timestamptz,
  PRIMARY KEY (run_id, path)
);

-- Signals sent to a run. The row is the truth: one that comes before anybody waits is found by the wait.
CREATE TABLE agent.run_signals (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  run_id          uuid NOT NULL REFERENCES agent.runs (id) ON DELETE CASCADE,
  name            text NOT NULL,
  payload         json NOT NULL,
  sent_at         timestamptz NOT NULL DEFAULT now(),
  sent_by         jsonb NOT NULL,
  -- Path of the step that took it.
  consumed_by     text
);
CREATE INDEX run_signals_open ON agent.run_signals (run_id, name, id) WHERE consumed_by IS NULL;

-- Sums of past days, for charts. The accrual checkpoint never reads it: a rollup lags.
CREATE TABLE public.ai_usage_daily (
  organization_id uuid NOT NULL,
  -- YYYY-MM-DD, in UTC.
  day             text NOT NULL CHECK (day ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'),
  kind            text NOT NULL CHECK (kind IN ('model', 'tool')),
  provider        text NOT NULL,
  item            text NOT NULL,
  calls           integer NOT NULL,
  -- Sums of what was counted.
  quantity        jsonb NOT NULL,
  cost_cents      numeric(16, 6) NOT NULL,
  PRIMARY KEY (organization_id, day, kind, provider, item)
);

-- Which database cluster this is. One that answers another identity or an older timeline came back from a backup.
CREATE TABLE agent.installation (
  singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  identity   text NOT NULL,
  noted_at   timestamptz NOT NULL DEFAULT now()
);

DO $$
DECLARE
  owned text;
BEGIN
  FOREACH owned IN ARRAY ARRAY['agent.lanes', 'agent.run_steps', 'agent.run_signals', 'public.ai_usage_daily'] LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned);
    EXECUTE format(
      'CREATE POLICY organization_isolation ON %s USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization())',
      owned);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO bailiff_member', owned);
  END LOOP;
END $$;

-- Work that one process does for all: what is old goes, what was used is summed up, what came from a backup is held.

-- When each kind of work is due again, and what it has to remember. The row is also what lets one process of several do it.
CREATE TABLE agent.upkeep (
  name    text PRIMARY KEY,
  due_at  timestamptz NOT NULL,
  state   jsonb NOT NULL DEFAULT '{}'
);

-- Moves all the time, and is written down outside of the database too: a database that knows a lower one than was seen
-- before came back from a backup.
ALTER TABLE agent.installation ADD COLUMN generation bigint NOT NULL DEFAULT 0;

-- A failed run is never opened again: another one is started in its place, once.
ALTER TABLE agent.runs ADD COLUMN retry_of uuid;
CREATE UNIQUE INDEX runs_retry ON agent.runs (retry_of) WHERE retry_of IS NOT NULL;
-- A run tree ends with its last run. Most runs are alone and stand in no entry.
CREATE INDEX runs_tree ON agent.runs (root_run_id) WHERE parent_run_id IS NOT NULL;
-- Signals that were taken go with their run too.
CREATE INDEX run_signals_run ON agent.run_signals (run_id);
CREATE INDEX runs_dead ON agent.runs (organization_id, id) WHERE status = 'failed';
CREATE INDEX runs_held ON agent.runs (organization_id, id) WHERE held_at IS NOT NULL;
CREATE INDEX approvals_dead ON agent.approvals (organization_id, id)
  WHERE state IN ('expired', 'stale') OR (kind = 'outcome' AND state = 'pending');

-- Rows come in the order of time and are looked for by age alone: block ranges cost the hot path next to nothing.
CREATE INDEX spans_age ON agent.spans USING brin (started_at);
CREATE INDEX policy_decisions_age ON agent.policy_decisions USING brin (decided_at);
CREATE INDEX ai_usage_log_age ON public.ai_usage_log USING brin (created_at);

-- That a person was erased, and not who: the hash says so to whoever knows the address.
CREATE TABLE agent.erasures (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  salt            bytea NOT NULL,
  -- sha-256 of salt and address in lower case.
  subject_hash    bytea NOT NULL,
  erased_at       timestamptz NOT NULL DEFAULT now(),
  erased_by       jsonb NOT NULL,
  -- Rows changed or removed, by table.
  counts          jsonb NOT NULL
);
CREATE INDEX erasures_organization ON agent.erasures (organization_id, id);

-- For the service path alone: members get no right on it, whatever the policy would show.
ALTER TABLE agent.erasures ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization_isolation ON agent.erasures
  USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization());

-- The queue of each lane: what could go on, by the time since which it could. A run that is held stands in no queue, and
-- a run of somebody's own loop is in nobody's.
CREATE INDEX runs_waiting ON agent.runs (organization_id, lane, (coalesce(wake_at, created_at)), id)
  WHERE (status = 'queued' OR (status = 'parked' AND wake_at IS NOT NULL)) AND held_at IS NULL AND source <> 'library';
-- A run whose time is over ends, whether its lane has a place or not.
CREATE INDEX runs_deadline ON agent.runs (deadline)
  WHERE status IN ('queued', 'parked') AND held_at IS NULL AND source <> 'library';

-- Segments in a row that ended with their process, since the run last got on.
ALTER TABLE agent.runs ADD COLUMN abandoned integer NOT NULL DEFAULT 0;

-- Who let a held run go on.
ALTER TABLE agent.run_control
  ADD COLUMN released_at timestamptz,
  ADD COLUMN released_by jsonb;

-- Work that a vendor finishes after the call that started it. The row is the truth; events only wake somebody.

-- A job names its run together with the organization. The same index, now one that can be referred to.
DROP INDEX agent.runs_listing;
CREATE UNIQUE INDEX runs_listing ON agent.runs (organization_id, id DESC);

CREATE TABLE agent.provider_jobs (
  -- Ours, derived from the call, and known before the vendor answers: everything correlates on it.
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  -- The tree that pays.
  root_run_id     uuid NOT NULL,
  -- The run that submitted.
  run_id          uuid NOT NULL,
  -- Span of the call that submitted.
  tool_call_id    uuid NOT NULL,
  provider        text NOT NULL,
  -- The vendor's own id; null while it is not known that the vendor took the job.
  provider_job_id text,
  -- What the items of the request were called, in order: an answer is mapped by these names alone.
  contact_refs    jsonb NOT NULL DEFAULT '[]',
  state           text NOT NULL CHECK (state IN ('submitted', 'running', 'completed', 'failed', 'cancelled')),
  -- At most 32 KiB; a larger one is { kind: provider_job.result, id }.
  result          jsonb,
  -- What the vendor reported.
  cost            jsonb,
  -- The one usage row; null until the cost is settled.
  usage_id        uuid,
  submitted_at    timestamptz NOT NULL DEFAULT now(),
  updated_at      timestamptz NOT NULL DEFAULT now(),
  terminal_at     timestamptz,
  UNIQUE (organization_id, id),
  UNIQUE (provider, provider_job_id),
  FOREIGN KEY (organization_id, run_id) REFERENCES agent.runs (organization_id, id) ON DELETE CASCADE,
  CHECK ((terminal_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled'))),
  CHECK (usage_id IS NULL OR terminal_at IS NOT NULL)
);
CREATE INDEX provider_jobs_listing ON agent.provider_jobs (organization_id, submitted_at DESC, id DESC);
CREATE INDEX provider_jobs_run ON agent.provider_jobs (organization_id, run_id);
-- Charges that nobody has written down yet.
CREATE INDEX provider_jobs_unsettled ON agent.provider_jobs (organization_id, terminal_at)
  WHERE usage_id IS NULL AND terminal_at IS NOT NULL;

-- Results too large for their job, each as it came and never changed.
CREATE TABLE agent.provider_job_results (
  job_id          uuid NOT NULL,
  organization_id uuid NOT NULL,
  -- sha-256 of the canonical result.
  result_digest   bytea NOT NULL,
  result          jsonb NOT NULL,
  PRIMARY KEY (job_id, result_digest),
  FOREIGN KEY (organization_id, job_id) REFERENCES agent.provider_jobs (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX provider_job_results_owner ON agent.provider_job_results (organization_id, job_id);

-- Steps that wait for a job, whichever run they are of.
CREATE INDEX run_steps_provider_job ON agent.run_steps ((wait ->> 'jobId'))
  WHERE state = 'waiting' AND wait ->> 'kind' = 'provider_job';

-- Deliveries that were taken belong to no run and are kept for as long as a vendor may send them again.
CREATE INDEX idempotency_keys_webhooks ON agent.idempotency_keys (first_claimed_at) WHERE scope LIKE 'webhook.%';

ALTER TABLE agent.provider_jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization_isolation ON agent.provider_jobs
  USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization());
GRANT SELECT, INSERT, UPDATE, DELETE ON agent.provider_jobs TO bailiff_member;

-- What a vendor answered in full is for the service path alone, whatever the policy would show.
ALTER TABLE agent.provider_job_results ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization_isolation ON agent.provider_job_results
  USING (organization_id = agent.current_organization()) WITH CHECK (organization_id = agent.current_organization());

-- A node of a workflow stands in the run tree between the run and its calls.
ALTER TABLE agent.spans DROP CONSTRAINT spans_kind_check;
ALTER TABLE agent.spans ADD CONSTRAINT spans_kind_check CHECK (kind IN ('run', 'segment', 'llm', 'tool', 'node'));
