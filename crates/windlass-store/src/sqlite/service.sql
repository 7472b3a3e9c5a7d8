-- From version 4: a service leads runs, and its scheduler and workers talk through the store.

-- The environment that a submitted run takes along, as a JSON object; none for a run in the foreground.
ALTER TABLE run ADD COLUMN env TEXT;

-- What workers have to execute, and from its commit on may be executing.
CREATE TABLE work_order (
    token  INTEGER PRIMARY KEY AUTOINCREMENT,
    run    TEXT NOT NULL,
    key    TEXT NOT NULL,
    worker TEXT NOT NULL,
    life   INTEGER NOT NULL,
    text   TEXT NOT NULL,
    wish   TEXT,
    UNIQUE (run, key)
) STRICT;

CREATE INDEX work_order_by_life ON work_order (worker, life, token);

-- What became of orders, until the scheduler has taken it in.
CREATE TABLE report (
    token INTEGER PRIMARY KEY REFERENCES work_order ON DELETE CASCADE,
    text  TEXT NOT NULL
) STRICT;

CREATE TABLE worker (
    name     TEXT PRIMARY KEY,
    life     INTEGER NOT NULL,
    slots    INTEGER NOT NULL,
    state    TEXT NOT NULL,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
