-- Version 5. Queries that run again and again have an index each, so that their cost does not grow with the stored
-- data.

-- Used by garbage collection: a definition is kept while a run names it.
CREATE INDEX runs_of_definition ON runs (definition, tenant);

-- Runs of a rare status. Most runs have ended well, so a page of those is found among the newest; and those that are
-- driven have an index of their own. A run that is started, driven and ends well is never in this one.
CREATE INDEX runs_by_status ON runs (tenant, status, run) WHERE status <> 1 AND status <> 3;

-- A page of a thread's runs is found by the index alone, in order.
DROP INDEX runs_of_thread;
CREATE INDEX runs_of_thread ON runs (tenant, thread, run);

CREATE INDEX approvals_by_status ON approvals (tenant, status, created);

-- Names of things that happened once: `tokens`, that the service was closed to callers without a token. It does not
-- open by itself when the last token is revoked.
CREATE TABLE marks (name TEXT NOT NULL PRIMARY KEY);
INSERT INTO marks SELECT 'tokens' WHERE EXISTS (SELECT 1 FROM tokens);

-- Whether an event came from outside, by POST /events. For rows that were sealed before this version it is not known.
ALTER TABLE outbox ADD COLUMN external INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN external INTEGER;

-- The number of sealed rows, and the hash of the last one: a chain that lost its end does not fit it.
ALTER TABLE chain ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chain ADD COLUMN head TEXT NOT NULL
  DEFAULT '0000000000000000000000000000000000000000000000000000000000000000';
UPDATE chain SET (rows, head) = (SELECT n, seal FROM audit ORDER BY n DESC LIMIT 1) WHERE EXISTS (SELECT 1 FROM audit);

-- Due runs are found without reading those that wait. As in PostgreSQL, due_at is when a suspended run goes on: at
-- wake_at, or at once (0) if it has unread messages. An owner that claims one which has read its messages finds that
-- out, and suspends it again.
ALTER TABLE runs ADD COLUMN due_at INTEGER;
UPDATE runs SET due_at = CASE WHEN inbox > 0 THEN 0 ELSE wake_at END WHERE status = 2;
CREATE INDEX runs_let_go ON runs (run) WHERE status = 1 AND owner IS NULL;
CREATE INDEX runs_asleep ON runs (due_at, run) WHERE due_at IS NOT NULL;
