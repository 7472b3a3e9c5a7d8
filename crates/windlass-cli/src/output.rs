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
