-- From version 8: limits that all users of the store share. The amount of one is the capacity of its name, in
-- steps of 1/10 000. The items of one are separated by commas, and so are those that a holder has.
CREATE TABLE limit_items (
    name     TEXT PRIMARY KEY,
    items    TEXT NOT NULL,
    variable TEXT NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE lease ADD COLUMN items TEXT;
