-- Holders on any machine, by the clock of the server. Leases and waiters of the one machine that used the store
-- so far are of another frame, and over.

ALTER TABLE meta DROP COLUMN machine;
-- The database and its history, which another one has after a fail-over, a restore or a copy; and how many of
-- them the store was used in before.
ALTER TABLE meta RENAME COLUMN boot TO era;
ALTER TABLE meta RENAME COLUMN epoch TO eras;
-- The latest time that a writer has seen, to a second, and how much is added to the clock of the server because
-- it has gone back.
ALTER TABLE meta ADD COLUMN clock_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN ahead_us BIGINT NOT NULL DEFAULT 0;

-- The database by whose clock a lease began; the boot and the name of its holder's machine; and whether
-- heartbeats were missed once already.
ALTER TABLE lease ADD COLUMN frame TEXT NOT NULL DEFAULT '';
ALTER TABLE lease ALTER COLUMN boot DROP NOT NULL;
ALTER TABLE lease ADD COLUMN host TEXT;
ALTER TABLE lease ADD COLUMN doubted BOOLEAN NOT NULL DEFAULT FALSE;

-- The same for a waiter.
ALTER TABLE waiter ADD COLUMN frame TEXT NOT NULL DEFAULT '';
ALTER TABLE waiter ALTER COLUMN boot DROP NOT NULL;
ALTER TABLE waiter ADD COLUMN host TEXT;

-- The machine that leads a run in the foreground, and the name of that; none for a submitted run.
ALTER TABLE run ADD COLUMN machine TEXT;
ALTER TABLE run ADD COLUMN host TEXT;
