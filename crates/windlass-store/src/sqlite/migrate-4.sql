-- From version 3: several users may share a store, so runs and leases record their user.
ALTER TABLE run ADD COLUMN uid INTEGER;
ALTER TABLE lease ADD COLUMN uid INTEGER;
