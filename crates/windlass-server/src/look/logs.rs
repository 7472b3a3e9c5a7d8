//! The logs of a run: what its store keeps of them, or else files of this machine.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use windlass_store::{LogPosition, Store, StoreError, StoredLog};

use super::RunView;
use crate::log_file::{log_length, open_log, open_log_file, size};

/// How many bytes are read from a store at once.
const PIECE_BYTES: u64 = 256 << 10;

/// Where the logs of a run can be read.
pub struct RunLogs {
    run: String,
    /// A store that keeps logs, with those that it has of the run, by name.
    stored: Option<(Store, BTreeMap<String, StoredLog>)>,
    /// Whether what another machine has printed may be in no file of this one.
    may_be_elsewhere: bool,
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCursor {
    pub(super) of_file: u64,
    pub(super) of_store: LogPosition,
    /// Whether the last line that was read from a store is incomplete.
    pub(super) within_line: bool,
}

impl RunLogs {
    /// Finds the logs of a run in its store, if that keeps logs, and in files of this machine.
    pub fn of(store: &mut Store, view: &RunView) -> Result<Self, StoreError> {
        let mut logs = Self::on_this_machine(view);
        if store.logs().is_some() {
            logs.stored = Some((store.try_clone()?, BTreeMap::new()));
            logs.may_be_elsewhere = view.run.env.is_some();
            logs.look_again()?;
        }
        Ok(logs)
    }

    /// Finds the logs of a run in files of this machine only.
    #[must_use]
    pub fn on_this_machine(view: &RunView) -> Self {
        Self { run: view.run.id.clone(), stored: None, may_be_elsewhere: false }
    }

    /// Looks which logs there are now.
    pub fn look_again(&mut self) -> Result<(), StoreError> {
        if let Some((store, known)) = &mut self.stored
            && let Some(logs) = store.logs()
        {
            let found = logs.of_run(&self.run)?.into_iter();
            *known = found.map(|log| (log.file.clone(), log)).collect();
        }
        Ok(())
    }

    /// Returns whether a step that has printed nothing may have no log, though it has failed.
    #[must_use]
    pub fn may_lack(&self) -> bool {
        self.may_be_elsewhere
    }

    /// Returns whether there is a log that would be at `path` on the machine that wrote it.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.length_in_store(path).is_some() || path.exists()
    }

    /// Returns how many bytes a log has, without lines about what was left out.
    #[must_use]
    pub fn length(&self, path: &Path) -> u64 {
        self.length_in_store(path).unwrap_or_else(|| log_length(path))
    }

    /// Opens a log to read all that there is of it, up to the length that it had when the caller asked for
    /// that.
    pub fn open(&self, path: &Path, left: u64) -> io::Result<Box<dyn Read>> {
        if self.length_in_store(path).is_none() {
            return Ok(Box::new(open_log(path)?.take(left)));
        }
        let store = self.stored.as_ref().map(|(store, _)| store.try_clone());
        let store = store.expect("it has the log").map_err(io::Error::other)?;
        let file = file_name(path).unwrap_or_default().to_owned();
        let (run, cursor, piece) = (self.run.clone(), LogCursor::default(), Vec::new());
        Ok(Box::new(StoredLogReader { store, run, file, cursor, left, piece, read: 0 }))
    }

    /// Appends what a log had behind `cursor` at the last look to `bytes`, and moves it: about `most` bytes, and none if there
    /// is no more now.
    pub fn read_on(
        &mut self,
        path: &Path,
        cursor: &mut LogCursor,
        most: u64,
        bytes: &mut Vec<u8>,
    ) -> io::Result<usize> {
        if cursor.of_file == 0
            && let Some(file) = file_name(path)
            && let Some((store, known)) = &mut self.stored
            && let Some(log) = known.get(file)
        {
            if cursor.of_store >= log.end {
                return Ok(0);
            }
            let read = read_stored(store, &self.run, file, cursor, most, bytes);
            return read.map(|read| read.bytes).map_err(io::Error::other);
        }
        Ok(read_file(path, cursor, most, bytes)?.unwrap_or_default())
    }

    fn length_in_store(&self, path: &Path) -> Option<u64> {
        let (_, known) = self.stored.as_ref()?;
        known.get(file_name(path)?).map(|log| log.length)
    }
}

/// Returns the name of a log among those of its run.
pub(super) fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// Appends what a file has behind a position to `bytes`, at most as much, and moves it. Returns none if there is
/// no file.
pub(super) fn read_file(
    path: &Path,
    cursor: &mut LogCursor,
    most: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<usize>> {
    let mut file = match open_log_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(cursor.of_file))?;
    let read = file.take(most).read_to_end(bytes)?;
    cursor.of_file += read as u64;
    Ok(Some(read))
}

/// Reads one log from a store.
struct StoredLogReader {
    store: Store,
    run: String,
    file: String,
    cursor: LogCursor,
    /// How many bytes of the log to read at most.
    left: u64,
    piece: Vec<u8>,
    /// How many bytes of the piece were read.
    read: usize,
}

impl Read for StoredLogReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            self.piece.clear();
            self.read = 0;
            let Self { store, run, file, cursor, left, piece, .. } = self;
            if *left > 0 {
                let read = read_stored(store, run, file, cursor, PIECE_BYTES, piece);
                let printed = read.map_err(io::Error::other)?.printed;
                *left = left.saturating_sub(printed);
            }
        }
        let count = (self.piece.len() - self.read).min(out.len());
        out[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

/// How much was read.
pub(super) struct Amount {
    pub(super) bytes: usize,
    /// The same without lines about what was left out.
    printed: u64,
}

/// Appends what a store has of a log behind a position to `bytes`, and moves it.
pub(super) fn read_stored(
    store: &mut Store,
    run: &str,
    file: &str,
    cursor: &mut LogCursor,
    most: u64,
    bytes: &mut Vec<u8>,
) -> Result<Amount, StoreError> {
    let (before, mut printed) = (bytes.len(), 0);
    let Some(logs) = store.logs() else { return Ok(Amount { bytes: 0, printed }) };
    for (chunk, worker) in logs.after(run, file, cursor.of_store, most)? {
        let LogPosition { token, at } = cursor.of_store;
        let expected = if token == chunk.token { at } else { 0 };
        if chunk.at > expected {
            let line_break = if cursor.within_line { "\n" } else { "" };
            let left_out = size(chunk.at - expected);
            let gap = format!(
                "{line_break}[windlass: {left_out} of output left out here; on the machine of worker \
                 {worker}: windlass log --local]\n"
            );
            bytes.extend(gap.bytes());
        }
        let length = chunk.bytes.len() as u64;
        printed += length;
        cursor.of_store = LogPosition { token: chunk.token, at: chunk.at + length };
        cursor.within_line = chunk.bytes.last().is_some_and(|last| *last != b'\n');
        bytes.extend(chunk.bytes);
    }
    Ok(Amount { bytes: bytes.len() - before, printed })
}
