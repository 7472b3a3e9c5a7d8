//! What the processes of the service say, one line for each thing that happens.

use std::thread;

use serde::Serialize;

use crate::arguments::Form;
use crate::output::json;
use crate::style::plain;
use crate::times::Times;

/// Returns how many steps a worker executes at once that does not say so.
pub(crate) fn usual_slots() -> u32 {
    thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// Prints a line to standard error, with the time; as JSON if that is the form.
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
