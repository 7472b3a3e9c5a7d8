//! Looks for what is wrong with a store, or soon will be, and says what to do.
//!
//! A *finding* is something that a user has to mend. A *note* says what holds, such as what a loss of the server would cost.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::fs::statvfs;
use windlass_core::Name;
use windlass_store::{
    Blocker, Durability, Examined, ExaminedDatabase, ExaminedFile, Store, StoreError, WriterWait,
};

use crate::log_file::size;
use crate::look::run::live_holder;
use crate::service::{SeenWorker, workers};

/// The oldest supported version of PostgreSQL.
const OLDEST_SERVER: u32 = 14;
/// By how much clocks may differ before it is a finding.
const CLOCKS: Duration = Duration::from_secs(1);
/// How long a transaction may be open.
const OPEN: Duration = Duration::from_secs(60);
/// How many rows may be dead for each one that is alive, once there are many.
const DEAD_FOR_EACH: u64 = 2;
const MANY_ROWS: u64 = 100_000;
/// How large a write-ahead log may be.
const LARGEST_WAL: u64 = 64 << 20;
/// How much room a disk needs: this, or this part.
const LEAST_ROOM: u64 = 1 << 30;
const LEAST_PART: u64 = 20;
/// How long to wait for other writers.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was found out about a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What holds.
    pub notes: Vec<Note>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Something that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about, as a word.
    pub about: &'static str,
    /// What holds.
    pub text: String,
}

/// Something that is wrong, or soon will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about, as a word.
    pub about: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub advice: String,
}

impl Diagnosis {
    fn note(&mut self, about: &'static str, text: impl Into<String>) {
        self.notes.push(Note { about, text: text.into() });
    }

    fn find(&mut self, about: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        self.findings.push(Finding { about, text: text.into(), advice: advice.into() });
    }
}

/// Looks at a store, its workers and the disk of this machine.
pub fn diagnose(store: &mut Store) -> Result<Diagnosis, StoreError> {
    let mut diagnosis = Diagnosis::default();
    match store.examine()? {
        Examined::Database(database) => judge_database(&mut diagnosis, &database),
        Examined::File(file) => judge_file(&mut diagnosis, &file),
        _ => {}
    }
    judge_writers(&mut diagnosis, store)?;
    let seen = workers(store)?;
    judge_workers(&mut diagnosis, &seen);
    let (open, is_led) = store.read(|transaction| {
        let is_led = live_holder(transaction, &Name::Scheduler)?.is_some();
        Ok((transaction.runs().served()?.len(), is_led))
    })?;
    if open > 0 && !is_led {
        let runs = if open == 1 { "1 run waits".to_owned() } else { format!("{open} runs wait") };
        diagnosis.find(
            "scheduler",
            format!("{runs}, and no scheduler is running"),
            "start one with: windlass serve",
        );
    }
    if let Ok(disk) = statvfs(store.dir()) {
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let (free, all) = (bytes(disk.f_bavail), bytes(disk.f_blocks));
        judge_room(&mut diagnosis, &store.dir().display().to_string(), free, all);
    }
    Ok(diagnosis)
}

fn judge_database(diagnosis: &mut Diagnosis, database: &ExaminedDatabase) {
    let ExaminedDatabase { url, account, version, tables, .. } = database;
    diagnosis.note(
        "server",
        format!("{url}: PostgreSQL {version}, as {account}; tables of version {tables}"),
    );
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major < OLDEST_SERVER) {
        let advice = format!("use PostgreSQL {OLDEST_SERVER} or newer");
        diagnosis.find("server", format!("PostgreSQL {version} is too old"), advice);
    }
    judge_durability(diagnosis, database);
    if database.is_pooled {
        diagnosis.find(
            "pooler",
            "a pooler gives each transaction another session of the server, so wake-ups, time limits and \
             prepared statements are lost or reach others",
            "connect to the server itself, or set pool_mode = session",
        );
    }
    if database.is_encrypted == Some(false) {
        diagnosis.find(
            "encryption",
            "the connection leaves this machine without encryption",
            "turn on ssl at the server, and add sslmode=verify-full to the URL",
        );
    }
    let (ahead, exact) = database.clock_ahead_ms;
    diagnosis.note("clock", format!("the server's clock is {ahead} ms ahead (± {exact} ms)"));
    if Duration::from_millis(ahead.unsigned_abs().saturating_sub(exact)) > CLOCKS {
        diagnosis.find(
            "clock",
            format!("the clock of this machine and that of the server differ by {ahead} ms"),
            "leases do not depend on it, but displayed times do: set both with NTP",
        );
    }
    if let Some(open) = database.oldest_transaction.filter(|open| *open > OPEN) {
        diagnosis.find(
            "transactions",
            format!("a transaction has been open for {} s, which keeps dead rows", open.as_secs()),
            "find it with: SELECT pid, query FROM pg_stat_activity ORDER BY xact_start; end it with \
             pg_terminate_backend(pid)",
        );
    }
    let (dead, alive) = database.rows;
    if dead > MANY_ROWS && dead > alive.saturating_mul(DEAD_FOR_EACH) {
        diagnosis.find(
            "vacuum",
            format!("{dead} rows of the store are dead, and {alive} are alive"),
            "turn on autovacuum, or run VACUUM",
        );
    }
    let (used, most) = database.connections;
    diagnosis.note("connections", format!("{used} of {most} connections of the server are in use"));
    if used * 10 > most * 9 {
        diagnosis.find(
            "connections",
            format!("{used} of {most} connections of the server are in use"),
            "raise max_connections; each worker needs four, each waiting command two",
        );
    }
}

