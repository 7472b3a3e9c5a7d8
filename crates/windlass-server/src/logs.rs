//! Reads the end of a log with bounded memory.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::log_file::{newest_file, open_log_file};

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tail {
    /// The last lines.
    pub text: Vec<u8>,
    /// The number of bytes before them.
    pub skipped: u64,
}

/// Returns the last lines of a log that fit into `most` bytes; of a longer last line, its end. A log that
/// does not exist is empty.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let log = dir.path().join("log");
/// std::fs::write(&log, "one\ntwo\nthree\n")?;
/// let tail = windlass_server::tail(&log, 11)?;
/// assert_eq!((tail.text.as_slice(), tail.skipped), (&b"two\nthree\n"[..], 4));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn tail(log: &Path, most: u64) -> io::Result<Tail> {
    let mut file = match open_log_file(&newest_file(log)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tail::default()),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(most);
    file.seek(SeekFrom::Start(skipped))?;
    let mut text = Vec::new();
    // What is appended meanwhile is not read.
    file.take(most).read_to_end(&mut text)?;
    Ok(Tail::of_whole_lines(text, skipped))
}

impl Tail {
    /// Returns the whole lines of a text before which as many bytes were left out; its end, if it has only one.
    pub(crate) fn of_whole_lines(mut text: Vec<u8>, mut skipped: u64) -> Self {
        if skipped > 0
            && let Some(end) = text.iter().position(|byte| *byte == b'\n')
            && end + 1 < text.len()
        {
            text.drain(..=end);
            skipped += end as u64 + 1;
        }
        Self { text, skipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(log: &str, most: u64, text: &str, skipped: u64) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        std::fs::write(&path, log).expect("it can be written");
        let tail = tail(&path, most).expect("it can be read");
        assert_eq!((String::from_utf8_lossy(&tail.text).as_ref(), tail.skipped), (text, skipped));
    }

    #[test]
    fn a_tail_is_whole_lines_unless_the_last_one_is_longer() {
        check("", 10, "", 0);
        check("a\nb\n", 10, "a\nb\n", 0);
        check("a\nb\n", 4, "a\nb\n", 0);
        check("a\nb\n", 3, "b\n", 2);
        check("a\nbcdef", 3, "def", 4);
        check("a\nbcdef\n", 3, "ef\n", 5);
        check("a\nb", 0, "", 3);
    }

    #[test]
    fn nothing_was_printed_where_there_is_no_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let none = tail(&dir.path().join("log"), 10).expect("that is no mistake");
        assert_eq!(none, Tail::default());
    }
}
