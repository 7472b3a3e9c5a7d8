//! `windlass log`: what steps have written.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use serde::Serialize;
use windlass_server::{AttemptEnd, AttemptView, LookError, RunView, StepView};

use crate::arguments::{Form, LogArguments};
use crate::exit::Exit;
use crate::look::ending;
use crate::output::json;
use crate::state;
use crate::style::{Style, plain};

mod follow;

pub(crate) fn log(
    state: Option<&Path>,
    arguments: &LogArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::open(state)?;
    let (run, step) = match arguments.target.split_once('/') {
        Some((run, step)) => (run, Some(step)),
        None => (arguments.target.as_str(), None),
    };
    let view = RunView::find(&mut store, run)?;
    let wanted = Wanted::find(&view, step)?;
    let written = if arguments.follow {
        follow::follow(&mut store, view, &wanted, form)?
    } else {
        print_all(&view, &wanted, form)
    };
    match written {
        // A closed pipe, as of `head`, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
        written => Ok(written.map(|()| Exit::Success)?),
    }
}

/// What of a run is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    /// Only this step.
    step: Option<usize>,
    /// Only this attempt of it.
    attempt: Option<u32>,
}

impl Wanted {
    /// Reads `STEP[@ATTEMPT]`. The name of a step may have an `@` of its own.
    fn find(view: &RunView, text: Option<&str>) -> Result<Self, LookError> {
        let Some(text) = text else { return Ok(Self { step: None, attempt: None }) };
        let unknown = match view.place(text) {
            Ok(place) => return Ok(Self { step: Some(place), attempt: None }),
            Err(unknown) => unknown,
        };
        let parts =
            text.rsplit_once('@').and_then(|(step, number)| Some((step, number.parse().ok()?)));
        let Some((step, attempt)) = parts else { return Err(unknown) };
        let place = view.place(step)?;
        let known = &view.steps[place];
        if !known.attempts.iter().any(|known| known.number == attempt) {
            let (run, step) = (view.run.id.clone(), known.name.clone());
            let attempts = known.attempts.len();
            return Err(LookError::UnknownAttempt { run, step, attempt, attempts });
        }
        Ok(Self { step: Some(place), attempt: Some(attempt) })
    }

    /// The attempts that are wanted, in the order in which they began.
    fn of(self, view: &RunView) -> Vec<(&StepView, &AttemptView)> {
        let steps = view.steps.iter().enumerate();
        let steps = steps.filter(|(place, _)| self.step.is_none_or(|wanted| wanted == *place));
        let attempts = steps.flat_map(|(_, step)| step.attempts.iter().map(move |own| (step, own)));
        let mut wanted: Vec<_> = attempts
            .filter(|(_, own)| self.attempt.is_none_or(|wanted| wanted == own.number))
            .collect();
        wanted.sort_by_key(|(_, attempt)| (attempt.started_ms, attempt.work, attempt.number));
        wanted
    }
}

/// Prints every log as a whole, one after the other.
fn print_all(view: &RunView, wanted: &Wanted, form: Form) -> io::Result<()> {
    let style = Style::of_stdout();
    let attempts = wanted.of(view);
    if attempts.is_empty() {
        eprintln!("nothing of that has begun");
    }
    let alone = wanted.step.is_some() && attempts.len() == 1;
    let mut stdout = io::stdout().lock();
    for (place, (step, attempt)) in attempts.into_iter().enumerate() {
        match form {
            Form::Json => print_lines(&mut stdout, &view.run.id, step, attempt)?,
            Form::Text => {
                if !alone {
                    let gap = if place > 0 { "\n" } else { "" };
                    let heading = style.bold(&heading(step, attempt));
                    writeln!(stdout, "{gap}{heading}")?;
                }
                if let Some(mut file) = open(attempt) {
                    io::copy(&mut file, &mut stdout)?;
                }
            }
        }
    }
    stdout.flush()
}

/// `==> test (attempt 2 of 3): failed: exit 1 <==`
fn heading(step: &StepView, attempt: &AttemptView) -> String {
    let number = match step.most_attempts.max(attempt.number) {
        1 => String::new(),
        most => format!(" (attempt {} of {most})", attempt.number),
    };
    let end = attempt.end.map_or("running", AttemptEnd::word);
    let more = ending(attempt);
    let more = if more.is_empty() { more } else { format!(": {more}") };
    plain(&format!("==> {}{number}: {end}{more} <==", step.name))
}

fn print_lines(
    out: &mut impl Write,
    run: &str,
    step: &StepView,
    attempt: &AttemptView,
) -> io::Result<()> {
    let Some(file) = open(attempt) else { return Ok(()) };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        out.write_all(line_json(run, &step.name, attempt.number, &line).as_bytes())?;
        line.clear();
    }
    Ok(())
}

#[derive(Serialize)]
struct LineJson<'a> {
    schema: u32,
    event: &'static str,
    run: &'a str,
    step: &'a str,
    attempt: u32,
    text: &'a str,
}

/// One line of a log; what is not UTF-8 is replaced.
fn line_json(run: &str, step: &str, attempt: u32, line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
    json(&LineJson { schema: 1, event: "log_line", run, step, attempt, text: &text })
}

/// The log of an attempt; it is told if there is none.
fn open(attempt: &AttemptView) -> Option<File> {
    let file = File::open(&attempt.log);
    if let Err(error) = &file {
        eprintln!("windlass: {} cannot be read: {error}", attempt.log.display());
    }
    file.ok()
}
