//! What a backend tells about itself, for whoever looks after it. Judges nothing.

use std::path::PathBuf;
use std::time::Duration;

/// The state of a backend.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Examined {
    /// It is in memory.
    Memory,
    /// It is a file.
    File(ExaminedFile),
    /// It is in a database.
    Database(Box<ExaminedDatabase>),
}

/// The state of a file of SQLite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExaminedFile {
    /// The file.
    pub path: PathBuf,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many bytes its write-ahead log has.
    pub wal_bytes: u64,
    /// The network file system that it is on, if it is on one.
    pub network: Option<&'static str>,
    /// The version of SQLite.
    pub version: &'static str,
}

/// The state of a database of PostgreSQL. What the account may not see is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExaminedDatabase {
    /// The URL, without a password.
    pub url: String,
    /// The account.
    pub account: String,
    /// The version of the server, such as `15.14`.
    pub version: String,
    /// The settings of this session that decide what a commit survives, by name.
    pub settings: Vec<(String, String)>,
    /// The standbys that are connected, by how they are synchronized: `sync`, `quorum`, `potential`, `async`.
    pub standbys: Vec<String>,
    /// For how long the oldest transaction of the database has been open.
    pub oldest_transaction: Option<Duration>,
    /// How many rows of the store are dead, and how many alive.
    pub rows: (u64, u64),
    /// How many connections the server has, and may have.
    pub connections: (u64, u64),
    /// By how many milliseconds the server's clock is ahead of this machine's, and how exact that is.
    pub clock_ahead_ms: (i64, u64),
    /// Whether the statements of one connection were executed by several processes of the server.
    pub is_pooled: bool,
    /// Whether the connection is encrypted; none if it needs not be, because it does not leave the machine.
    pub is_encrypted: Option<bool>,
    /// The version of the tables.
    pub tables: i32,
}
