-- From version 1: the values that steps of submitted runs have handed on, as JSON objects.
CREATE TABLE step_output (
    run     TEXT COLLATE "C" NOT NULL REFERENCES run,
    work    BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (run, work, attempt)
);
