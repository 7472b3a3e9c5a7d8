//! Sentences about steps and runs.

use std::time::Duration;

use super::board::{Board, Counts, Event, Kind};
use super::change::Ending;
use super::line::Line;
use crate::look::attempt_of;
use crate::style::Letters;
use crate::style::{Ink, Style};
use crate::times::span;

impl Kind {
    /// Returns the colour of its texts.
    pub(crate) fn ink(self) -> Ink {
        match self {
            Kind::Succeeded => Ink::Green,
            Kind::Failed => Ink::Red,
            Kind::Again | Kind::Blocked | Kind::Cancelled => Ink::Yellow,
            Kind::Started => Ink::Cyan,
            Kind::Waits | Kind::Skipped => Ink::Dim,
        }
    }

    /// Returns its sign, one column wide.
    pub(crate) fn sign(self, style: &Style) -> &'static str {
        let (unicode, ascii) = match self {
            Kind::Succeeded => ("✓", "+"),
            Kind::Failed => ("✗", "x"),
            Kind::Again => ("↻", "r"),
            Kind::Cancelled => ("■", "c"),
            Kind::Started => ("›", ">"),
            Kind::Blocked | Kind::Skipped => ("–", "-"),
            Kind::Waits => ("·", "."),
        };
        match style.letters {
            Letters::Unicode => unicode,
            Letters::Ascii => ascii,
        }
    }
}

/// Returns the line for an event: `build: failed after 4.2 s: exit code 3`.
pub(crate) fn transition(board: &Board, event: &Event) -> Line {
    let label = format!("{}: ", board.step(event.step).label);
    Line::new().ink(Ink::Bold, label).ink(event.kind.ink(), sentence(event))
}

fn sentence(event: &Event) -> String {
    let time = |word: &str| event.took.map(|took| format!(" {word} {}", span(took)));
    let within = time("in").unwrap_or_default();
    let after = time("after").unwrap_or_default();
    let why = because(event);
    let attempt = attempt(event);
    let again = if event.attempt > 1 { format!(", {attempt}") } else { String::new() };
    match event.kind {
        Kind::Waits => event.why.clone().unwrap_or_else(|| "waits".to_owned()),
        Kind::Started => format!("started{again}"),
        Kind::Again if event.took.is_none() => format!("will run again{why}"),
        Kind::Again => {
            let ended = if event.due_ms.is_some() { "failed" } else { "ended" };
            format!("{attempt} {ended}{after}{why}; {}", next(event))
        }
        Kind::Succeeded => format!("succeeded{within}{again}{why}"),
        Kind::Failed => format!("failed{after}{again}{why}"),
        Kind::Skipped => format!("skipped{why}"),
        Kind::Blocked => format!("blocked{why}"),
        Kind::Cancelled => format!("cancelled{after}{why}"),
    }
}

/// Returns when the next attempt begins: `retry in 2.0 s`.
pub(crate) fn next(event: &Event) -> String {
    match event.due_ms.map(|due_ms| due_ms.saturating_sub(event.at_ms)) {
        None => "will run again".to_owned(),
        Some(0) => "retry at once".to_owned(),
        Some(wait_ms) => format!("retry in {}", span(Duration::from_millis(wait_ms))),
    }
}

/// Returns the number of the attempt, and the most there may be: `attempt 2 of 3`.
pub(crate) fn attempt(event: &Event) -> String {
    attempt_of(event.attempt, event.most_attempts)
}

/// Returns the reason, to be added to what happened; empty if there is none.
pub(crate) fn because(event: &Event) -> String {
    match event.why.as_deref().map(|why| why.strip_prefix("skipped: ").unwrap_or(why)) {
        None => String::new(),
        Some(why) if why.starts_with("by ") => format!(" {why}"),
        Some(why) => format!(": {why}"),
    }
}

/// Formats a time in tenths of seconds at most: `0.4 s`, `12 s`, `3 min 20 s`.
pub(crate) fn rounded(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("0.{} s", millis / 100),
        _ => span(time),
    }
}

