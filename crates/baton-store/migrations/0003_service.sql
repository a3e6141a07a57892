-- Version 3. The tables of a service. The tables keys, outbox and audit of version 1 were never written to; they begin
-- here.

DROP TABLE keys;
DROP TABLE outbox;
DROP TABLE audit;

-- Idempotency keys of requests, each with the run that it led to, or with the answer of the owner that works on it.
CREATE TABLE keys (
  tenant TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, body_hash TEXT NOT NULL, run BLOB, owner BLOB,
  answer BLOB, expires_at INTEGER NOT NULL,
  UNIQUE (tenant, route, key)
);
CREATE INDEX keys_by_expiry ON keys (expires_at);

-- Queued runs, which wait for their branch in order of n; n is negative for those that went before others. Their rows
-- in runs have status 0.
CREATE TABLE queued (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run BLOB NOT NULL, thread TEXT NOT NULL, branch TEXT NOT NULL,
  body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (tenant, run)
);
CREATE INDEX queued_in_line ON queued (tenant, thread, branch, n);

-- Events that are to be sent, or to be added to the chain, or both; a row is removed when both are done. Its number is
-- never used again: a sender may report it as sent twice. The digest is the event's, so that the chain can be sealed
-- without reading bodies; bytes is the length of the body.
CREATE TABLE outbox (
  n INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, at INTEGER NOT NULL, correlation TEXT NOT NULL,
  kind TEXT NOT NULL, source TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  bytes INTEGER NOT NULL, send INTEGER NOT NULL, sealed INTEGER NOT NULL
);
CREATE INDEX outbox_unsent ON outbox (n, at, bytes, send) WHERE send = 1;
CREATE INDEX outbox_unsealed ON outbox (n) WHERE sealed = 0;

-- The chain. A row's seal is the hash of all its other columns; the next row names it.
CREATE TABLE audit (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at INTEGER NOT NULL, correlation TEXT NOT NULL, kind TEXT NOT NULL,
  source TEXT NOT NULL, digest TEXT NOT NULL, prev TEXT NOT NULL, seal TEXT NOT NULL
);
CREATE INDEX audit_of_tenant ON audit (tenant, n);

-- API tokens: their hashes and rights, not the tokens themselves.
CREATE TABLE tokens (
  id TEXT NOT NULL, hash TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (id), UNIQUE (hash)
);

-- An input is posted once, under the hash of its id.
ALTER TABLE inbox ADD COLUMN input_hash TEXT;
CREATE UNIQUE INDEX inbox_inputs ON inbox (tenant, run, input_hash) WHERE input_hash IS NOT NULL;

CREATE INDEX threads_with_an_end ON threads (ttl_at) WHERE ttl_at IS NOT NULL;
CREATE INDEX approvals_of_run ON approvals (tenant, run);
