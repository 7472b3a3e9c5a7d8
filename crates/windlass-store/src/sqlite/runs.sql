-- A run of a workflow, as the user submitted it.
CREATE TABLE run (
    id         TEXT PRIMARY KEY,
    file       TEXT NOT NULL,
    text       TEXT NOT NULL,
    dir        TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

-- The journal: the facts of a run, in order, with the epoch of the leader that appended them.
CREATE TABLE fact (
    run   TEXT NOT NULL REFERENCES run,
    seq   INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    fact  TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
