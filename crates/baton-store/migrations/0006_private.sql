-- Version 6. Beside the first entry of a lane with untrusted content (private = 0), the first one with private data
-- (private = 1). Older versions did not record private data: where content is untrusted, it counts as private.

CREATE TABLE first_marked (
  tenant TEXT NOT NULL, thread TEXT NOT NULL, lane INTEGER NOT NULL, idx INTEGER NOT NULL,
  private INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant, thread, lane, private)
);
INSERT INTO first_marked SELECT tenant, thread, lane, idx, 0 FROM untrusted;
INSERT INTO first_marked SELECT tenant, thread, lane, idx, 1 FROM untrusted;
DROP TABLE untrusted;
ALTER TABLE first_marked RENAME TO untrusted;
