-- Version 1. The tables are created in the current schema. No foreign keys, and no index on a column that an advance
-- changes (step, seq, inbox, head, budget), so that an advance rewrites its row in place. Times are milliseconds,
-- except for those of leases, which are in the database's own time. Checksums are unsigned, so they are bigint.

CREATE TABLE threads (
  tenant text NOT NULL, thread text NOT NULL, born bigserial NOT NULL, current text NOT NULL, created bigint NOT NULL,
  ttl_at bigint, meta bytea NOT NULL,
  PRIMARY KEY (tenant, thread)
);
CREATE INDEX threads_by_age ON threads (tenant, born);
CREATE INDEX threads_past_their_time ON threads (ttl_at) WHERE ttl_at IS NOT NULL;

-- The first lane of a thread has no row.
CREATE TABLE lanes (
  tenant text NOT NULL, thread text NOT NULL, lane int NOT NULL,
  parent_lane int NOT NULL, parent_index bigint NOT NULL, opened_by text NOT NULL,
  PRIMARY KEY (tenant, thread, lane)
);

-- The head of a branch in use is in its run's row, and is copied here when the run ends.
CREATE TABLE branches (
  tenant text NOT NULL, thread text NOT NULL, branch text NOT NULL, lane int NOT NULL, head bigint NOT NULL,
  run uuid, from_branch text, from_index bigint, touched bigint NOT NULL,
  PRIMARY KEY (tenant, thread, branch)
) WITH (fillfactor = 80);

CREATE TABLE entries (
  tenant text NOT NULL, thread text NOT NULL, lane int NOT NULL, idx bigint NOT NULL,
  id uuid NOT NULL, run uuid, envelope bytea NOT NULL, crc bigint NOT NULL,
  PRIMARY KEY (tenant, thread, lane, idx)
);

-- The first entry of a lane that holds untrusted content: a lane without one has no row.
CREATE TABLE untrusted (
  tenant text NOT NULL, thread text NOT NULL, lane int NOT NULL, idx bigint NOT NULL,
  PRIMARY KEY (tenant, thread, lane)
);

CREATE TABLE runs (
  tenant text NOT NULL, run uuid NOT NULL, thread text NOT NULL, branch text NOT NULL, lane int NOT NULL,
  status smallint NOT NULL, owner uuid, epoch int NOT NULL, step int NOT NULL, seq bigint NOT NULL,
  inbox int NOT NULL, head bigint NOT NULL, attempts int NOT NULL,
  definition text NOT NULL, min_version int NOT NULL, budget bytea NOT NULL,
  wake_at bigint, due_at bigint, watched_until bigint, created bigint NOT NULL, ended bigint, metadata bytea NOT NULL,
  PRIMARY KEY (tenant, run)
) WITH (fillfactor = 60);
COMMENT ON COLUMN runs.due_at IS 'when a suspended run goes on: at wake_at, or at once (0) if it has unread messages';
CREATE INDEX runs_of_thread ON runs (tenant, thread, run);
CREATE INDEX runs_held ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_let_go ON runs (run) WHERE status = 1 AND owner IS NULL;
CREATE INDEX runs_asleep ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended, tenant, run) WHERE ended IS NOT NULL;

-- One row per transition: the checkpoint, its events and its outcomes.
CREATE TABLE steps (
  tenant text NOT NULL, run uuid NOT NULL, step int NOT NULL, epoch int NOT NULL, frame text NOT NULL,
  first_seq bigint NOT NULL, last_seq bigint NOT NULL, body bytea NOT NULL, crc bigint NOT NULL,
  PRIMARY KEY (tenant, run, step)
);

-- The first claim of a run is its start, and has no row.
CREATE TABLE claims (
  tenant text NOT NULL, run uuid NOT NULL, epoch int NOT NULL, base_seq bigint NOT NULL, owner uuid NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (tenant, run, epoch)
);

