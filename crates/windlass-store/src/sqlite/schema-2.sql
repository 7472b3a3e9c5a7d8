-- The counters of the store: one row.
CREATE TABLE meta (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    -- Also written to the writers' lock file, so that a replaced database is noticed.
    id       TEXT NOT NULL,
    boot     TEXT NOT NULL,
    -- How many boots the store was used in before this one.
    epoch    INTEGER NOT NULL,
    arrivals INTEGER NOT NULL
) STRICT;

-- A lock, a semaphore or the right to lead a run. The row stays while the name has no holder: its
-- tokens only grow.
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

-- A lease on a name. Times in ns are since the boot; those in ms are since the Unix epoch, for display.
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
    -- The process that holds the lease; the lease ends with it.
    pid           INTEGER,
    started       INTEGER,
    namespace     TEXT,
    -- The processes that work under the lease: their tag and their process group.
    mark          TEXT,
    group_leader  INTEGER,
    group_started INTEGER,
    group_session INTEGER,
    PRIMARY KEY (kind, name, holder)
) STRICT, WITHOUT ROWID;

-- A waiter in the queue for names that were refused.
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
    -- The order in which the claim named them.
    place   INTEGER NOT NULL,
    weight  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (kind, name, holder)
) STRICT, WITHOUT ROWID;

CREATE INDEX ticket_name_by_holder ON ticket_name (holder, place);

-- The events, numbered in the order of their commits.
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT NOT NULL,
    at_ms  INTEGER NOT NULL
) STRICT;

-- The requests to running coordinators and waiting guards.
CREATE TABLE request (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    target TEXT NOT NULL,
    text   TEXT NOT NULL,
    at_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX request_by_target ON request (target, number);
