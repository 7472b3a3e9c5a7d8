//! The outputs of steps: what they write to `$WINDLASS_OUTPUT` for the steps after them.
//!
//! Each attempt has a file of its own, and that of the attempt that succeeded counts. The file is read when
//! the attempt ends, so that an error in it fails the step that wrote it, and synced before the end is
//! stored.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde_json::Value;
use thiserror::Error;
use windlass_core::Grant;
use windlass_store::Access;

use crate::attempt::log_path;

/// The largest file that is accepted.
const MOST_BYTES: u64 = 1 << 20;

/// Why the outputs of a step cannot be used.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    #[error("larger than {MOST_BYTES} bytes")]
    TooLarge,
    #[error("not a regular file")]
    NotAFile,
    #[error("not valid UTF-8")]
    NotText,
    #[error("line {line} is not of the form key=value")]
    NotAPair { line: usize },
    #[error("the value of {key:?} contains a NUL byte")]
    Nul { key: String },
    #[error("invalid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Returns the file for the outputs of an attempt.
pub(crate) fn path(dir: &Path, grant: Grant, step: &str) -> PathBuf {
    log_path(dir, grant, step).with_extension("out")
}

/// Reads and syncs the outputs in `path`; there are none if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, String>, OutputError> {
    let mut text = Vec::new();
    // A fifo without a writer must not block the run.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(no_wait).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
        Ok(file) if !file.metadata()?.is_file() => return Err(OutputError::NotAFile),
        Ok(file) => {
            restrict(path, &file)?;
            file.sync_all()?;
            // One byte more shows whether the file is too large.
            file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
        }
    }
    if text.len() as u64 > MOST_BYTES {
        return Err(OutputError::TooLarge);
    }
    parse(&String::from_utf8(text).map_err(|_| OutputError::NotText)?)
}

/// Gives a file that a step has created with a umask of its own the mode of the run's other files. A file
/// behind a link is left as it is.
fn restrict(path: &Path, file: &File) -> io::Result<()> {
    let created = fs::symlink_metadata(path)?;
    match created.is_file() && created.uid() == geteuid().as_raw() {
        true => Access::of(path.parent().unwrap_or(path))?.apply(file),
        false => Ok(()),
    }
}

/// Appends a message about an attempt to its log.
pub(crate) fn complain(log: &Path, what: &str) {
    // If the log cannot be written either, the exit code has to do.
    let log = Access::open(log, OpenOptions::new().append(true));
    let _ = log.and_then(|mut log| log.write_all(format!("windlass: {what}\n").as_bytes()));
}

fn parse(text: &str) -> Result<BTreeMap<String, String>, OutputError> {
    let values = match text.trim_start().starts_with('{') {
        true => from_json(text)?,
        false => from_lines(text)?,
    };
    match values.iter().find(|(_, value)| value.contains('\0')) {
        Some((key, _)) => Err(OutputError::Nul { key: key.clone() }),
        None => Ok(values),
    }
}

/// Parses lines `key=value`. A value is everything behind the first `=`; the last line of a key counts.
fn from_lines(text: &str) -> Result<BTreeMap<String, String>, OutputError> {
    let lines = text.split('\n').enumerate().filter(|(_, line)| !line.is_empty());
    let pairs = lines.map(|(number, line)| {
        let pair = line.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or(OutputError::NotAPair { line: number + 1 })?;
        Ok((key.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// Parses a JSON object. A string is its value; anything else is its value as JSON.
fn from_json(text: &str) -> Result<BTreeMap<String, String>, OutputError> {
    let values: BTreeMap<String, Value> = serde_json::from_str(text)?;
    let plain = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(values.into_iter().map(|(key, value)| (key, plain(value))).collect())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let values = parse(text).expect("nothing is wrong");
        let values: Vec<_> = values.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(values, expected, "{text:?}");
    }

    #[test]
    fn lines_are_pairs_with_literal_values() {
        check("", &[]);
        check("a=1\nb= x = \"y\" \n\nc=\n", &[("a", "1"), ("b", " x = \"y\" "), ("c", "")]);
        check("a=1\na=2", &[("a", "2")]);
        check("a=1\r\n", &[("a", "1\r")]);
    }

    #[test]
    fn an_object_has_texts_and_everything_else_as_json() {
        let text = r#" {"a": "x\ny", "b": 1.5, "c": [1, "2"], "d": null}"#;
        check(text, &[("a", "x\ny"), ("b", "1.5"), ("c", "[1,\"2\"]"), ("d", "null")]);
    }

    #[test]
    fn invalid_files_are_errors() {
        let wrong = |text: &str| parse(text).expect_err("something is wrong").to_string();
        assert_eq!(wrong("a=1\nb"), "line 2 is not of the form key=value");
        assert_eq!(wrong("=1"), "line 1 is not of the form key=value");
        assert_eq!(wrong(r#"{"a": "\u0000"}"#), "the value of \"a\" contains a NUL byte");
        assert!(wrong("{a=1}").starts_with("invalid JSON"));
    }

    #[test]
    fn files_that_are_missing_too_large_or_no_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        assert!(read(&path).expect("nothing was written").is_empty());
        fs::write(&path, [b'a', b'=', 0xff]).expect("it can be written");
        assert_eq!(read(&path).expect_err("no text").to_string(), "not valid UTF-8");
        fs::write(&path, vec![b'a'; 1 << 21]).expect("it can be written");
        assert!(matches!(read(&path), Err(OutputError::TooLarge)));
    }

    #[test]
    fn a_path_that_is_no_file_is_refused_without_blocking() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).expect("it can be made");
        for path in [&pipe, dir.path(), Path::new("/dev/zero")] {
            assert!(matches!(read(path), Err(OutputError::NotAFile)), "{}", path.display());
        }
    }
}
