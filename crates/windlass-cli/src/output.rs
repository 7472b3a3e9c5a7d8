//! Data to standard output, as lines of text or of JSON.

use std::io::{self, Write};
use std::sync::OnceLock;

use serde::Serialize;

/// Why something could not be printed, if that happened.
static FAILURE: OnceLock<String> = OnceLock::new();

/// Prints a text that ends with its own line break.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    note(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Takes in whether something was printed. A closed pipe, as of `head`, is no failure; a disk that is
/// full is one, of which the caller has to hear at the end.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // The first failure is the one to tell.
        let _ = FAILURE.set(error.to_string());
    }
}

/// Why something could not be printed, if that happened.
pub(crate) fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// One line of JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("texts and numbers have a JSON form");
    line.push('\n');
    line
}
