-- Version 2. The first entry of each lane that holds untrusted content. A lane without such content has no row, so the
-- place where it begins on a branch is known without reading entries. Version 1 had no such entries.

CREATE TABLE untrusted (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, lane INTEGER NOT NULL, idx INTEGER NOT NULL,
  UNIQUE (tenant, thread, lane)
);
