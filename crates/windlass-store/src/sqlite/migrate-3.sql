-- From version 2: runs record their parameters, the steps to run, and how they ended.
ALTER TABLE run ADD COLUMN workflow TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN params TEXT NOT NULL DEFAULT '{}';
ALTER TABLE run ADD COLUMN steps TEXT NOT NULL DEFAULT '[]';
ALTER TABLE run ADD COLUMN jobs INTEGER;
ALTER TABLE run ADD COLUMN ended_ms INTEGER;
ALTER TABLE run ADD COLUMN outcome TEXT;
