-- The tables of a store, in a schema of its own. Names sort by their bytes, as everywhere in Windlass.

-- The counters of the store: one row. A writer locks it first, so that writers go one after the other and
-- numbers follow the order of the commits.
CREATE TABLE meta (
    one      BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    version  INTEGER NOT NULL,
    id       TEXT NOT NULL,
    -- The machine whose processes use the store.
    machine  TEXT NOT NULL,
    boot     TEXT NOT NULL DEFAULT '',
    -- How many boots the store was used in before this one.
    epoch    BIGINT NOT NULL DEFAULT 0,
    event    BIGINT NOT NULL DEFAULT 0,
    request  BIGINT NOT NULL DEFAULT 0,
    run      BIGINT NOT NULL DEFAULT 0,
    token    BIGINT NOT NULL DEFAULT 0,
    -- When the server was started that has served the latest writer.
    server   TIMESTAMPTZ
);

-- A lock, a semaphore or the right to lead a run. The row stays while the name has no holder: its
-- tokens only grow.
CREATE TABLE name (
    kind      TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    capacity  BIGINT,
    token     BIGINT NOT NULL,
    acquired  BIGINT NOT NULL,
    released  BIGINT NOT NULL,
    denied    BIGINT NOT NULL,
    reclaimed BIGINT NOT NULL,
    stale     BIGINT NOT NULL,
    arrivals  BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- A lease on a name. Times in ns are since the boot; those in ms are since the Unix epoch, for display.
CREATE TABLE lease (
    kind          TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    holder        TEXT COLLATE "C" NOT NULL,
    token         BIGINT NOT NULL,
    weight        BIGINT NOT NULL,
    since_ns      BIGINT NOT NULL,
    heartbeat_ns  BIGINT NOT NULL,
    timeout_ns    BIGINT NOT NULL,
    max_hold_ns   BIGINT,
    presence      TEXT NOT NULL,
    remains       TEXT NOT NULL,
    since_ms      BIGINT NOT NULL,
    boot          TEXT NOT NULL,
    -- The process that holds the lease; the lease ends with it.
    pid           BIGINT,
    started       BIGINT,
    namespace     TEXT,
    -- The processes that work under the lease: their tag and their process group.
    tag           TEXT,
    group_leader  BIGINT,
    group_started BIGINT,
    group_session BIGINT,
    uid           BIGINT,
    -- The items that the holder has of a limit, separated by commas.
    items         TEXT,
    PRIMARY KEY (kind, name, holder)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX lease_by_process ON lease (pid, started);

-- The items of the limits that have some, separated by commas.
CREATE TABLE limit_items (
    name     TEXT COLLATE "C" PRIMARY KEY,
    items    TEXT NOT NULL,
    variable TEXT NOT NULL
);

-- A waiter in the queue for names that were refused.
CREATE TABLE waiter (
    holder      TEXT COLLATE "C" PRIMARY KEY,
    arrival     BIGINT NOT NULL,
    priority    BIGINT NOT NULL,
    notified_ns BIGINT,
    since_ms    BIGINT NOT NULL,
    wakeup      TEXT,
    boot        TEXT NOT NULL,
    pid         BIGINT,
    started     BIGINT,
    namespace   TEXT
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE waiter_name (
    kind    TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    holder  TEXT COLLATE "C" NOT NULL REFERENCES waiter ON DELETE CASCADE,
    -- The order in which the claim named them.
    place   BIGINT NOT NULL,
    weight  BIGINT NOT NULL,
    refused BOOLEAN NOT NULL,
    -- The order of the queue: by rank (the bits of the priority inverted, so that the most urgent is the
    -- smallest), then by arrival.
    rank    BIGINT NOT NULL,
    arrival BIGINT NOT NULL,
    PRIMARY KEY (kind, name, holder)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX waiter_name_by_holder ON waiter_name (holder, place);
CREATE INDEX queue ON waiter_name (kind, name, rank, arrival, holder) WHERE refused;

-- The events, numbered in the order of their commits.
CREATE TABLE event (
    number BIGINT PRIMARY KEY,
    name   TEXT COLLATE "C" NOT NULL,
    at_ms  BIGINT NOT NULL
);

-- The requests to running coordinators and waiting guards.
CREATE TABLE request (
    number BIGINT PRIMARY KEY,
    target TEXT COLLATE "C" NOT NULL,
    text   TEXT NOT NULL,
    at_ms  BIGINT NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX request_by_target ON request (target, number);

-- A run of a workflow, as the user submitted it.
CREATE TABLE run (
    id         TEXT COLLATE "C" PRIMARY KEY,
    -- The order of submission.
    number     BIGINT NOT NULL,
    workflow   TEXT COLLATE "C" NOT NULL,
    file       TEXT NOT NULL,
    text       TEXT NOT NULL,
    dir        TEXT NOT NULL,
    params     TEXT NOT NULL,
    steps      TEXT NOT NULL,
    jobs       BIGINT,
    priority   BIGINT,
    uid        BIGINT,
    -- The environment that a submitted run takes along, as a JSON object; none for a run in the foreground.
    env        TEXT,
    created_ms BIGINT NOT NULL,
    ended_ms   BIGINT,
    outcome    TEXT
);

CREATE INDEX run_by_workflow ON run (workflow, created_ms, number);
CREATE INDEX run_by_time ON run (created_ms, number);
CREATE INDEX run_open ON run (created_ms, number) WHERE ended_ms IS NULL;

-- The journal: the facts of a run, in order. A row has all facts of one commit, a line each, with the epoch
-- of the leader that appended them; `seq` is the number of its last fact.
CREATE TABLE fact (
    run   TEXT COLLATE "C" NOT NULL REFERENCES run,
    seq   BIGINT NOT NULL,
    count BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);

-- What stands for the facts up to `seq`, which are deleted.
CREATE TABLE journal_base (
    run  TEXT COLLATE "C" PRIMARY KEY REFERENCES run,
    seq  BIGINT NOT NULL,
    text TEXT NOT NULL
);

-- Queues, which are runs that stay open and to which steps are added.
CREATE TABLE run_queue (
    name  TEXT COLLATE "C" PRIMARY KEY,
    run   TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES run,
    -- How many steps were ever added: the number of the last one.
    added BIGINT NOT NULL DEFAULT 0
);

-- The steps that the journal of a queue or its base knows, and those that the scheduler has not taken yet.
CREATE TABLE added_step (
    run  TEXT COLLATE "C" NOT NULL REFERENCES run,
    work BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, work)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The attempts of a run. Times are milliseconds since the Unix epoch.
CREATE TABLE attempt (
    run        TEXT COLLATE "C" NOT NULL REFERENCES run,
    work       BIGINT NOT NULL,
    attempt    BIGINT NOT NULL,
    step       TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms   BIGINT NOT NULL,
    ending     TEXT NOT NULL,
    code       BIGINT,
    signal     BIGINT,
    why        TEXT,
    peak_kib   BIGINT,
    cpu_ms     BIGINT,
    PRIMARY KEY (run, work, attempt)
);

-- The guards that steps wait for, for display.
CREATE TABLE guard_wait (
    run         TEXT COLLATE "C" NOT NULL REFERENCES run,
    work        BIGINT NOT NULL,
    guard       TEXT NOT NULL,
    since_ms    BIGINT NOT NULL,
    checks      BIGINT NOT NULL,
    last_result TEXT,
    escalated   BOOLEAN NOT NULL,
    PRIMARY KEY (run, work)
);

-- What users have decided about the guards of steps, once for each attempt.
CREATE TABLE decision (
    run     TEXT COLLATE "C" NOT NULL REFERENCES run,
    work    BIGINT NOT NULL,
    guard   TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    verdict TEXT NOT NULL,
    uid     BIGINT NOT NULL,
    at_ms   BIGINT NOT NULL,
    PRIMARY KEY (run, work, guard, attempt)
);

-- What workers have to execute, and from its commit on may be executing.
CREATE TABLE work_order (
    token  BIGINT PRIMARY KEY,
    run    TEXT COLLATE "C" NOT NULL,
    key    TEXT COLLATE "C" NOT NULL,
    worker TEXT COLLATE "C" NOT NULL,
    life   BIGINT NOT NULL,
    text   TEXT NOT NULL,
    wish   TEXT,
    UNIQUE (run, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX work_order_by_life ON work_order (worker, life, token);

-- What became of orders, until the scheduler has taken it in. Reports come and go with each step: a
-- reference to the order would cost more than the report.
CREATE TABLE report (
    token BIGINT PRIMARY KEY,
    text  TEXT NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE worker (
    name     TEXT COLLATE "C" PRIMARY KEY,
    life     BIGINT NOT NULL,
    slots    BIGINT NOT NULL,
    state    TEXT NOT NULL,
    since_ms BIGINT NOT NULL
);
