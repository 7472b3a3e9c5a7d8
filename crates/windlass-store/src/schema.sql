-- A run of a workflow: what to do, as it was submitted.
CREATE TABLE run (
    id         TEXT PRIMARY KEY,
    file       TEXT NOT NULL,
    text       TEXT NOT NULL,
    dir        TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

-- The journal: what happened in a run, in order, with the epoch of the process that led it.
CREATE TABLE fact (
    run   TEXT NOT NULL REFERENCES run,
    seq   INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    fact  TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- A name that one holder at a time may have. The row stays when the name is free: tokens only grow.
CREATE TABLE name (
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    token     INTEGER NOT NULL,
    holder    TEXT,
    since_ms  INTEGER,
    process   INTEGER REFERENCES process,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- A place in line for names that were refused; never a hold.
CREATE TABLE ticket (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    holder  TEXT NOT NULL UNIQUE,
    process INTEGER NOT NULL REFERENCES process
) STRICT;

CREATE TABLE ticket_name (
    ticket  INTEGER NOT NULL REFERENCES ticket ON DELETE CASCADE,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    PRIMARY KEY (ticket, kind, name)
) STRICT, WITHOUT ROWID;

-- One life of a process that holds or waits.
CREATE TABLE process (
    id        INTEGER PRIMARY KEY,
    pid       INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    boot      TEXT NOT NULL,
    namespace TEXT NOT NULL,
    UNIQUE (pid, started, boot, namespace)
) STRICT;
