-- Version 2. Queries that run again and again have an index each, so that their cost does not grow with the stored
-- data.

-- Used by garbage collection: a definition is kept while a run names it.
CREATE INDEX runs_of_definition ON runs (tenant, definition);

-- Runs of a rare status. Most runs have ended well, so a page of those is found among the newest; and those that are
-- driven have an index of their own. A run that is started, driven and ends well is never in this one.
CREATE INDEX runs_by_status ON runs (tenant, status, run) WHERE status <> 1 AND status <> 3;

DROP INDEX approvals_pending;
CREATE INDEX approvals_by_status ON approvals (tenant, status, created, approval);

-- Names of things that happened once: `tokens`, that the service was closed to callers without a token. It does not
-- open by itself when the last token is revoked.
CREATE TABLE marks (name text PRIMARY KEY);
INSERT INTO marks SELECT 'tokens' WHERE EXISTS (SELECT 1 FROM tokens);

-- The beat of an owner, a number that it raises while it is alive: the database's clock is never compared with a time
-- of another machine.
ALTER TABLE owners ADD COLUMN beat bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN owners.expires_at IS 'for people; nothing is decided by it';

-- The silent owner from whom a run was claimed, until that owner is heard again; and whether this was counted as a
-- crash.
ALTER TABLE claims ADD COLUMN lost_by uuid, ADD COLUMN counted boolean NOT NULL DEFAULT false;
CREATE INDEX claims_lost ON claims (lost_by) WHERE lost_by IS NOT NULL;
CREATE INDEX claims_uncounted ON claims (lost_by) WHERE lost_by IS NOT NULL AND NOT counted;

-- Whether an event came from outside, by POST /events. For rows that were sealed before this version it is not known.
-- The check keeps processes of the version before, which would not note the end of the chain, from sealing.
ALTER TABLE outbox ADD COLUMN external boolean NOT NULL DEFAULT false;
ALTER TABLE audit ADD COLUMN external boolean;
ALTER TABLE audit ADD CONSTRAINT audit_external CHECK (external IS NOT NULL) NOT VALID;

-- The number of sealed rows, and the hash of the last one: a chain that lost its end does not fit it.
CREATE TABLE chain (rows bigint NOT NULL, head text NOT NULL);
INSERT INTO chain VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000');
UPDATE chain SET (rows, head) = (SELECT n, seal FROM audit ORDER BY n DESC LIMIT 1) WHERE EXISTS (SELECT 1 FROM audit);
