//! Data to standard output, as lines of text or of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Prints a text that ends with its own line break.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    // A closed pipe, as of `head`, is no failure.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line of JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("texts and numbers have a JSON form");
    line.push('\n');
    line
}
