//! `windlass log`: what steps have written.
//!
//! Inside a run it leaves out the logs that its own output ends up in, and without `-f` it reads each log
//! up to the length that it had at the beginning: so it never reads what it writes itself.

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use windlass_server::{AttemptEnd, AttemptView, LookError, OwnLogs, RunView, StepView};

use crate::arguments::{Form, LogArguments, StepTarget};
use crate::exit::Exit;
use crate::look::{attempt_of, end_and_reason};
use crate::output::json;
use crate::state;
use crate::style::{Style, plain};

mod follow;
mod part;
mod screen;

use self::part::{Last, Part};
use self::screen::Screen;

/// How much is read of one log before it is told, and the others' turn.
const MOUTHFUL: u64 = 1 << 20;
/// How much of a log is read at once.
const PIECE: usize = 64 << 10;
/// The hooks of a run, as their logs are called.
const HOOKS: [&str; 3] = ["on.escalate", "on.success", "on.failure"];

pub(crate) fn log(
    state: Option<&Path>,
    arguments: &LogArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let StepTarget { run, step } = &arguments.target;
    let view = RunView::find(&mut store, run)?;
    let wanted = Wanted::find(&view, step.as_deref())?;
    let written = if arguments.follow {
        follow::follow(&mut store, view, &wanted, form)?
    } else {
        print_all(&view, &wanted, form)
    };
    match written {
        // A closed pipe, as of `head`, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(error) => Err(format!("cannot print the log: {error}").into()),
        Ok(0) => Ok(Exit::Success),
        // Each was told when it was missed.
        Ok(_) => Ok(Exit::Unavailable),
    }
}

/// What of a run is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    /// Only these steps.
    steps: Option<Vec<usize>>,
    /// Only this attempt of them.
    attempt: Option<u32>,
    /// What this command prints ends up in these logs, which are left out.
    own: OwnLogs,
}

impl Wanted {
    /// Reads `STEP[@ATTEMPT]`. The name of a step may have an `@` of its own.
    fn find(view: &RunView, text: Option<&str>) -> Result<Self, LookError> {
        let own = OwnLogs::of_this_process();
        let Some(text) = text else { return Ok(Self { steps: None, attempt: None, own }) };
        let unknown = match view.places(text) {
            Ok(places) => return Ok(Self { steps: Some(places), attempt: None, own }),
            Err(unknown) => unknown,
        };
        let parts =
            text.rsplit_once('@').and_then(|(step, number)| Some((step, number.parse().ok()?)));
        let Some((step, attempt)) = parts else { return Err(unknown) };
        let places = view.places(step)?;
        let attempts = || places.iter().flat_map(|place| &view.steps[*place].attempts);
        if !attempts().any(|known| known.number == attempt) {
            let (run, step) = (view.run.id.clone(), step.to_owned());
            let attempts = attempts().map(|known| known.number).max().unwrap_or_default();
            return Err(LookError::UnknownAttempt { run, step, attempt, attempts });
        }
        Ok(Self { steps: Some(places), attempt: Some(attempt), own })
    }

    /// Whether it is the output of one step, which needs no name before its lines.
    fn is_one_step(&self) -> bool {
        self.steps.as_ref().is_some_and(|places| places.len() == 1)
    }

    /// The logs that are wanted: attempts in the order in which they began, each with what followed
    /// it in any case, then the run's hooks.
    fn of(&self, view: &RunView) -> Vec<Piece> {
        let is_wanted = |place: &usize| self.steps.as_ref().is_none_or(|all| all.contains(place));
        let steps = view.steps.iter().enumerate().filter(|(place, _)| is_wanted(place));
        let attempts = steps.flat_map(|(_, step)| step.attempts.iter().map(move |own| (step, own)));
        let mut wanted: Vec<_> = attempts
            .filter(|(_, own)| self.attempt.is_none_or(|wanted| wanted == own.number))
            .collect();
        wanted.sort_by_key(|(_, attempt)| (attempt.started_ms, attempt.work, attempt.number));
        let mut pieces: Vec<_> = wanted
            .into_iter()
            .flat_map(|(step, attempt)| Piece::of_attempt(step, attempt))
            .collect();
        if self.steps.is_none() {
            pieces.extend(HOOKS.into_iter().filter_map(|hook| Piece::of_hook(view, hook)));
        }
        pieces.retain(|piece| !self.own.contains(&piece.path));
        pieces
    }
}

impl Wanted {
    /// Why there is nothing to print.
    fn why_nothing(&self, view: &RunView) -> &'static str {
        match self.own.is_any_in(&view.logs) {
            true => "there is no other log than the one that this command prints to",
            false => "no output: nothing of that has started",
        }
    }
}

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    path: PathBuf,
    /// The step, the attempt of it, and what else it is of.
    step: Option<(String, u32)>,
    part: Option<&'static str>,
    heading: String,
    /// Nothing more will be written to it.
    ended: bool,
    /// An attempt that was not successful leaves a log, whether it printed anything or not.
    sure: bool,
}

