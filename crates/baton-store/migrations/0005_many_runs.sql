-- Version 5. Questions that are asked again and again have an index each, so that their cost does not grow with what
-- is stored.

-- Used by gc: a definition is kept while a run names it.
CREATE INDEX runs_of_definition ON runs (definition);

-- What happened once and is remembered: `tokens`, that the service was closed to those who have none. It does not open by
-- itself when the last token is revoked.
CREATE TABLE marks (name TEXT NOT NULL PRIMARY KEY);
INSERT INTO marks SELECT 'tokens' WHERE EXISTS (SELECT 1 FROM tokens);
