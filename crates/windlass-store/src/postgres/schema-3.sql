-- From version 2: what workers have besides slots, and where the attempts of submitted runs began.
ALTER TABLE worker ADD COLUMN offer TEXT NOT NULL DEFAULT '';

-- The workers that facts of a run mean by numbers.
CREATE TABLE run_worker (
    run    TEXT COLLATE "C" NOT NULL REFERENCES run,
    number BIGINT NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, number)
);
