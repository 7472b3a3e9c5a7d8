//! Reads the log of an attempt, while it is written and afterwards.
//!
//! The log itself is the buffer: what has not been shown is read again from there, so a line may be
//! as long as it likes and takes no room here. No log stays open: where few files may be, those that
//! are left are for processes.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use windlass_server::open_log_file;

use crate::clean::{Cleaner, Keep};

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How much of one log is read before it is another's turn.
const TURN: u64 = 1024 * 1024;
/// From how much of the end of a log its last line is taken.
const WINDOW: u64 = 4 * 1024;

/// Whether more may be written to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It goes on: a line that is not complete waits for the rest of it.
    Now,
    /// It has ended: what is there is all there is.
    TheEnd,
}

/// A place in a log: what is before it has been shown.
pub(crate) struct Tail {
    path: PathBuf,
    shown: u64,
    /// Up to here there is no further end of a line.
    seen: u64,
}

impl Tail {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), shown: 0, seen: 0 }
    }

    /// Gives the complete lines that have come to `take`, piece by piece. Returns whether there may
    /// be more already.
    pub(crate) fn lines(&mut self, until: Until, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let end = match until {
            Until::TheEnd => u64::MAX,
            Until::Now => self.last_break()?,
        };
        self.give(end, take)?;
        let more = until == Until::Now && self.seen < self.len()?;
        Ok(more)
    }

    /// Gives all bytes that have come to `take`, as they are, but no more than one turn's unless it
    /// is the end. Returns whether there may be more already.
    pub(crate) fn bytes(&mut self, until: Until, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let end = match until {
            Until::TheEnd => u64::MAX,
            Until::Now => self.shown + TURN,
        };
        self.give(end, take)?;
        Ok(until == Until::Now && self.shown < self.len()?)
    }

    /// Behind the last end of a line within the next turn's bytes; where it has been shown to if
    /// there is none.
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

    /// Reads from one place to another, or to the end of what is there.
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

    /// How long the log is; it may not be there yet.
    fn len(&self) -> io::Result<u64> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            log => Ok(log?.len()),
        }
    }
}

/// Lines of one step, each with the same text before it, cleaned for a terminal.
///
/// A carriage return ends a line as a line feed does, so that each state of a progress bar is a line
/// instead of writing over what is before it.
pub(crate) struct LineWriter {
    prefix: String,
    cleaner: Cleaner,
    line: LinePlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePlace {
    Start,
    Within,
    /// Behind a carriage return, which may be part of the line's end.
    Returned,
}

impl LineWriter {
    pub(crate) fn new(prefix: String, keep: Keep) -> Self {
        Self { prefix, cleaner: Cleaner::new(keep), line: LinePlace::Start }
    }

    /// Adds what a piece of a log looks like to `out`.
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

    /// Ends the last line, if it has none.
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

/// The last line of a log that is not blank, cleaned; empty if there is none.
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
