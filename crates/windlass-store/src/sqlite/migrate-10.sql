-- From version 9: queues, which are runs that stay open and to which steps are added.
CREATE TABLE run_queue (
    name  TEXT PRIMARY KEY,
    run   TEXT NOT NULL UNIQUE REFERENCES run,
    -- How many steps were ever added: the number of the last one.
    added INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The steps that the journal of a queue or its base knows, and those that the scheduler has not taken yet.
CREATE TABLE added_step (
    run  TEXT NOT NULL REFERENCES run,
    work INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, work)
) STRICT, WITHOUT ROWID;

-- What stands for the facts up to `seq`, which are deleted.
CREATE TABLE journal_base (
    run  TEXT PRIMARY KEY REFERENCES run,
    seq  INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;
