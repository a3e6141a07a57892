-- Version 1. Ordinary rowid tables: rows are appended, independent of the order of keys. No foreign keys, and no index
-- on a column that an advance changes (step, seq, inbox, head, budget).

CREATE TABLE threads (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, current TEXT NOT NULL, created INTEGER NOT NULL, ttl_at INTEGER,
  meta BLOB NOT NULL,
  UNIQUE (tenant, thread)
);

-- The first lane of a thread has no row.
CREATE TABLE lanes (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, lane INTEGER NOT NULL,
  parent_lane INTEGER NOT NULL, parent_index INTEGER NOT NULL, opened_by TEXT NOT NULL,
  UNIQUE (tenant, thread, lane)
);

-- The head of a branch in use is in its run's row, and is copied here when the run ends.
CREATE TABLE branches (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, branch TEXT NOT NULL, lane INTEGER NOT NULL, head INTEGER NOT NULL,
  run BLOB, from_branch TEXT, from_index INTEGER, touched INTEGER NOT NULL,
  UNIQUE (tenant, thread, branch)
);

CREATE TABLE entries (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, lane INTEGER NOT NULL, idx INTEGER NOT NULL,
  id BLOB NOT NULL, run BLOB, envelope BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, thread, lane, idx)
);

CREATE TABLE runs (
  tenant TEXT NOT NULL, run BLOB NOT NULL, thread TEXT NOT NULL, branch TEXT NOT NULL, lane INTEGER NOT NULL,
  status INTEGER NOT NULL, owner BLOB, epoch INTEGER NOT NULL, step INTEGER NOT NULL, seq INTEGER NOT NULL,
  inbox INTEGER NOT NULL, head INTEGER NOT NULL, attempts INTEGER NOT NULL,
  definition TEXT NOT NULL, min_version INTEGER NOT NULL, budget BLOB NOT NULL,
  wake_at INTEGER, watched_until INTEGER, created INTEGER NOT NULL, ended INTEGER, metadata BLOB NOT NULL,
  UNIQUE (tenant, run)
);
CREATE INDEX runs_of_thread ON runs (tenant, thread);
CREATE INDEX runs_held ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_unfinished ON runs (tenant, status) WHERE status < 3;

-- One row per transition: the checkpoint, its events and its outcomes.
CREATE TABLE steps (
  tenant TEXT NOT NULL, run BLOB NOT NULL, step INTEGER NOT NULL, epoch INTEGER NOT NULL, frame TEXT NOT NULL,
  first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, run, step)
);

CREATE TABLE claims (
  tenant TEXT NOT NULL, run BLOB NOT NULL, epoch INTEGER NOT NULL, base_seq INTEGER NOT NULL, owner BLOB NOT NULL,
  at INTEGER NOT NULL,
  UNIQUE (tenant, run, epoch)
);

CREATE TABLE inbox (
  tenant TEXT NOT NULL, run BLOB NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
  body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, run, n)
);

CREATE TABLE approvals (
  tenant TEXT NOT NULL, approval TEXT NOT NULL, run BLOB NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, approval)
);
CREATE INDEX approvals_by_age ON approvals (tenant, created);

CREATE TABLE definitions (
  tenant TEXT NOT NULL, hash TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, hash)
);

CREATE TABLE blobs (
  tenant TEXT NOT NULL, hash TEXT NOT NULL, size INTEGER NOT NULL, touched_at INTEGER NOT NULL, body BLOB NOT NULL,
  UNIQUE (tenant, hash)
);

-- Idempotency keys of requests, and the runs that they led to.
CREATE TABLE keys (
  tenant TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, body_hash TEXT NOT NULL, run BLOB,
  expires_at INTEGER NOT NULL,
  UNIQUE (tenant, route, key)
);

-- Outgoing events to other services, and the chain of all events that were sent and received.
CREATE TABLE outbox (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, correlation TEXT NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE TABLE audit (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at INTEGER NOT NULL, correlation TEXT NOT NULL, type TEXT NOT NULL,
  source TEXT NOT NULL, digest TEXT NOT NULL, prev TEXT
);
