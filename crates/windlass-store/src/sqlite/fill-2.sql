INSERT INTO name (kind, name, token) SELECT kind, name, token FROM name_1;

-- Version 1 recorded only the wall clock. The lease counts as fresh: whether its process has ended is
-- checked whatever its age.
INSERT INTO lease (kind, name, holder, token, weight, since_ns, heartbeat_ns, timeout_ns, max_hold_ns,
                   presence, remains, since_ms, boot, pid, started, namespace)
    SELECT kind, name, holder, token, 1, :now, :now, 60000000000, NULL,
           'presumed', 'none', coalesce(since_ms, 0), boot, pid, started, namespace
    FROM name_1 JOIN process ON process.id = process WHERE holder IS NOT NULL;

INSERT INTO ticket (holder, arrival, priority, rung_ns, since_ms, boot, pid, started, namespace, bell)
    SELECT holder, ticket_1.id, 0, NULL, 0, boot, pid, started, namespace, NULL
    FROM ticket_1 JOIN process ON process.id = process;

INSERT INTO ticket_name (kind, name, holder, place, weight, refused)
    SELECT kind, name, holder, row_number() OVER (PARTITION BY holder), 1, 1
    FROM ticket_name_1 JOIN ticket_1 ON ticket_1.id = ticket;

UPDATE meta SET arrivals = (SELECT coalesce(max(arrival), 0) FROM ticket);

DROP TABLE ticket_name_1;
DROP TABLE ticket_1;
DROP TABLE name_1;
DROP TABLE process;
