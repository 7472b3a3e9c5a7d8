//! Reads the log of an attempt, during the attempt and after it.
//!
//! Only an incomplete line is kept, and only if it is not longer than a turn. The log itself is the buffer of a
//! longer one, which is read again once it has ended. So a line of any length needs little memory. No log stays
//! open, so that processes can use the open files of the system.

use std::io;
use std::path::{Path, PathBuf};

use windlass_server::{LogCursor, ShownLogs};

use crate::clean::{Cleaner, Keep};

/// How many bytes of one log are read before another log has its turn.
const TURN: u64 = 1024 * 1024;
/// How much memory a log keeps between two turns without need.
const SPARE: usize = 16 * 1024;
/// How many bytes at the end of a log are read for its last line.
const WINDOW: u64 = 4 * 1024;

/// Whether more may be written to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The attempt runs: an incomplete line waits for its rest.
    Now,
    /// The attempt has ended, and its log is complete.
    TheEnd,
}

/// A position in a log, up to which it has been read.
pub(crate) struct Tail {
    path: PathBuf,
    cursor: LogCursor,
    /// What was read and not shown: an incomplete line.
    rest: Vec<u8>,
    begin: LineBegin,
    /// Whether the incomplete line is too long to be kept.
    is_long: bool,
}

/// Where an incomplete line begins.
#[derive(Clone, Copy, Default)]
struct LineBegin {
    cursor: LogCursor,
    /// How many bytes come before it that are read from there.
    skip: usize,
}

impl Tail {
    pub(crate) fn new(path: &Path) -> Self {
        let (cursor, begin) = (LogCursor::default(), LineBegin::default());
        Self { path: path.to_owned(), cursor, rest: Vec::new(), begin, is_long: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Passes new complete lines to `take`, in pieces. Returns whether there may be more already.
    pub(crate) fn lines(
        &mut self,
        logs: &mut ShownLogs,
        until: Until,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<bool> {
        let was_long = self.is_long;
        if was_long {
            let mut piece = Vec::new();
            let read = logs.read_on(&self.path, &mut self.cursor, TURN, &mut piece)?;
            if until == Until::Now && !piece.iter().any(is_break) {
                return Ok(read as u64 >= TURN);
            }
            self.long_line(logs, take)?;
        }
        loop {
            let before = self.cursor;
            let read = logs.read_on(&self.path, &mut self.cursor, TURN, &mut self.rest);
            if until == Until::Now && !was_long && matches!(read, Ok(0)) {
                return Ok(false);
            }
            let end = match self.rest.iter().rposition(is_break) {
                // What was read before is shown also if the rest cannot be read.
                _ if until == Until::TheEnd => self.rest.len(),
                Some(last) => last + 1,
                None => 0,
            };
            take(&self.rest[..end]);
            self.rest.drain(..end);
            let read = read?;
            if let Some(skip) = read.checked_sub(self.rest.len()) {
                self.begin = LineBegin { cursor: before, skip };
            }
            self.is_long = self.rest.len() as u64 >= TURN;
            if self.is_long {
                self.rest.clear();
            }
            self.rest.shrink_to(SPARE);
            if until == Until::Now || read == 0 {
                return Ok(read as u64 >= TURN);
            }
        }
    }

    /// Passes a line to `take` that was too long to be kept, and keeps what was read behind it.
    fn long_line(&mut self, logs: &mut ShownLogs, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let LineBegin { cursor, mut skip } = self.begin;
        (self.cursor, self.is_long) = (cursor, false);
        loop {
            let (before, mut piece) = (self.cursor, Vec::new());
            if logs.read_on(&self.path, &mut self.cursor, TURN, &mut piece)? == 0 {
                return Ok(());
            }
            let from = skip.min(piece.len());
            skip -= from;
            match piece[from..].iter().position(is_break) {
                Some(last) => {
                    let end = from + last + 1;
                    take(&piece[from..end]);
                    self.rest = piece.split_off(end);
                    self.begin = LineBegin { cursor: before, skip: end };
                    return Ok(());
                }
                None => take(&piece[from..]),
            }
        }
    }

    /// Passes new bytes to `take`, one turn's unless the log has ended. Returns whether there may be more
    /// already.
    pub(crate) fn bytes(
        &mut self,
        logs: &mut ShownLogs,
        until: Until,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<bool> {
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let read = logs.read_on(&self.path, &mut self.cursor, TURN, &mut piece)?;
            take(&piece);
            if until == Until::Now || read == 0 {
                return Ok(read as u64 >= TURN);
            }
        }
    }
}

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Cleans the lines of a step for a terminal, and puts a prefix before each.
///
/// A carriage return ends a line as a line feed does, so that each state of a progress bar is a line of
/// its own.
pub(crate) struct LineWriter {
    prefix: String,
    cleaner: Cleaner,
    line: LinePlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePlace {
    Start,
    Within,
    /// After a carriage return, which may be part of a line break.
    Returned,
}

impl LineWriter {
    pub(crate) fn new(prefix: String, keep: Keep) -> Self {
        Self { prefix, cleaner: Cleaner::new(keep), line: LinePlace::Start }
    }

    /// Appends a piece of a log to `out`.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut String) {
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part {
                [text @ .., end @ (b'\n' | b'\r')] => (text, Some(*end)),
                text => (text, None),
            };
            if !text.is_empty() {
                self.begin(out);
                self.cleaner.push(text, out);
            }
            match (end, self.line) {
                (Some(b'\r'), LinePlace::Within) => {
                    self.end(out);
                    self.line = LinePlace::Returned;
                }
                (Some(b'\n'), LinePlace::Returned) => self.line = LinePlace::Start,
                (Some(b'\n'), _) => {
                    self.begin(out);
                    self.end(out);
                }
                _ => {}
            }
        }
    }

    /// Ends the last line, if it has no line break.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if self.line == LinePlace::Within {
            self.end(out);
        }
        self.line = LinePlace::Start;
    }

    fn begin(&mut self, out: &mut String) {
        if self.line != LinePlace::Within {
            out.push_str(&self.prefix);
            self.line = LinePlace::Within;
        }
    }

    fn end(&mut self, out: &mut String) {
        self.cleaner.end_line(out);
        out.push('\n');
        self.line = LinePlace::Start;
    }
}

/// Returns the last line of a log that is not blank, cleaned; empty if there is none.
pub(crate) fn last_line(logs: &mut ShownLogs, path: &Path) -> io::Result<String> {
    let bytes = logs.tail(path, WINDOW)?.text;
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).rev();
    let shown = lines.map(|line| {
        let (mut cleaner, mut out) = (Cleaner::new(Keep::Nothing), String::new());
        cleaner.push(line, &mut out);
        cleaner.end_line(&mut out);
        out.trim().to_owned()
    });
    Ok(shown.into_iter().find(|line| !line.is_empty()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
