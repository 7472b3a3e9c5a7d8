//! The ends of orders that a worker has seen and the store may not have yet.
//!
//! A worker notes each end here before it reports it. If it is killed before the store has the report, its
//! next life finds the end here, and the order does not count as lost. The file is not synced: no process
//! survives a loss of power, and an end that is lost with it counts as an interrupted attempt.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use windlass_store::Access;

/// The name of the file, in the directory of the worker.
const NAME: &str = "ends";

/// The open ledger of a worker.
pub(crate) struct Ledger {
    file: File,
    is_empty: bool,
}

impl Ledger {
    /// Opens the ledger in a directory. Returns the ends that earlier lives have noted, by their orders.
    pub(crate) fn open(dir: &Path) -> io::Result<(Self, BTreeMap<u64, String>)> {
        let path = dir.join(NAME);
        let mut file = Access::open(&path, File::options().read(true).append(true))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        // The last line has no end if the worker was killed as it wrote it.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let ends = whole.lines().filter_map(|line| {
            let (token, end) = line.split_once(' ')?;
            Some((token.parse().ok()?, end.to_owned()))
        });
        Ok((Self { file, is_empty: text.is_empty() }, ends.collect()))
    }

    /// Notes ends: all of them, or none on an error. Each text is one line.
    pub(crate) fn note(&mut self, ends: &[(u64, String)]) -> io::Result<()> {
        let lines: String = ends.iter().map(|(token, end)| format!("{token} {end}\n")).collect();
        self.is_empty = false;
        let length = self.file.metadata()?.len();
        let written = self.file.write_all(lines.as_bytes());
        if written.is_err() {
            self.file.set_len(length)?;
        }
        written
    }

    /// Forgets all ends, because the store has them.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if !self.is_empty {
            self.file.set_len(0)?;
            self.is_empty = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_there_after_a_kill_except_one_that_was_written_in_part() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut ledger, ends) = Ledger::open(dir.path()).expect("it can be made");
        assert!(ends.is_empty());
        ledger.note(&[(7, "{\"a\": 1}".to_owned()), (9, "b".to_owned())]).expect("it is written");
        ledger.file.write_all(b"12 half").expect("it is written");
        let (mut ledger, ends) = Ledger::open(dir.path()).expect("it can be read");
        let expected = BTreeMap::from([(7, "{\"a\": 1}".to_owned()), (9, "b".to_owned())]);
        assert_eq!(ends, expected);
        ledger.clear().expect("it is written");
        assert!(Ledger::open(dir.path()).expect("it can be read").1.is_empty());
    }
}
