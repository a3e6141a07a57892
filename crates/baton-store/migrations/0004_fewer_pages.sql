-- Version 4. A commit writes each page that it changed as a whole, even for a small change: so every commit changes
-- fewer pages.

-- Threads and runs have numbers, and the largest tables refer to them by these: their indexes are a third as large.
ALTER TABLE threads RENAME TO old_threads;
CREATE TABLE threads (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, thread TEXT NOT NULL, current TEXT NOT NULL,
  created INTEGER NOT NULL, ttl_at INTEGER, meta BLOB NOT NULL,
  UNIQUE (tenant, thread)
);
INSERT INTO threads SELECT rowid, tenant, thread, current, created, ttl_at, meta FROM old_threads;
DROP TABLE old_threads;
CREATE INDEX threads_with_an_end ON threads (ttl_at) WHERE ttl_at IS NOT NULL;

-- One index for the runs that have an owner, and for those that wait for one.
ALTER TABLE runs RENAME TO old_runs;
CREATE TABLE runs (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run BLOB NOT NULL, thread TEXT NOT NULL, branch TEXT NOT NULL,
  lane INTEGER NOT NULL, status INTEGER NOT NULL, owner BLOB, epoch INTEGER NOT NULL, step INTEGER NOT NULL,
  seq INTEGER NOT NULL, inbox INTEGER NOT NULL, head INTEGER NOT NULL, attempts INTEGER NOT NULL,
  definition TEXT NOT NULL, min_version INTEGER NOT NULL, budget BLOB NOT NULL,
  wake_at INTEGER, watched_until INTEGER, created INTEGER NOT NULL, ended INTEGER, metadata BLOB NOT NULL,
  UNIQUE (tenant, run)
);
INSERT INTO runs SELECT rowid, * FROM old_runs;
DROP TABLE old_runs;
CREATE INDEX runs_of_thread ON runs (tenant, thread);
CREATE INDEX runs_unfinished ON runs (owner) WHERE status < 3;

ALTER TABLE entries RENAME TO old_entries;
CREATE TABLE entries (
  thread INTEGER NOT NULL, lane INTEGER NOT NULL, idx INTEGER NOT NULL,
  id BLOB NOT NULL, run BLOB, envelope BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (thread, lane, idx)
);
INSERT INTO entries SELECT threads.n, e.lane, e.idx, e.id, e.run, e.envelope, e.crc
  FROM old_entries e JOIN threads USING (tenant, thread) ORDER BY e.rowid;
DROP TABLE old_entries;

ALTER TABLE steps RENAME TO old_steps;
CREATE TABLE steps (
  run INTEGER NOT NULL, step INTEGER NOT NULL, epoch INTEGER NOT NULL, frame TEXT NOT NULL,
  first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
  UNIQUE (run, step)
);
INSERT INTO steps SELECT runs.n, s.step, s.epoch, s.frame, s.first_seq, s.last_seq, s.body, s.crc
  FROM old_steps s JOIN runs USING (tenant, run) ORDER BY s.rowid;
DROP TABLE old_steps;

-- The first claim of a run is its start, and has no row.
DELETE FROM claims WHERE epoch = 1;

-- The end of the sealed events: all events up to this number are in the chain. They are sealed in the order in which
-- they were written.
CREATE TABLE chain (sealed INTEGER NOT NULL);
INSERT INTO chain SELECT coalesce(
  (SELECT min(n) - 1 FROM outbox WHERE sealed = 0),
  max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0), coalesce((SELECT max(n) FROM outbox), 0)));

-- Events that are to be sent, or to be added to the chain, or both; a row is removed when both are done. No number is
-- used twice: removed events are in the chain, and numbers continue after those.
ALTER TABLE outbox RENAME TO old_outbox;
CREATE TABLE outbox (
  n INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at INTEGER NOT NULL, correlation TEXT NOT NULL, kind TEXT NOT NULL,
  source TEXT NOT NULL, digest TEXT NOT NULL, send INTEGER NOT NULL, bytes INTEGER NOT NULL, body BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO outbox SELECT n, tenant, at, correlation, kind, source, digest, send, bytes, body, crc FROM old_outbox
  WHERE send = 1 OR sealed = 0;
DROP TABLE old_outbox;
CREATE INDEX outbox_unsent ON outbox (n, at, bytes, send) WHERE send = 1;
