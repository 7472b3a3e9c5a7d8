-- From version 11: what workers have besides slots, and where the attempts of submitted runs began.
ALTER TABLE worker ADD COLUMN offer TEXT NOT NULL DEFAULT '';

-- The workers that facts of a run mean by numbers.
CREATE TABLE run_worker (
    run    TEXT NOT NULL REFERENCES run,
    number INTEGER NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
