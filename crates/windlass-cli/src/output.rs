//! Data to standard output, as lines of text or of JSON.

use std::io::{self, Write};
use std::sync::OnceLock;

use serde::Serialize;

/// The first error of a write to standard output.
static FAILURE: OnceLock<String> = OnceLock::new();

/// Prints a text, which contains its line breaks.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    note(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Records the result of a write. A closed pipe, such as that of `head`, is no failure. A full disk is
/// one, which the exit code reports.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // Only the first error counts.
        let _ = FAILURE.set(error.to_string());
    }
}

/// Returns the first error of a write to standard output.
pub(crate) fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Returns a line of JSON: the version of the schema, the kind of event, and the fields of `value`.
pub(crate) fn json(event: &str, value: &impl Serialize) -> String {
    let line = JsonLine { schema: 1, event, value };
    serde_json::to_string(&line).expect("texts and numbers have a JSON form") + "\n"
}

#[derive(Serialize)]
struct JsonLine<'a, T> {
    schema: u32,
    event: &'a str,
    #[serde(flatten)]
    value: &'a T,
}
