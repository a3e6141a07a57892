-- Version 2. The first entry of a lane that holds untrusted content: a lane without one has no row, so
-- where such content begins on a branch is known without reading entries. Version 1 knew no such entries.

CREATE TABLE untrusted (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, lane INTEGER NOT NULL, idx INTEGER NOT NULL,
  UNIQUE (tenant, thread, lane)
);
