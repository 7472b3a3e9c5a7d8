-- From version 10: the values that steps of submitted runs have handed on, as JSON objects.
CREATE TABLE step_output (
    run     TEXT NOT NULL REFERENCES run,
    work    INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (run, work, attempt)
) STRICT, WITHOUT ROWID;
