-- The attempts of a run. Times are milliseconds since the Unix epoch.
CREATE TABLE attempt (
    run        TEXT NOT NULL REFERENCES run,
    work       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    step       TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER NOT NULL,
    ending     TEXT NOT NULL,
    code       INTEGER,
    signal     INTEGER,
    why        TEXT,
    peak_kib   INTEGER,
    cpu_ms     INTEGER,
    PRIMARY KEY (run, work, attempt)
) STRICT, WITHOUT ROWID;

-- The guards that steps wait for, for display.
CREATE TABLE wait (
    run       TEXT NOT NULL REFERENCES run,
    work      INTEGER NOT NULL,
    guard     TEXT NOT NULL,
    since_ms  INTEGER NOT NULL,
    checks    INTEGER NOT NULL,
    said      TEXT,
    escalated INTEGER NOT NULL,
    PRIMARY KEY (run, work)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_by_workflow ON run (workflow, created_ms);
CREATE INDEX run_by_time ON run (created_ms);
