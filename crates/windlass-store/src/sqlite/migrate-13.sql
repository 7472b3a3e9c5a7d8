-- From version 12: what is shown of a worker besides its slots, as a JSON object.
ALTER TABLE worker ADD COLUMN about TEXT NOT NULL DEFAULT '{}';
