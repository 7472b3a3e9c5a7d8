-- What the store knows about itself: one row.
CREATE TABLE meta (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    -- Also written in the gate, so that a store that was replaced is noticed.
    id       TEXT NOT NULL,
    boot     TEXT NOT NULL,
    epoch    INTEGER NOT NULL,
    arrivals INTEGER NOT NULL
) STRICT;

-- A lock, a semaphore or the right to lead a run. The row stays while nobody holds it: tokens only
-- grow.
CREATE TABLE name (
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    capacity  INTEGER,
    token     INTEGER NOT NULL,
    acquired  INTEGER NOT NULL DEFAULT 0,
    released  INTEGER NOT NULL DEFAULT 0,
    denied    INTEGER NOT NULL DEFAULT 0,
    reclaimed INTEGER NOT NULL DEFAULT 0,
    stale     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- A hold on a name. Times are nanoseconds since the boot, except for those that people look at.
CREATE TABLE lease (
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    holder        TEXT NOT NULL,
    token         INTEGER NOT NULL,
    weight        INTEGER NOT NULL,
    since_ns      INTEGER NOT NULL,
    heartbeat_ns  INTEGER NOT NULL,
    timeout_ns    INTEGER NOT NULL,
    max_hold_ns   INTEGER,
    presence      TEXT NOT NULL,
    remains       TEXT NOT NULL,
    since_ms      INTEGER NOT NULL,
    boot          TEXT NOT NULL,
    -- The process without which the hold is void.
    pid           INTEGER,
    started       INTEGER,
    namespace     TEXT,
    -- What acts in the holder's name, as far as others can find it.
    mark          TEXT,
    group_leader  INTEGER,
    group_started INTEGER,
    group_session INTEGER,
    PRIMARY KEY (kind, name, holder)
) STRICT, WITHOUT ROWID;

-- A place in line for names that were refused; never a hold.
CREATE TABLE ticket (
    holder    TEXT PRIMARY KEY,
    arrival   INTEGER NOT NULL,
    priority  INTEGER NOT NULL,
    rung_ns   INTEGER,
    since_ms  INTEGER NOT NULL,
    boot      TEXT NOT NULL,
    pid       INTEGER,
    started   INTEGER,
    namespace TEXT,
    bell      TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE ticket_name (
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    holder  TEXT NOT NULL REFERENCES ticket ON DELETE CASCADE,
    -- In the order in which they were asked for.
    place   INTEGER NOT NULL,
    weight  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (kind, name, holder)
) STRICT, WITHOUT ROWID;

CREATE INDEX ticket_name_by_holder ON ticket_name (holder, place);

-- What was emitted, numbered in the order of commits.
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT NOT NULL,
    at_ms  INTEGER NOT NULL
) STRICT;

-- What running coordinators and waiting guards are asked to do.
CREATE TABLE request (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    target TEXT NOT NULL,
    text   TEXT NOT NULL,
    at_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX request_by_target ON request (target, number);
