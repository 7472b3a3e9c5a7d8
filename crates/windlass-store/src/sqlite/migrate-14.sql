-- From version 13: how many changes of steps were ever stored, which is the number of the last one.
ALTER TABLE run_queue ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

-- The changes of steps that had not begun: those that the journal of a queue has behind its base, and those
-- that the scheduler has not taken yet.
CREATE TABLE step_change (
    run    TEXT NOT NULL REFERENCES run,
    number INTEGER NOT NULL,
    text   TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