/// Returns the counts of ended steps: `3 succeeded, 1 failed`.
pub(crate) fn tally(counts: Counts) -> String {
    let Counts { running: _, succeeded, skipped, failed, blocked, cancelled } = counts;
    let all = [
        (succeeded, "succeeded"),
        (skipped, "skipped"),
        (failed, "failed"),
        (blocked, "blocked"),
        (cancelled, "cancelled"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// Returns the first line: `run 3fa9c2d1: 4 steps`.
pub(crate) fn beginning(board: &Board, verb: &str) -> Line {
    let steps = board.outline.steps.len();
    let done = board.counts().ended();
    let done = if done > 0 { format!(", {done} done before") } else { String::new() };
    let steps = format!(": {steps} {}{done}", if steps == 1 { "step" } else { "steps" });
    Line::new().text(format!("{verb} ")).ink(Ink::Bold, &board.outline.run).text(steps)
}

/// Returns the line for a signal that has asked the run to stop.
pub(crate) fn stopping(board: &Board) -> Line {
    let running = board.counts().running;
    let (steps, them) = if running == 1 { ("step", "it") } else { ("steps", "them") };
    let said = format!("stopping: waiting for {running} {steps} to end; Ctrl-C again kills {them}");
    Line::new().ink(Ink::Yellow, said)
}

/// Returns a line that says how the run ended, and one that says how to continue.
pub(crate) fn ending(board: &Board, ending: Ending, took: Duration) -> Vec<Line> {
    let run = &board.outline.run;
    let took = span(took);
    let (ink, said) = match ending {
        Ending::Succeeded => (Ink::Green, format!("succeeded in {took}")),
        Ending::Failed => (Ink::Red, format!("failed after {took}")),
        Ending::TooLate => (Ink::Red, "missed its deadline".to_owned()),
        Ending::Cancelled => (Ink::Yellow, format!("was cancelled after {took}")),
        Ending::Interrupted => (Ink::Yellow, format!("was interrupted after {took}")),
        Ending::Left => (Ink::Yellow, "can be resumed".to_owned()),
        Ending::Detached => (Ink::Yellow, "continues".to_owned()),
        Ending::Stopped | Ending::Lost => (Ink::Yellow, format!("stopped after {took}")),
    };
    let tally = Some(tally(board.counts())).filter(|tally| !tally.is_empty());
    let tally = tally.map(|tally| format!(": {tally}")).unwrap_or_default();
    let line = Line::new().text("run ").ink(Ink::Bold, run).text(" ").ink(ink, said).text(tally);
    let next = match ending {
        Ending::Succeeded | Ending::Lost => None,
        Ending::Failed | Ending::TooLate | Ending::Cancelled => Some("retry"),
        Ending::Interrupted | Ending::Left | Ending::Stopped => Some("resume"),
        Ending::Detached => Some("attach"),
    };
    let next = next.map(|verb| {
        Line::new().text(format!("to {verb}: ")).ink(Ink::Bold, format!("windlass {verb} {run}"))
    });
    std::iter::once(line).chain(next).collect()
}

#[cfg(test)]
mod tests {
    use windlass_server::WorkState::{Blocked, Cancelled, Failed, Pending, Running, Success};

    use super::super::board::tests::{because, board, change};
    use super::super::change::StepChange;
    use super::*;
    use crate::style::Colours;

    const PLAIN: Style = Style { colours: Colours::Plain, width: None, letters: Letters::Ascii };

    #[test]
    fn every_change_is_a_sentence() {
        let mut board = board();
        let mut check = |change: StepChange, expected: &str| {
            let event = board.apply(change);
            assert_eq!(transition(&board, &event).whole(&PLAIN), expected);
        };
        check(change("fetch", Running, 1, 0), "fetch: started");
        check(
            because("exit code 6", change("fetch", Pending, 1, 1_250)),
            "fetch: attempt 1 of 3 ended after 1.2 s: exit code 6; will run again",
        );
        check(change("fetch", Running, 2, 2_000), "fetch: started, attempt 2 of 3");
        check(
            StepChange { due_ms: Some(63_000), ..change("fetch", Pending, 2, 3_000) },
            "fetch: attempt 2 of 3 failed after 1.0 s; retry in 1 min",
        );
        check(change("fetch", Running, 2, 2_000), "fetch: started, attempt 2 of 3");
        check(change("fetch", Success, 2, 14_999), "fetch: succeeded in 12 s, attempt 2 of 3");
        check(because("retried", change("build", Pending, 1, 0)), "build: will run again: retried");
        check(change("build", Running, 1, 0), "build: started");
        check(
            because("exit code 3", change("build", Failed, 1, 199)),
            "build: failed after 199 ms: exit code 3",
        );
        check(change("test", Cancelled, 0, 0), "test: cancelled");
        check(change("deploy", Blocked, 0, 0), "deploy: blocked by build");
        let skipped = because("skipped: when said no", change("late", Success, 0, 0));
        check(StepChange { skipped: true, ..skipped }, "late: skipped: when said no");
        check(change("lost", Failed, 1, 0), "lost: failed");
        let waits = board.wait("later", "waits for lock x", 0);
        assert_eq!(transition(&board, &waits).whole(&PLAIN), "later: waits for lock x");
    }

    #[test]
    fn the_first_and_last_lines_of_a_run_say_how_to_continue() {
        let mut board = board();
        assert_eq!(beginning(&board, "run").whole(&PLAIN), "run 3fa9c2d1: 4 steps");
        board.apply(change("fetch", Success, 1, 0));
        board.apply(change("build", Failed, 1, 0));
        let resumed = beginning(&board, "resumed run").whole(&PLAIN);
        assert_eq!(resumed, "resumed run 3fa9c2d1: 4 steps, 2 done before");
        let check = |how: Ending, expected: &[&str]| {
            let lines = ending(&board, how, Duration::from_millis(4_100));
            let lines: Vec<_> = lines.iter().map(|line| line.whole(&PLAIN)).collect();
            assert_eq!(lines, expected);
        };
        check(
            Ending::Failed,
            &[
                "run 3fa9c2d1 failed after 4.1 s: 1 succeeded, 1 failed",
                "to retry: windlass retry 3fa9c2d1",
            ],
        );
        check(
            Ending::Interrupted,
            &[
                "run 3fa9c2d1 was interrupted after 4.1 s: 1 succeeded, 1 failed",
                "to resume: windlass resume 3fa9c2d1",
            ],
        );
        check(Ending::Succeeded, &["run 3fa9c2d1 succeeded in 4.1 s: 1 succeeded, 1 failed"]);
    }
}
