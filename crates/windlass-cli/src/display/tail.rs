//! Reads the log of an attempt, during the attempt and after it.
//!
//! The log itself is the buffer: output that was not shown is read again, so a line of any length needs
//! no memory. No log stays open, so that processes can use the open files of the system.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use windlass_server::open_log_file;

use crate::clean::{Cleaner, Keep};

/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;
/// How many bytes of one log are read before another log has its turn.
const TURN: u64 = 1024 * 1024;
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

/// A position in a log, up to which it has been shown.
pub(crate) struct Tail {
    path: PathBuf,
    shown: u64,
    /// The position up to which there is no further line break.
    seen: u64,
}

impl Tail {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), shown: 0, seen: 0 }
    }

    /// Passes new complete lines to `take`, in pieces. Returns whether there may be more already.
    pub(crate) fn lines(&mut self, until: Until, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let end = match until {
            Until::TheEnd => u64::MAX,
            Until::Now => self.last_break()?,
        };
        self.give(end, take)?;
        let more = until == Until::Now && self.seen < self.len()?;
        Ok(more)
    }

    /// Passes new bytes to `take`, at most one turn's unless the log has ended. Returns whether there may
    /// be more already.
    pub(crate) fn bytes(&mut self, until: Until, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let end = match until {
            Until::TheEnd => u64::MAX,
            Until::Now => self.shown + TURN,
        };
        self.give(end, take)?;
        Ok(until == Until::Now && self.shown < self.len()?)
    }

    /// Returns the position after the last line break within the next turn's bytes, or up to which the
    /// log has been shown if there is none.
    fn last_break(&mut self) -> io::Result<u64> {
        let (mut end, until) = (self.shown, self.seen + TURN);
        let mut place = self.seen;
        self.read(place, until, &mut |piece| {
            if let Some(last) = piece.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                end = place + last as u64 + 1;
            }
            place += piece.len() as u64;
        })?;
        self.seen = place;
        Ok(end)
    }

    fn give(&mut self, end: u64, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut place = self.shown;
        let given = self.read(place, end, &mut |piece| {
            take(piece);
            place += piece.len() as u64;
        });
        self.shown = place;
        self.seen = self.seen.max(place);
        given
    }

    /// Reads from one position to another, or to the end of the log.
    fn read(&self, from: u64, to: u64, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut rest = to.min(self.len()?).saturating_sub(from);
        if rest == 0 {
            return Ok(());
        }
        let mut file = open_log_file(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        let most = |rest: u64| usize::try_from(rest).map_or(PIECE, |rest| rest.min(PIECE));
        let mut buffer = vec![0; most(rest)];
        while rest > 0 {
            match file.read(&mut buffer[..most(rest)]) {
                Ok(0) => break,
                Ok(count) => {
                    take(&buffer[..count]);
                    rest -= count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the length of the log, which may not exist yet.
    fn len(&self) -> io::Result<u64> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            log => Ok(log?.len()),
        }
    }
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
pub(crate) fn last_line(path: &Path) -> io::Result<String> {
    let bytes = windlass_server::tail(path, WINDOW)?.text;
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
