//! The names of the files in a store's directory.
//!
//! Processes of several versions share the directory, so a name changes only together with the version of
//! the tables, which keeps older processes out.

/// The SQLite database; SQLite puts `-wal` and `-shm` beside it.
pub(crate) const DATABASE: &str = "store.db";
/// The URL of the database that has the store, of which the directory has only files of this machine.
pub(crate) const URL: &str = "database";
/// The lock file of the writers, which also holds the store's id.
pub(crate) const WRITER_LOCK: &str = "gate";
/// The directory of the wake-ups, with one for each topic.
pub(crate) const WAKEUPS: &str = "wakeups";
/// The directory of the runs' own files, such as logs.
const RUNS: &str = "runs";
/// The directory in which waiting guards announce themselves.
const GUARDS: &str = "guards";

/// How the name of the copy begins that a migration makes of the database.
const BACKUP: &str = "store.version-";

/// Returns the name of the copy that a migration makes of a database of an older version.
pub(crate) fn backup(version: i32) -> String {
    format!("{BACKUP}{version}.db")
}

/// Returns whether a store has a file of this name.
pub(crate) fn is_part(name: &[u8]) -> bool {
    [URL, WRITER_LOCK, WAKEUPS, RUNS, GUARDS].iter().any(|part| name == part.as_bytes())
        || [DATABASE, BACKUP].iter().any(|start| name.starts_with(start.as_bytes()))
}