impl Piece {
    fn of_attempt(step: &StepView, attempt: &AttemptView) -> Vec<Self> {
        let own = Some((step.name.clone(), attempt.number));
        let (path, heading) = (attempt.log.clone(), heading(step, attempt));
        let ended = has_ended(attempt);
        let sure = attempt.code.is_some_and(|code| code != 0) || attempt.signal.is_some();
        let mut pieces = vec![Self { path, step: own.clone(), part: None, heading, ended, sure }];
        let path = attempt.log.with_extension("finally.log");
        if path.exists() {
            let heading = plain(&format!("==> {}, finally <==", step.name));
            let part = Some("finally");
            pieces.push(Self { path, step: own, part, heading, ended, sure: true });
        }
        pieces
    }

    fn of_hook(view: &RunView, hook: &'static str) -> Option<Self> {
        let path = view.logs.join(format!("{hook}.log"));
        let heading = format!("==> {hook} <==");
        let (part, ended, sure) = (Some(hook), false, true);
        path.exists().then_some(Self { path, step: None, part, heading, ended, sure })
    }

    /// Returns how many bytes are in it.
    fn length(&self) -> u64 {
        windlass_server::log_length(&self.path)
    }

    /// Opens it, and tells if that cannot be done.
    fn open(&self, view: &RunView) -> Opened {
        match windlass_server::open_log(&self.path) {
            Ok(file) => Opened::Log(file),
            // A step that printed nothing may have left no log.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !self.sure && view.logs.is_dir() =>
            {
                Opened::Nothing
            }
            Err(error) => {
                eprintln!("windlass: cannot read {}: {error}", self.path.display());
                Opened::Lost
            }
        }
    }

    /// What its lines begin with among others.
    fn prefix(&self) -> String {
        let step = self.step.as_ref().map(|(step, _)| plain(step));
        let parts: Vec<_> = step.as_deref().into_iter().chain(self.part).collect();
        parts.join(" ")
    }

    /// One line of it, or a part of one; what is not UTF-8 is replaced.
    fn line_json(&self, run: &str, part: &Part<'_>) -> String {
        let line = part.bytes.strip_suffix(b"\n").unwrap_or(part.bytes);
        let text = String::from_utf8_lossy(line);
        let line = LineJson {
            run,
            step: self.step.as_ref().map(|(step, _)| step.as_str()),
            attempt: self.step.as_ref().map(|(_, attempt)| *attempt),
            part: self.part,
            text: &text,
            more: part.goes_on,
        };
        json("log_line", &line)
    }
}

/// What there is of a log.
enum Opened {
    Log(Box<dyn Read>),
    /// None was written.
    Nothing,
    /// It should be there and cannot be read, which was told.
    Lost,
}

#[derive(Serialize)]
struct LineJson<'a> {
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    text: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// Whether an attempt has ended, with all that follows it.
fn has_ended(attempt: &AttemptView) -> bool {
    attempt.end.is_some_and(|end| !matches!(end, AttemptEnd::Finishing | AttemptEnd::Ensuring))
}

/// `==> test (attempt 2 of 3): failed: exit 1 <==`
fn heading(step: &StepView, attempt: &AttemptView) -> String {
    let number = match step.most_attempts {
        1 => String::new(),
        most => format!(" ({})", attempt_of(attempt.number, most)),
    };
    plain(&format!("==> {}{number}: {} <==", step.name, end_and_reason(attempt)))
}

/// Prints every log as a whole, one after the other; how many cannot be read.
fn print_all(view: &RunView, wanted: &Wanted, form: Form) -> io::Result<usize> {
    let style = Style::of_stdout();
    let pieces = wanted.of(view);
    if pieces.is_empty() {
        eprintln!("{}", wanted.why_nothing(view));
    }
    // What steps print from now on is left for the next time.
    let lengths: Vec<_> = pieces.iter().map(Piece::length).collect();
    let alone = wanted.is_one_step() && pieces.len() == 1;
    let mut stdout = io::stdout().lock();
    let mut lost = 0;
    for (place, (piece, length)) in pieces.iter().zip(lengths).enumerate() {
        if form == Form::Text && !alone {
            let gap = if place > 0 { "\n" } else { "" };
            writeln!(stdout, "{gap}{}", style.bold(&piece.heading))?;
        }
        match (piece.open(view), form) {
            (Opened::Nothing, _) => {}
            (Opened::Lost, _) => lost += 1,
            (Opened::Log(file), Form::Text) => print_text(&mut stdout, file.take(length))?,
            (Opened::Log(file), Form::Json) => {
                print_lines(&mut stdout, &view.run.id, piece, file.take(length))?;
            }
        }
    }
    stdout.flush()?;
    Ok(lost)
}

fn print_text(out: &mut impl Write, mut file: impl Read) -> io::Result<()> {
    let (mut screen, mut buffer) = (Screen::new(String::new()), vec![0; PIECE]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return screen.finish(out),
            Ok(length) => screen.print(&buffer[..length], out)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn print_lines(
    out: &mut impl Write,
    run: &str,
    piece: &Piece,
    mut log: impl Read,
) -> io::Result<()> {
    let mut unread = Vec::new();
    loop {
        let read = log.by_ref().take(MOUTHFUL).read_to_end(&mut unread)?;
        let mut done = 0;
        while let Some(part) = Part::first(&unread[done..], Last(read == 0)) {
            out.write_all(piece.line_json(run, &part).as_bytes())?;
            done += part.bytes.len();
        }
        unread.drain(..done);
        if read == 0 {
            return Ok(());
        }
    }
}
