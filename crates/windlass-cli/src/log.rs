//! `windlass log`: prints the output of steps.
//!
//! Inside a run, it leaves out the logs that receive its own output. Without `-f`, it reads each log up
//! to its length at the beginning. So it never reads its own output.

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use windlass_server::{AttemptEnd, AttemptView, LookError, OwnLogs, RunLogs, RunView, StepView};

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

/// How many bytes of one log are read before they are printed and the other logs have their turn.
const TURN: u64 = 1 << 20;
/// How many bytes of a log are read at once.
const PIECE: usize = 64 << 10;
/// The hooks of a run, by the names of their logs.
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
    let mut logs = match arguments.local {
        true => RunLogs::on_this_machine(&view),
        false => RunLogs::of(&mut store, &view)?,
    };
    let written = if arguments.follow {
        follow::follow(&mut store, view, &mut logs, &wanted, form)?
    } else {
        print_all(&view, &logs, &wanted, form)
    };
    match written {
        // A closed pipe, such as that of `head`, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(error) => Err(format!("cannot print the log: {error}").into()),
        Ok(0) => Ok(Exit::Success),
        // Each missing log was reported.
        Ok(_) => Ok(Exit::Unavailable),
    }
}

/// The logs of a run that the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    /// The steps; all if none.
    steps: Option<Vec<usize>>,
    /// The attempt of these steps; all if none.
    attempt: Option<u32>,
    /// The logs that receive the output of this command, which are left out.
    own: OwnLogs,
}

impl Wanted {
    /// Parses `STEP[@ATTEMPT]`. The name of a step may contain an `@`.
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

    /// Returns whether only one step is wanted, whose lines need no name.
    fn is_one_step(&self) -> bool {
        self.steps.as_ref().is_some_and(|places| places.len() == 1)
    }

    /// Returns the wanted logs: attempts in the order in which they began, each with its `finally`, then
    /// the hooks.
    fn of(&self, view: &RunView, logs: &RunLogs) -> Vec<Piece> {
        let is_wanted = |place: &usize| self.steps.as_ref().is_none_or(|all| all.contains(place));
        let steps = view.steps.iter().enumerate().filter(|(place, _)| is_wanted(place));
        let attempts = steps.flat_map(|(_, step)| step.attempts.iter().map(move |own| (step, own)));
        let mut wanted: Vec<_> = attempts
            .filter(|(_, own)| self.attempt.is_none_or(|wanted| wanted == own.number))
            .collect();
        wanted.sort_by_key(|(_, attempt)| (attempt.started_ms, attempt.work, attempt.number));
        let mut pieces: Vec<_> = wanted
            .into_iter()
            .flat_map(|(step, attempt)| Piece::of_attempt(step, attempt, logs))
            .collect();
        if self.steps.is_none() {
            pieces.extend(HOOKS.into_iter().filter_map(|hook| Piece::of_hook(view, hook, logs)));
        }
        pieces.retain(|piece| !self.own.contains(&piece.path));
        pieces
    }
}

impl Wanted {
    /// Returns why there is nothing to print.
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
    /// The step and the attempt.
    step: Option<(String, u32)>,
    part: Option<&'static str>,
    heading: String,
    /// Whether the log is complete.
    ended: bool,
    /// Whether the log must exist: a failed attempt has one even if it printed nothing.
    must_exist: bool,
}

impl Piece {
    fn of_attempt(step: &StepView, attempt: &AttemptView, logs: &RunLogs) -> Vec<Self> {
        let own = Some((step.name.clone(), attempt.number));
        let (path, heading) = (attempt.log.clone(), heading(step, attempt));
        let ended = has_ended(attempt);
        let has_failed = attempt.code.is_some_and(|code| code != 0) || attempt.signal.is_some();
        let must_exist = has_failed && !logs.may_lack();
        let mut pieces =
            vec![Self { path, step: own.clone(), part: None, heading, ended, must_exist }];
        let path = attempt.log.with_extension("finally.log");
        if logs.has(&path) {
            let heading = plain(&format!("==> {}, finally <==", step.name));
            let part = Some("finally");
            pieces.push(Self { path, step: own, part, heading, ended, must_exist: true });
        }
        pieces
    }

    fn of_hook(view: &RunView, hook: &'static str, logs: &RunLogs) -> Option<Self> {
        let path = view.logs.join(format!("{hook}.log"));
        let heading = format!("==> {hook} <==");
        let (part, ended, must_exist) = (Some(hook), false, true);
        logs.has(&path).then_some(Self { path, step: None, part, heading, ended, must_exist })
    }

    /// Opens it, and prints an error if that fails.
    fn open(&self, view: &RunView, logs: &RunLogs, length: u64) -> Opened {
        match logs.open(&self.path, length) {
            Ok(file) => Opened::Log(file),
            // A step that printed nothing may have no log.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !self.must_exist
                    && (view.logs.is_dir() || logs.may_lack()) =>
            {
                Opened::Nothing
            }
            Err(error) => {
                eprintln!("windlass: cannot read {}: {error}", self.path.display());
                Opened::Lost
            }
        }
    }

    /// Returns the prefix of its lines among those of other logs.
    fn prefix(&self) -> String {
        let step = self.step.as_ref().map(|(step, _)| plain(step));
        let parts: Vec<_> = step.as_deref().into_iter().chain(self.part).collect();
        parts.join(" ")
    }

    /// Returns a line, or a part of a long one, for programs.
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

/// The result of opening a log.
enum Opened {
    Log(Box<dyn Read>),
    /// There is no log.
    Nothing,
    /// The log cannot be read; an error was printed.
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

/// Returns whether an attempt and its `finally` have ended.
fn has_ended(attempt: &AttemptView) -> bool {
    attempt.end.is_some_and(|end| !matches!(end, AttemptEnd::Finishing | AttemptEnd::Ensuring))
}

/// Returns the heading of a log: `==> test (attempt 2 of 3): failed: exit code 1 <==`.
fn heading(step: &StepView, attempt: &AttemptView) -> String {
    let number = match step.most_attempts {
        1 => String::new(),
        most => format!(" ({})", attempt_of(attempt.number, most)),
    };
    plain(&format!("==> {}{number}: {} <==", step.name, end_and_reason(attempt)))
}

/// Prints the logs one after the other. Returns how many cannot be read.
fn print_all(view: &RunView, logs: &RunLogs, wanted: &Wanted, form: Form) -> io::Result<usize> {
    let style = Style::of_stdout();
    let pieces = wanted.of(view, logs);
    if pieces.is_empty() {
        eprintln!("{}", wanted.why_nothing(view));
    }
    // Output that steps write from now on is not printed.
    let lengths: Vec<_> = pieces.iter().map(|piece| logs.length(&piece.path)).collect();
    let alone = wanted.is_one_step() && pieces.len() == 1;
    let mut stdout = io::stdout().lock();
    let mut lost = 0;
    for (place, (piece, length)) in pieces.iter().zip(lengths).enumerate() {
        if form == Form::Text && !alone {
            let gap = if place > 0 { "\n" } else { "" };
            writeln!(stdout, "{gap}{}", style.bold(&piece.heading))?;
        }
        match (piece.open(view, logs, length), form) {
            (Opened::Nothing, _) => {}
            (Opened::Lost, _) => lost += 1,
            (Opened::Log(file), Form::Text) => print_text(&mut stdout, file)?,
            (Opened::Log(file), Form::Json) => {
                print_lines(&mut stdout, &view.run.id, piece, file)?;
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
        let read = log.by_ref().take(TURN).read_to_end(&mut unread)?;
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
