-- Version 2. Questions that are asked again and again have an index each, so that their cost does not grow with what
-- is stored.

-- Used by gc: a definition is kept while a run names it.
CREATE INDEX runs_of_definition ON runs (tenant, definition);
