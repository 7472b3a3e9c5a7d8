-- From version 3: several users may share a store, so runs and holds know whose they are.
ALTER TABLE run ADD COLUMN uid INTEGER;
ALTER TABLE lease ADD COLUMN uid INTEGER;
