//! What steps have printed, as it is shown: each line with the step's name before it.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// As much of a log as is in memory at a time.
const CHUNK: usize = 64 << 10;

/// Shows the log of an attempt.
pub(crate) fn show_log(step: &str, log: &Path, out: &mut impl Write) -> io::Result<()> {
    let mut log = File::open(log)?;
    // Most steps print nothing.
    if log.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut chunk = vec![0; CHUNK];
    let mut out = BufWriter::with_capacity(CHUNK, out);
    let mut begins = true;
    loop {
        let length = log.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        for part in chunk[..length].split_inclusive(|byte| *byte == b'\n') {
            if begins {
                write!(out, "{step} | ")?;
            }
            out.write_all(part)?;
            begins = part.ends_with(b"\n");
        }
    }
    if !begins {
        writeln!(out)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(log: &[u8], expected: &[u8]) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        std::fs::write(&path, log).expect("it can be written");
        let mut shown = Vec::new();
        show_log("s", &path, &mut shown).expect("it can be read");
        assert!(shown == expected, "{:?}", String::from_utf8_lossy(&shown));
    }

    #[test]
    fn every_line_has_the_name_before_it_and_an_end() {
        check(b"", b"");
        check(b"a\n\nb", b"s | a\ns | \ns | b\n");
        check(b"\xff\n", b"s | \xff\n");
    }

    #[test]
    fn a_line_that_is_longer_than_what_is_in_memory_is_one_line() {
        let long = "x".repeat(3 * CHUNK);
        check(format!("{long}\ny").as_bytes(), format!("s | {long}\ns | y\n").as_bytes());
    }
}
