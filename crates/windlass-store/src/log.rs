//! The logs of orders that a store keeps for readers on other machines.
//!
//! What one order prints is a *stream* of chunks, each with its position. A log consists of the streams of
//! all orders that have added to it. Chunks are written beside the transactions of the store, and no writer
//! waits for them: a chunk that is written again replaces itself, and one of a run that is deleted is dropped.

use windlass_core::WorkId;

use crate::error::StoreError;

/// The maximum number of bytes of a chunk.
pub const LOG_CHUNK_BYTES: u64 = 256 << 10;

/// What an order prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStream {
    /// The order.
    pub token: u64,
    /// The run of the order.
    pub run: String,
    /// The step of the order; none for a hook.
    pub work: Option<WorkId>,
    /// The name of the log among those of the run.
    pub file: String,
    /// The name of the worker that executes the order.
    pub worker: String,
}

/// A piece of what an order has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The order.
    pub token: u64,
    /// How much the order had printed before.
    pub at: u64,
    /// What it has printed then.
    pub bytes: Vec<u8>,
}

/// Chunks that are stored together, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBatch {
    /// The streams of the chunks.
    pub streams: Vec<LogStream>,
    /// The chunks. One at the position of a stored one takes its place.
    pub chunks: Vec<LogChunk>,
    /// What to delete: of a stream, the chunks from the first position on, up to the second.
    pub left_out: Vec<(u64, u64, u64)>,
}

/// A log that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLog {
    /// Its name among those of its run.
    pub file: String,
    /// How many bytes of it the store has.
    pub length: u64,
    /// The position behind the last of them.
    pub end: LogPosition,
}

/// A position in a log: behind this many bytes of the stream of that order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The order.
    pub token: u64,
    /// How many bytes of its stream come before.
    pub at: u64,
}

/// The logs that a store keeps.
pub trait LogStore {
    /// Stores chunks. Those of runs that do not exist are dropped.
    fn put(&mut self, batch: &LogBatch) -> Result<(), StoreError>;
    /// Returns how much of a stream was stored, including what was left out.
    fn stored_of(&mut self, token: u64) -> Result<u64, StoreError>;
    /// Returns the logs of a run, by name.
    fn of_run(&mut self, run: &str) -> Result<Vec<StoredLog>, StoreError>;
    /// Returns where those of these logs end that the store has.
    fn ends(&mut self, run: &str, files: &[&str])
    -> Result<Vec<(String, LogPosition)>, StoreError>;
    /// Returns the last bytes of a log, at most so many, of what the last order has added to it.
    fn tail(&mut self, run: &str, file: &str, most: u64) -> Result<Option<LogChunk>, StoreError>;
    /// Returns the next chunks of a log behind `position`, each with the worker that has written it: about
    /// `most` bytes, and none at the end.
    fn after(
        &mut self,
        run: &str,
        file: &str,
        position: LogPosition,
        most: u64,
    ) -> Result<Vec<(LogChunk, String)>, StoreError>;
    /// Returns the steps of a run that have logs.
    fn works(&mut self, run: &str) -> Result<Vec<WorkId>, StoreError>;
    /// Deletes some of the logs of a run, or of one step of it. Returns whether there may be more.
    fn delete_some(&mut self, run: &str, work: Option<WorkId>) -> Result<bool, StoreError>;
    /// Returns the runs that have logs and do not exist, each with the length of its logs.
    fn of_no_run(&mut self) -> Result<Vec<(String, u64)>, StoreError>;
}
