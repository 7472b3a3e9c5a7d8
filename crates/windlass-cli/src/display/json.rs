//! Shows a run to programs: one object per line. `docs/command.md` describes them.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use windlass_server::ShownLogs;

use super::Verb;
use super::board::{Board, Counts, Event, Kind};
use super::change::Ending;
use super::stream::Stream;
use super::view::{Clock, View};
use super::words::{beginning, ending, stopping};
use crate::output::json;
use crate::style::Style;

/// A view for programs on standard output; messages go to standard error.
pub(crate) struct Json {
    pub(crate) verb: Verb,
    pub(crate) out: Stream,
    pub(crate) err: Stream,
    pub(crate) style: Style,
    pub(crate) clock: Clock,
    pub(crate) logs: ShownLogs,
}

/// The run began or ended.
#[derive(Serialize)]
struct RunEvent<'a> {
    run: &'a str,
    state: &'static str,
    workflow: &'a str,
    steps: usize,
    counts: Tally,
    /// Milliseconds since 1970.
    at: u64,
}

#[derive(Serialize)]
struct Tally {
    succeeded: usize,
    skipped: usize,
    failed: usize,
    blocked: usize,
    cancelled: usize,
}

/// Something happened to a step.
#[derive(Serialize)]
struct StepEvent<'a> {
    run: &'a str,
    step: &'a str,
    state: &'static str,
    attempt: u32,
    /// Milliseconds since 1970.
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
    /// When the next attempt begins, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
}

/// A step waits for something besides other steps.
#[derive(Serialize)]
struct Waits<'a> {
    run: &'a str,
    step: &'a str,
    why: &'a str,
    /// Milliseconds since 1970.
    at: u64,
}

/// A message about the run itself.
#[derive(Serialize)]
struct Notice<'a> {
    run: &'a str,
    said: &'a str,
    /// Milliseconds since 1970.
    at: u64,
}

/// Changes were left out because they came faster than they could be written.
#[derive(Serialize)]
struct LeftOut<'a> {
    run: &'a str,
    count: u64,
    /// Milliseconds since 1970.
    at: u64,
}

impl Json {
    fn print(&mut self, event: &str, value: &impl Serialize) {
        self.out.write(json(event, value));
        self.out.flush();
    }

    fn print_run(&mut self, board: &Board, state: &'static str) {
        let Counts { running: _, succeeded, skipped, failed, blocked, cancelled } = board.counts();
        let event = RunEvent {
            run: &board.outline.run,
            state,
            workflow: &board.outline.workflow,
            steps: board.outline.steps.len(),
            counts: Tally { succeeded, skipped, failed, blocked, cancelled },
            at: self.clock.now_ms(),
        };
        self.print("run", &event);
    }
}

impl View for Json {
    fn begin(&mut self, board: &Board) {
        self.err.line(&beginning(board, self.verb.words()).whole(&self.style));
        self.print_run(board, "running");
    }

    fn event(&mut self, board: &Board, event: &Event) {
        if event.kind == Kind::Waits {
            let waits = Waits {
                run: &board.outline.run,
                step: &board.step(event.step).name,
                why: event.why.as_deref().unwrap_or_default(),
                at: event.at_ms,
            };
            return self.print("waits", &waits);
        }
        let took = event.took.map(|took| took.as_millis());
        // A path says nothing about a log on another machine.
        let log = event.main_log().filter(|log| self.logs.is_here(log));
        let step = StepEvent {
            run: &board.outline.run,
            step: &board.step(event.step).name,
            state: state(event.kind),
            attempt: event.attempt,
            at: event.at_ms,
            why: event.why.as_deref(),
            took_ms: took.map(|took| u64::try_from(took).unwrap_or(u64::MAX)),
            retry_at: event.due_ms,
            log: log.map(Path::to_string_lossy).map(Into::into),
            skipped: event.kind == Kind::Skipped,
        };
        self.print("step", &step);
    }

    fn notice(&mut self, board: &Board, said: &str) {
        let (run, at) = (board.outline.run.as_str(), self.clock.now_ms());
        self.print("notice", &Notice { run, said, at });
    }

    fn left_out(&mut self, board: &Board, count: u64) {
        let (run, at) = (board.outline.run.as_str(), self.clock.now_ms());
        self.print("left_out", &LeftOut { run, count, at });
    }

    fn stopping(&mut self, board: &Board) {
        self.err.line(&stopping(board).whole(&self.style));
    }

    fn tick(&mut self, _board: &Board) -> Duration {
        // There is nothing to show between two events.
        Duration::MAX
    }

    fn end(&mut self, board: &Board, how: Ending) {
        self.print_run(
            board,
            match how {
                Ending::Succeeded => "succeeded",
                Ending::Failed => "failed",
                Ending::TooLate => "too late",
                Ending::Cancelled => "cancelled",
                Ending::Interrupted => "interrupted",
                Ending::Left | Ending::Detached => "left",
                Ending::Stopped | Ending::Lost => "stopped",
            },
        );
        for line in ending(board, how, self.clock.elapsed()) {
            self.err.line(&line.whole(&self.style));
        }
    }
}

fn state(kind: Kind) -> &'static str {
    match kind {
        Kind::Waits | Kind::Again => "pending",
        Kind::Started => "running",
        Kind::Succeeded | Kind::Skipped => "success",
        Kind::Failed => "failed",
        Kind::Blocked => "blocked",
        Kind::Cancelled => "cancelled",
    }
}
