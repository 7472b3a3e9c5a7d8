//! `windlass emit` and `windlass events`.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use windlass_server::{Event, EventReader, emit as emit_event};
use windlass_workflow::EventPattern;

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, note, print};
use crate::state;
use crate::style::plain;
use crate::times::Times;

pub(crate) fn emit(state: Option<&Path>, name: &str, form: Form) -> Result<Exit, Box<dyn Error>> {
    let event = emit_event(&mut state::open(state)?, name)?;
    let line = match form {
        Form::Text => format!("{}\n", event.number),
        Form::Json => Emitted::of(&event),
    };
    print(&line);
    Ok(Exit::Success)
}

/// The first event to show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstEvent {
    /// The one after this number; after 0 is the first of all.
    After(u64),
    /// The next one that is emitted.
    Now,
}

impl FirstEvent {
    /// Returns the event after the number; without a number the first, or with `from_now` the next one.
    pub(crate) fn of(after: Option<u64>, from_now: bool) -> Self {
        match after {
            Some(number) => FirstEvent::After(number),
            None if from_now => FirstEvent::Now,
            None => FirstEvent::After(0),
        }
    }
}

pub(crate) fn events(
    state: Option<&Path>,
    patterns: &[EventPattern],
    from: FirstEvent,
    follow: bool,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    // `-f` may be called before the first event is emitted.
    let mut store = if follow { state::open(state)? } else { state::look(state)? };
    let after = match from {
        FirstEvent::After(number) => number,
        FirstEvent::Now => store.last_event()?,
    };
    let times = Times::now();
    let mut reader = EventReader::new(store, after, patterns.to_vec());
    if follow {
        reader.follow(io::stdout(), |event| show(event, &times, form))?;
        return Ok(Exit::Success);
    }
    while !reader.is_at_end()? {
        if !reader.read()?.iter().all(|event| show(event, &times, form)) {
            break;
        }
    }
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct Emitted<'a> {
    number: u64,
    name: &'a str,
    /// Milliseconds since 1970.
    at: i64,
}

impl Emitted<'_> {
    /// Returns the line for programs.
    fn of(event: &Event) -> String {
        let Event { number, name, at_ms } = event;
        json("emitted", &Emitted { number: *number, name, at: *at_ms })
    }
}

/// Prints an event. Returns whether the reader of standard output takes more.
fn show(event: &Event, times: &Times, form: Form) -> bool {
    let Event { number, name, at_ms } = event;
    let line = match form {
        Form::Text => format!("{number}\t{}\t{}\n", times.stamp(*at_ms), plain(name)),
        Form::Json => Emitted::of(event),
    };
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    let more = written.is_ok();
    note(written);
    more
}
