-- From version 6: a queue is read from its head, arrivals are counted by name, and a heartbeat finds the
-- leases of its process.
ALTER TABLE name ADD COLUMN arrivals INTEGER NOT NULL DEFAULT 0;
INSERT OR IGNORE INTO name (kind, name, token) SELECT DISTINCT kind, name, 0 FROM ticket_name;
UPDATE name SET arrivals = (SELECT arrivals FROM meta);
ALTER TABLE meta DROP COLUMN arrivals;

-- The order of the queue: by rank (the bits of the priority inverted, so that the most urgent is the
-- smallest), then by arrival.
ALTER TABLE ticket_name ADD COLUMN rank INTEGER NOT NULL DEFAULT -1;
ALTER TABLE ticket_name ADD COLUMN arrival INTEGER NOT NULL DEFAULT 0;
UPDATE ticket_name SET (rank, arrival) =
    (SELECT ~priority, ticket.arrival FROM ticket WHERE ticket.holder = ticket_name.holder);
CREATE INDEX queue ON ticket_name (kind, name, refused, rank, arrival);

CREATE INDEX lease_by_process ON lease (pid, started);