CREATE TABLE inbox (
  tenant text NOT NULL, run uuid NOT NULL, n int NOT NULL, kind text NOT NULL, at bigint NOT NULL,
  body bytea NOT NULL, crc bigint NOT NULL, input_hash text,
  PRIMARY KEY (tenant, run, n)
);
COMMENT ON COLUMN inbox.input_hash IS 'of an input: the hash of its id, under which it is posted once';
CREATE UNIQUE INDEX inbox_inputs ON inbox (tenant, run, input_hash) WHERE input_hash IS NOT NULL;

CREATE TABLE approvals (
  tenant text NOT NULL, approval text NOT NULL, run uuid NOT NULL, status text NOT NULL, created bigint NOT NULL,
  expires_at bigint NOT NULL, body bytea NOT NULL, crc bigint NOT NULL,
  PRIMARY KEY (tenant, approval)
);
CREATE INDEX approvals_by_age ON approvals (tenant, created, approval);
CREATE INDEX approvals_pending ON approvals (tenant, created, approval) WHERE status = 'pending';
CREATE INDEX approvals_of_run ON approvals (tenant, run);

CREATE TABLE definitions (
  tenant text NOT NULL, hash text NOT NULL, kind text NOT NULL, body bytea NOT NULL, crc bigint NOT NULL,
  PRIMARY KEY (tenant, hash)
);

CREATE TABLE blobs (
  tenant text NOT NULL, hash text NOT NULL, size bigint NOT NULL, touched_at bigint NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (tenant, hash)
);
CREATE INDEX blobs_untouched ON blobs (touched_at);

-- Idempotency keys of requests, each with the run that it led to, or with its owner and the answer.
CREATE TABLE keys (
  tenant text NOT NULL, route text NOT NULL, key text NOT NULL, body_hash text NOT NULL, run uuid, owner uuid,
  answer bytea, expires_at bigint NOT NULL,
  PRIMARY KEY (tenant, route, key)
);
CREATE INDEX keys_by_age ON keys (expires_at);

-- Queued runs, which wait for their branch in order of n; n is negative for those that went before others.
CREATE TABLE queued (
  n bigserial NOT NULL, tenant text NOT NULL, thread text NOT NULL, branch text NOT NULL, run uuid NOT NULL,
  body bytea NOT NULL, crc bigint NOT NULL,
  PRIMARY KEY (tenant, run)
);
CREATE INDEX queued_on_branch ON queued (tenant, thread, branch, n);

-- Outgoing events to other services, and into the chain.
CREATE TABLE outbox (
  n bigserial PRIMARY KEY, tenant text NOT NULL, correlation text NOT NULL, at bigint NOT NULL, kind text NOT NULL,
  source text NOT NULL, payload bytea NOT NULL, crc bigint NOT NULL, send boolean NOT NULL, sealed boolean NOT NULL DEFAULT false
);
CREATE INDEX outbox_unsealed ON outbox (n) WHERE NOT sealed;
CREATE INDEX outbox_unsent ON outbox (n) WHERE send;

-- The chain of all events that were sent and received. The seal of a row is the hash of all its other columns; the next
-- row names it.
CREATE TABLE audit (
  n bigint PRIMARY KEY, tenant text NOT NULL, at bigint NOT NULL, correlation text NOT NULL, kind text NOT NULL,
  source text NOT NULL, digest text NOT NULL, prev text NOT NULL, seal text NOT NULL
);
CREATE INDEX audit_of_tenant ON audit (tenant, n);

-- API tokens: their hashes and rights, not the tokens themselves.
CREATE TABLE tokens (
  id text PRIMARY KEY, hash text NOT NULL UNIQUE, body bytea NOT NULL, crc bigint NOT NULL
);

-- The leases of owners: each row is renewed by its owner. On its own machine the lock of its file shows sooner that it
-- is gone.
CREATE TABLE owners (
  owner uuid PRIMARY KEY, machine text NOT NULL, lock text NOT NULL, started timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
