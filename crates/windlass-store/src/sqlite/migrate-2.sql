-- From version 1: holds and places in line get tables of their own; processes go into them.
ALTER TABLE name RENAME TO name_1;
ALTER TABLE ticket RENAME TO ticket_1;
ALTER TABLE ticket_name RENAME TO ticket_name_1;