fn judge_durability(diagnosis: &mut Diagnosis, database: &ExaminedDatabase) {
    let setting = |name: &str| {
        let found = database.settings.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    for (name, what) in [
        ("fsync", "a crash of the server's machine can damage the store"),
        ("full_page_writes", "a loss of power can damage the store"),
        ("synchronous_commit", "a crash of the server loses acknowledged commits"),
    ] {
        if setting(name) == "off" {
            let advice = format!("set {name} = on in postgresql.conf, and reload");
            diagnosis.find("durability", format!("{name} is off: {what}"), advice);
        }
    }
    let is_sync = |state: &&String| ["sync", "quorum"].contains(&state.as_str());
    let synchronous = database.standbys.iter().filter(is_sync).count();
    let all = database.standbys.len();
    let waits = !matches!(setting("synchronous_commit"), "off" | "local");
    match (setting("synchronous_standby_names"), synchronous) {
        ("", _) if all == 0 => diagnosis.note(
            "standby",
            "none: if the server's disk is lost, so is everything since its last backup",
        ),
        ("", _) => diagnosis.note(
            "standby",
            format!("{all}, none synchronous: a fail-over may lose the last commits"),
        ),
        (_, 0) if waits => diagnosis.find(
            "standby",
            "synchronous standbys are configured, and none is connected: every commit waits for one",
            "start a standby, or clear synchronous_standby_names",
        ),
        (_, 0) => diagnosis.note("standby", "none synchronous: a fail-over may lose the last commits"),
        (_, some) if waits => diagnosis.note(
            "standby",
            format!("{some} of {all} synchronous: a fail-over to one loses nothing"),
        ),
        _ => diagnosis.find(
            "standby",
            "there are synchronous standbys, and synchronous_commit does not wait for them",
            "set synchronous_commit = on",
        ),
    }
}

fn judge_file(diagnosis: &mut Diagnosis, file: &ExaminedFile) {
    let ExaminedFile { path, bytes, wal_bytes, network, version } = file;
    let (all, wal) = (size(*bytes), size(*wal_bytes));
    let path = path.display();
    diagnosis.note("store", format!("{path}: {all}, write-ahead log {wal}, SQLite {version}"));
    if let Some(kind) = network {
        diagnosis.find(
            "file system",
            format!("{path} is on a network file system ({kind}), which can corrupt a store"),
            "move the store to a local disk, or use a database: windlass store init --state postgres://…",
        );
    }
    if *wal_bytes > LARGEST_WAL {
        diagnosis.find(
            "write-ahead log",
            format!(
                "the write-ahead log of {path} has {wal}, because some process reads all the time"
            ),
            "find processes that use it with: fuser FILE; end those that are suspended",
        );
    }
}

/// Looks whether this process can write.
fn judge_writers(diagnosis: &mut Diagnosis, store: &mut Store) -> Result<(), StoreError> {
    let mut blocker: Option<Blocker> = None;
    let mut on_wait = |wait: &dyn WriterWait| match wait.stalled_for() > PATIENCE {
        true => {
            blocker = Some(wait.blocker());
            ControlFlow::Break(StoreError::Interrupted)
        }
        false => ControlFlow::Continue(Duration::from_millis(250)),
    };
    let written = store.transact_while(Durability::Process, &mut on_wait, |_| Ok(()));
    match (written, blocker) {
        (Ok(()), _) => {}
        (_, Some(blocker)) => diagnosis.find(
            "writers",
            format!("no process can write to the store: {blocker}"),
            "resume or end the process that keeps the others out",
        ),
        (Err(error @ StoreError::ReadOnly { .. }), None) => {
            diagnosis.note("writers", format!("{error}, so this is all that can be told"));
        }
        (Err(error @ (StoreError::Database { .. } | StoreError::Fatal { .. })), None) => diagnosis
            .find(
                "writers",
                error.to_string(),
                "see what the message says; of an account of a database: windlass store check",
            ),
        (Err(error), None) => return Err(error),
    }
    Ok(())
}

fn judge_workers(diagnosis: &mut Diagnosis, workers: &[SeenWorker]) {
    let alive = workers.iter().filter(|seen| seen.alive);
    let count = alive.clone().count();
    let slots: u64 = alive.clone().map(|seen| u64::from(seen.worker.slots)).sum();
    diagnosis.note("workers", format!("{count} with {slots} slots"));
    for seen in workers.iter().filter(|seen| !seen.alive) {
        let (name, busy) = (&seen.worker.life.worker, seen.busy);
        let waits = match busy {
            0 => String::new(),
            1 => ", and 1 step waits for it".to_owned(),
            busy => format!(", and {busy} steps wait for it"),
        };
        diagnosis.find(
            "workers",
            format!("worker {name} is gone{waits}"),
            format!("start it again: windlass worker --name {name}"),
        );
    }
    let this = env!("CARGO_PKG_VERSION");
    for seen in alive.filter(|seen| seen.about.version != this) {
        let (name, version) = (&seen.worker.life.worker, &seen.about.version);
        diagnosis.find(
            "versions",
            format!("worker {name} has version {version}, and this is {this}"),
            format!("upgrade it, after: windlass workers drain {name}"),
        );
    }
}

fn judge_room(diagnosis: &mut Diagnosis, dir: &str, free: u64, all: u64) {
    let text = format!("{} of {} are free for logs in {dir}", size(free), size(all));
    match free < LEAST_ROOM.min(all / LEAST_PART) {
        true => diagnosis.find("disk", text, "free some space, for example with: windlass prune"),
        false => diagnosis.note("disk", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the findings about a database are about.
    fn found(change: impl FnOnce(&mut ExaminedDatabase)) -> Vec<&'static str> {
        let on = |name: &str| (name.to_owned(), "on".to_owned());
        let mut database = ExaminedDatabase {
            version: "15.14".to_owned(),
            settings: vec![
                on("fsync"),
                on("full_page_writes"),
                on("synchronous_commit"),
                ("synchronous_standby_names".to_owned(), String::new()),
            ],
            connections: (9, 100),
            ..ExaminedDatabase::default()
        };
        change(&mut database);
        let mut diagnosis = Diagnosis::default();
        judge_database(&mut diagnosis, &database);
        diagnosis.findings.into_iter().map(|finding| finding.about).collect()
    }

    #[test]
    fn each_thing_that_is_wrong_with_a_database_is_found() {
        let set = |name: &'static str, value: &'static str| {
            move |database: &mut ExaminedDatabase| {
                let setting = database.settings.iter_mut().find(|(known, _)| known == name);
                setting.expect("it is there").1 = value.to_owned();
            }
        };
        assert!(found(|_| {}).is_empty());
        assert_eq!(found(|database| database.version = "13.2".to_owned()), ["server"]);
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            assert_eq!(found(set(name, "off")), ["durability"], "{name}");
        }
        assert_eq!(found(set("synchronous_standby_names", "*")), ["standby"]);
        let with_standby = |database: &mut ExaminedDatabase| {
            set("synchronous_standby_names", "*")(database);
            database.standbys = vec!["sync".to_owned()];
        };
        assert!(found(with_standby).is_empty());
        let unheeded = |database: &mut ExaminedDatabase| {
            with_standby(database);
            set("synchronous_commit", "local")(database);
        };
        assert_eq!(found(unheeded), ["standby"]);
        assert_eq!(found(|database| database.is_pooled = true), ["pooler"]);
        assert_eq!(found(|database| database.is_encrypted = Some(false)), ["encryption"]);
        assert!(found(|database| database.clock_ahead_ms = (-1_400, 500)).is_empty());
        assert_eq!(found(|database| database.clock_ahead_ms = (-1_600, 500)), ["clock"]);
        let open = |seconds| Some(Duration::from_secs(seconds));
        assert!(found(|database| database.oldest_transaction = open(60)).is_empty());
        assert_eq!(found(|database| database.oldest_transaction = open(61)), ["transactions"]);
        assert_eq!(found(|database| database.rows = (300_000, 10)), ["vacuum"]);
        assert!(found(|database| database.rows = (90_000, 10)).is_empty());
        assert_eq!(found(|database| database.connections = (91, 100)), ["connections"]);
    }

    #[test]
    fn a_file_on_a_network_and_a_large_log_are_found() {
        let found = |network, wal_bytes| {
            let mut diagnosis = Diagnosis::default();
            let file = ExaminedFile { network, wal_bytes, ..ExaminedFile::default() };
            judge_file(&mut diagnosis, &file);
            diagnosis.findings.len()
        };
        assert_eq!((found(None, 0), found(Some("NFS"), 0), found(None, 1 << 30)), (0, 1, 1));
    }

    #[test]
    fn a_disk_needs_some_room() {
        let found = |free, all| {
            let mut diagnosis = Diagnosis::default();
            judge_room(&mut diagnosis, "/state", free, all);
            diagnosis.findings.len()
        };
        let tib = 1_u64 << 40;
        assert_eq!((found(2 << 30, tib), found(1 << 29, tib), found(1 << 20, 2 << 20)), (0, 1, 0));
    }
}
