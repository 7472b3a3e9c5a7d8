//! The roster of a run: a file in the directory of its logs, in lines of one length. The first says who
//! leads the run, and each of the others which log a spare file is to become. One file serves both,
//! because a new one costs as much as a small part of a small run.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What it is called.
pub(crate) const NAME: &str = "leader";
/// How long a line is. No name of a log is longer.
pub(crate) const LINE: usize = 128;

/// Writes the line with this number.
pub(crate) fn write(roster: &File, number: u32, text: &str) -> io::Result<()> {
    let mut line = [b'\n'; LINE];
    let place = line.get_mut(..text.len()).ok_or(io::ErrorKind::InvalidFilename)?;
    place.copy_from_slice(text.as_bytes());
    roster.write_all_at(&line, u64::from(number) * LINE as u64)
}

/// The line with this number; empty if there is none.
pub(crate) fn read(roster: &File, number: u32) -> io::Result<String> {
    let mut line = [b'\n'; LINE];
    roster.read_at(&mut line, u64::from(number) * LINE as u64)?;
    Ok(text(&line))
}

/// What stands in a line.
pub(crate) fn text(line: &[u8]) -> String {
    str::from_utf8(line).map(str::trim_end).unwrap_or_default().to_owned()
}
