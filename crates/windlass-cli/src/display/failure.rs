//! The report of failures at the end of a run.

use std::path::Path;

use windlass_server::{ShownLogs, step_argument};

use super::board::{Board, Event};
use super::line::Line;
use super::stream::Stream;
use super::tail::LineWriter;
use super::words::transition;
use crate::clean::Keep;
use crate::style::{Colours, Ink, Style, plain};

/// How many bytes of a failed step's output are shown.
const OUTPUT: u64 = 32 * 1024;
/// The number of failures that are shown with their output.
const WITH_OUTPUT: usize = 10;
/// The number of further failures that are named.
const NAMED: usize = 100;
/// The prefix of each line of output.
const INDENT: &str = "    ";

/// Prints failures.
pub(crate) struct Report<'a> {
    pub(crate) board: &'a Board,
    pub(crate) logs: &'a mut ShownLogs,
    pub(crate) err: &'a mut Stream,
    pub(crate) style: &'a Style,
}

impl Report<'_> {
    /// Prints every failure with its reason and its output.
    pub(crate) fn in_full(&mut self) {
        let failures = self.board.failures();
        self.look();
        for failure in failures.iter().take(WITH_OUTPUT) {
            self.err.line("");
            self.headline(failure);
            match (&failure.finally_log, &failure.log) {
                (Some(log), _) => self.place_and_output(failure, log),
                (None, Some(log)) => self.output(failure, log),
                (None, None) => {}
            }
        }
        self.name(failures.iter().skip(WITH_OUTPUT));
        if !failures.is_empty() {
            self.err.line("");
        }
    }

    /// Prints every failure with its reason and where its log is. The output of a `finally` was not shown
    /// before, so it follows here for the first failures.
    pub(crate) fn in_short(&mut self) {
        self.look();
        self.name(self.board.failures().iter());
    }

    /// Looks which of the failures that are shown have printed something.
    fn look(&mut self) {
        let shown = self.board.failures().iter().take(WITH_OUTPUT + NAMED);
        // What cannot be asked now is not shown.
        let _ = self.logs.look_at(shown.filter_map(Event::main_log));
    }

    fn name<'a>(&mut self, failures: impl ExactSizeIterator<Item = &'a Event>) {
        let more = failures.len().saturating_sub(NAMED);
        for (place, failure) in failures.take(NAMED).enumerate() {
            self.headline(failure);
            match &failure.finally_log {
                Some(log) if place < WITH_OUTPUT => self.place_and_output(failure, log),
                _ => failure.main_log().into_iter().for_each(|log| self.place(failure, log)),
            }
        }
        if more > 0 {
            let more = Line::new().ink(Ink::Red, format!("and {more} more failed"));
            self.err.line(&more.whole(self.style));
        }
    }

    fn headline(&mut self, failure: &Event) {
        let sign = Line::new().ink(Ink::Red, failure.kind.sign(self.style)).text(" ");
        self.err.line(&sign.join(transition(self.board, failure)).whole(self.style));
    }

    fn place_and_output(&mut self, failure: &Event, log: &Path) {
        self.place(failure, log);
        self.output(failure, log);
    }

    fn place(&mut self, failure: &Event, log: &Path) {
        if !self.logs.has(log) {
            return;
        }
        let place = self.place_of(failure, log);
        self.dim(format!("{INDENT}log: {place}"));
    }

    /// Returns the path of a log, or the command that prints one that is on another machine.
    fn place_of(&self, failure: &Event, log: &Path) -> String {
        if self.logs.is_here(log) {
            return shown(log);
        }
        let (run, step) = (&self.board.outline.run, &self.board.step(failure.step).name);
        format!("windlass log {}", plain(&step_argument(run, step)))
    }

    fn output(&mut self, failure: &Event, log: &Path) {
        let tail = match self.logs.tail(log, OUTPUT) {
            Ok(tail) => tail,
            Err(error) => {
                return self.dim(format!("{INDENT}{} cannot be read: {error}", shown(log)));
            }
        };
        if tail.skipped > 0 {
            let (before, place) = (tail.skipped, self.place_of(failure, log));
            let are_in = if self.logs.is_here(log) { " are in" } else { ":" };
            self.dim(format!("{INDENT}{before} bytes before this{are_in} {place}"));
        }
        let keep = if self.style.colours == Colours::Ansi { Keep::Colours } else { Keep::Nothing };
        let (mut writer, mut out) = (LineWriter::new(INDENT.to_owned(), keep), String::new());
        writer.push(&tail.text, &mut out);
        writer.finish(&mut out);
        self.err.write(out);
    }

    fn dim(&mut self, text: String) {
        self.err.line(&Line::new().ink(Ink::Dim, text).whole(self.style));
    }
}

/// Returns a path without characters that would change the terminal.
fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use windlass_server::WorkState::Failed;

    use super::super::board::tests::{because, board, change};
    use super::super::change::StepChange;
    use super::super::stream::tests::Sink;
    use super::*;
    use crate::style::Letters;

    const PLAIN: Style = Style { colours: Colours::Plain, width: None, letters: Letters::Ascii };

    fn printed(board: &Board, print: impl Fn(&mut Report<'_>)) -> String {
        let (sink, mut logs) = (Sink::default(), ShownLogs::on_this_machine());
        let mut err = Stream::new(sink.clone());
        print(&mut Report { board, logs: &mut logs, err: &mut err, style: &PLAIN });
        sink.text()
    }

    fn in_full(report: &mut Report<'_>) {
        report.in_full();
    }

    fn in_short(report: &mut Report<'_>) {
        report.in_short();
    }

    #[test]
    fn a_failure_is_printed_with_its_reason_and_its_output() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        fs::write(&log, "one\n\x1b[31mtwo\x1b[2J").expect("it can be written");
        let mut board = board();
        let failed = because("exit code 3", change("build", Failed, 1, 0));
        board.apply(StepChange { log: Some(log.clone()), ..failed });
        board.apply(change("test", Failed, 1, 0));
        let expected = "\nx build: failed: exit code 3\n    one\n    two\n\nx test: failed\n\n";
        assert_eq!(printed(&board, in_full), expected);
        let log = log.display();
        let expected = format!("x build: failed: exit code 3\n    log: {log}\nx test: failed\n");
        assert_eq!(printed(&board, in_short), expected);
    }

    #[test]
    fn of_much_output_the_end_is_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        fs::write(&log, "0123456\n".repeat(100_000) + "the end\n").expect("it can be written");
        let mut board = board();
        board.apply(StepChange { log: Some(log.clone()), ..change("build", Failed, 1, 0) });
        let text = printed(&board, in_full);
        assert!(text.len() < 2 * OUTPUT as usize, "{}", text.len());
        assert!(text.contains(&format!(" bytes before this are in {}", log.display())));
        assert!(text.ends_with("    0123456\n    the end\n\n"));
    }

    #[test]
    fn only_the_first_of_many_failures_are_printed() {
        let mut board = board();
        for number in 0..1000 {
            board.apply(change(&format!("step-{number}"), Failed, 1, 0));
        }
        let text = printed(&board, in_full);
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), WITH_OUTPUT + NAMED + 1);
        assert!(text.ends_with("and 890 more failed\n\n"), "{text}");
    }
}
