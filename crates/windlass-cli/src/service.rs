//! Messages of schedulers and workers, one line for each event.

use std::io::{self, Write};

use serde::Serialize;

use crate::arguments::Form;
use crate::output::json;
use crate::style::plain;
use crate::times::Times;

/// Prints a line to standard error, with the time or as JSON.
pub(crate) fn say(form: Form, event: &str, text: &str) {
    let line = match form {
        Form::Text => {
            let now = Times::now();
            format!("{} {}\n", now.stamp(now.now_ms), plain(text))
        }
        Form::Json => json(event, &Line { text }),
    };
    // A service goes on when its terminal is gone.
    let _ = io::stderr().write_all(line.as_bytes());
}

#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
}
