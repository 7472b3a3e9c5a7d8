//! Prints logs as they grow, until the run or the step has ended.
//!
//! No event says that a log has grown, so it is read a few times per second, and the run less often.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use windlass_server::{LogCursor, LookError, RunLogs, RunState, RunView, StepView, Store};

use super::{Last, Opened, Part, Piece, Screen, TURN, Wanted, has_ended};
use crate::arguments::Form;
use crate::style::Style;

/// The interval between two looks at the logs.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The interval between two looks at the run.
const LOOK_AT_RUN: Duration = Duration::from_millis(500);

/// Prints logs as they grow. Returns how many cannot be read in the end.
pub(super) fn follow(
    store: &mut Store,
    view: RunView,
    logs: &mut RunLogs,
    wanted: &Wanted,
    form: Form,
) -> Result<io::Result<usize>, LookError> {
    let (mut tails, mut view) = (Vec::new(), view);
    loop {
        let looked = Instant::now();
        add_new(&mut tails, &view, logs, wanted);
        let over = is_over(&view, wanted);
        // The logs contain everything by now, and are still read to their ends.
        while over || looked.elapsed() < LOOK_AT_RUN {
            match catch_up(&mut tails, &view.run.id, logs, wanted, form, over) {
                Ok(true) => {}
                Ok(false) if over => {
                    let mut stdout = io::stdout().lock();
                    let mut screens = tails.iter_mut().map(|tail| &mut tail.screen);
                    if let Err(error) = screens.try_for_each(|screen| screen.finish(&mut stdout)) {
                        return Ok(Err(error));
                    }
                    print_end(&view);
                    return Ok(Ok(lost(&tails, &view, logs)));
                }
                Ok(false) => {
                    if let Err(error) = wait_for_look() {
                        return Ok(Err(error));
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        view = RunView::find(store, &view.run.id)?;
        logs.look_again()?;
    }
}

/// Waits until the next look at the logs. Fails with [`io::ErrorKind::BrokenPipe`] if the reader of
/// standard output is gone: while no step prints, no write would report that.
fn wait_for_look() -> io::Result<()> {
    let stdout = io::stdout();
    // `poll` reports a closed pipe and a closed terminal without being asked.
    let mut reader = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut reader, Some(&LOOK)) {
        Ok(0) | Err(Errno::INTR) => Ok(()),
        Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether nothing more will be written. A command inside the run waits only for steps that do
/// not contain it, because the run does not end before it.
fn is_over(view: &RunView, wanted: &Wanted) -> bool {
    let mut steps = view.steps.iter();
    let is_own = |step: &StepView| {
        step.attempts.last().is_some_and(|last| {
            let finally = last.log.with_extension("finally.log");
            wanted.own.contains(&last.log) || wanted.own.contains(&finally)
        })
    };
    let over = !view.state.goes_on()
        || wanted.own.is_any_in(&view.logs)
            && steps.all(|step| step.state.is_end() || is_own(step));
    let ended = |place: usize| match wanted.attempt {
        None => view.steps[place].state.is_end(),
        Some(number) => {
            let step = &view.steps[place];
            let own = step.attempts.iter().find(|attempt| attempt.number == number);
            own.map_or(step.state.is_end(), has_ended)
        }
    };
    over || wanted.steps.as_ref().is_some_and(|places| places.iter().copied().all(ended))
}

fn print_end(view: &RunView) {
    if view.state == RunState::Interrupted {
        let id = &view.run.id;
        eprintln!("run {id} was interrupted; to resume: windlass resume {id}");
    }
}

/// Reports the logs that do not exist, and returns their number.
fn lost(tails: &[Tail], view: &RunView, logs: &RunLogs) -> usize {
    let unread = tails.iter().filter(|tail| tail.is_unread);
    unread.filter(|tail| matches!(tail.piece.open(view, logs, 0), Opened::Lost)).count()
}

/// Adds the logs of new attempts, and records which attempts have ended.
fn add_new(tails: &mut Vec<Tail>, view: &RunView, logs: &RunLogs, wanted: &Wanted) {
    let mut places: BTreeMap<PathBuf, usize> =
        tails.iter().enumerate().map(|(place, tail)| (tail.piece.path.clone(), place)).collect();
    for piece in wanted.of(view, logs) {
        match places.get(&piece.path) {
            Some(place) => tails[*place].piece = piece,
            None => {
                places.insert(piece.path.clone(), tails.len());
                let has_heading = tails.is_empty();
                let prefix = match wanted.is_one_step() {
                    true => String::new(),
                    false => format!("{} | ", piece.prefix()),
                };
                let screen = Screen::new(prefix);
                tails.push(Tail {
                    piece,
                    has_heading,
                    is_unread: true,
                    cursor: LogCursor::default(),
                    rest: Vec::new(),
                    screen,
                    over: false,
                });
            }
        }
    }
}

/// Prints new output. Returns whether there was any.
fn catch_up(
    tails: &mut [Tail],
    run: &str,
    logs: &mut RunLogs,
    wanted: &Wanted,
    form: Form,
    over: bool,
) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    let mut any = false;
    for tail in tails.iter_mut().filter(|tail| !tail.over) {
        let more = tail.read(logs)?;
        // Logs of ended attempts are not looked at again.
        tail.over = tail.piece.ended && !more;
        any |= more;
        match form {
            Form::Text if wanted.is_one_step() => tail.print_raw(&mut stdout)?,
            _ => {
                let last = Last((over || tail.piece.ended) && !more);
                tail.print_lines(&mut stdout, run, form, last)?;
            }
        }
    }
    stdout.flush()?;
    Ok(any)
}

/// A log, and how far it was read.
struct Tail {
    piece: Piece,
    /// Whether its heading was printed or is not needed.
    has_heading: bool,
    is_unread: bool,
    cursor: LogCursor,
    /// Bytes that were read and not printed.
    rest: Vec<u8>,
    screen: Screen,
    /// Whether it was printed to its end.
    over: bool,
}

impl Tail {
    /// Reads new output. Returns whether there was any.
    fn read(&mut self, logs: &mut RunLogs) -> io::Result<bool> {
        // A log is created a moment after its attempt begins. If it never is, that is reported at the
        // end.
        let read = logs.read_on(&self.piece.path, &mut self.cursor, TURN, &mut self.rest);
        let read = match logs.may_lack() {
            true => read?,
            false => read.unwrap_or(0),
        };
        self.is_unread &= read == 0;
        Ok(read > 0)
    }

    /// Prints the bytes without changes.
    fn print_raw(&mut self, out: &mut impl Write) -> io::Result<()> {
        if !self.has_heading {
            self.has_heading = true;
            writeln!(out, "{}", Style::of_stdout().bold(&self.piece.heading))?;
        }
        self.screen.print(&self.rest, out)?;
        self.rest.clear();
        Ok(())
    }

    /// Prints complete lines, and at the end also an incomplete one. A long line is printed in parts, so
    /// that it needs little memory.
    fn print_lines(
        &mut self,
        out: &mut impl Write,
        run: &str,
        form: Form,
        last: Last,
    ) -> io::Result<()> {
        let mut done = 0;
        while let Some(part) = Part::first(&self.rest[done..], last) {
            match form {
                Form::Json => out.write_all(self.piece.line_json(run, &part).as_bytes())?,
                Form::Text => self.screen.print_line(&part, out)?,
            }
            done += part.bytes.len();
        }
        self.rest.drain(..done);
        Ok(())
    }
}
