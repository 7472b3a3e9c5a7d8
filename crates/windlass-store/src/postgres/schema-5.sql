-- From version 4: what orders print, for readers on other machines. One row for each order that has printed
-- something. A run is deleted before its logs, so nothing refers to it.
CREATE TABLE log_stream (
    token  BIGINT PRIMARY KEY,
    run    TEXT COLLATE "C" NOT NULL,
    -- The step; none for a hook.
    work   BIGINT,
    -- The name of the log among those of the run. Several orders may add to one log.
    file   TEXT COLLATE "C" NOT NULL,
    worker TEXT NOT NULL
);

CREATE INDEX log_stream_by_run ON log_stream (run, file, token);

-- A piece of what an order has printed, from the position `at` on. A stream without a beginning, or with
-- a gap, lacks what was left out.
CREATE TABLE log_chunk (
    token BIGINT NOT NULL REFERENCES log_stream ON DELETE CASCADE,
    at    BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (token, at)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- What is shown of a worker besides its slots, as a JSON object.
ALTER TABLE worker ADD COLUMN about TEXT NOT NULL DEFAULT '{}';
