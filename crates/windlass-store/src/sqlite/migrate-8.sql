-- From version 7: how urgent a run is, where its user has said so.
ALTER TABLE run ADD COLUMN priority INTEGER;
