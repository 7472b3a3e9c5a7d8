-- From version 1: leases and waiters get tables of their own, which include the processes.
ALTER TABLE name RENAME TO name_1;
ALTER TABLE ticket RENAME TO ticket_1;
ALTER TABLE ticket_name RENAME TO ticket_name_1;
