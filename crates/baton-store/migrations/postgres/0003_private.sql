-- Version 3. Beside the first entry of a lane with untrusted content, the first one with private data. Older versions
-- did not record private data: where content is untrusted, it counts as private.

ALTER TABLE untrusted ADD COLUMN private boolean NOT NULL DEFAULT false;
ALTER TABLE untrusted DROP CONSTRAINT untrusted_pkey;
ALTER TABLE untrusted ADD PRIMARY KEY (tenant, thread, lane, private);
INSERT INTO untrusted(tenant, thread, lane, idx, private) SELECT tenant, thread, lane, idx, true FROM untrusted;
