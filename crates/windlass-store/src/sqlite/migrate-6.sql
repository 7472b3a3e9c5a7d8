-- From version 5: what users have decided about the guards of steps, once for each attempt.
CREATE TABLE decision (
    run     TEXT NOT NULL REFERENCES run,
    work    INTEGER NOT NULL,
    guard   TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    uid     INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    PRIMARY KEY (run, work, guard, attempt)
) STRICT, WITHOUT ROWID;
