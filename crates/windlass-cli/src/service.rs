//! Messages of schedulers and workers, one line for each event.

use serde::Serialize;

use crate::arguments::Form;
use crate::output::json;
use crate::style::plain;
use crate::times::Times;

/// Prints a line to standard error, with the time or as JSON.
pub(crate) fn say(form: Form, event: &str, text: &str) {
    match form {
        Form::Text => {
            let now = Times::now();
            eprintln!("{} {}", now.stamp(now.now_ms), plain(text));
        }
        Form::Json => eprintln!("{}", json(event, &Line { text }).trim_end()),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
}
