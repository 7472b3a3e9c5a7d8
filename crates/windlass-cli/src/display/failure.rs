//! The report of failures at the end of a run.

use std::path::Path;

use super::board::{Board, Event};
use super::line::Line;
use super::stream::Stream;
use super::tail::LineWriter;
use super::words::transition;
use crate::clean::Keep;
use crate::style::{Colours, Ink, Style};

/// How many bytes of a failed step's output are shown.
const OUTPUT: u64 = 32 * 1024;
/// The number of failures that are shown with their output.
const WITH_OUTPUT: usize = 10;
/// The number of further failures that are named.
const NAMED: usize = 100;
/// The prefix of each line of output.
const INDENT: &str = "    ";

/// Prints every failure with its reason and its output.
pub(crate) fn in_full(board: &Board, err: &mut Stream, style: &Style) {
    let failures = board.failures();
    for failure in failures.iter().take(WITH_OUTPUT) {
        err.line("");
        err.line(&headline(board, failure, style));
        match (&failure.finally_log, &failure.log) {
            (Some(log), _) => path_and_output(log, err, style),
            (None, Some(log)) => output(log, err, style),
            (None, None) => {}
        }
    }
    name(board, failures.iter().skip(WITH_OUTPUT), err, style);
    if !failures.is_empty() {
        err.line("");
    }
}

/// Prints every failure with its reason and the path of its log. The output of a `finally` was not shown
/// before, so it follows here for the first failures.
pub(crate) fn in_short(board: &Board, err: &mut Stream, style: &Style) {
    name(board, board.failures().iter(), err, style);
}

fn name<'a>(
    board: &Board,
    failures: impl ExactSizeIterator<Item = &'a Event>,
    err: &mut Stream,
    style: &Style,
) {
    let more = failures.len().saturating_sub(NAMED);
    for (place, failure) in failures.take(NAMED).enumerate() {
        err.line(&headline(board, failure, style));
        match &failure.finally_log {
            Some(log) if place < WITH_OUTPUT => path_and_output(log, err, style),
            _ => failure.main_log().into_iter().for_each(|log| path(log, err, style)),
        }
    }
    if more > 0 {
        err.line(&Line::new().ink(Ink::Red, format!("and {more} more failed")).whole(style));
    }
}

fn headline(board: &Board, failure: &Event, style: &Style) -> String {
    let sign = Line::new().ink(Ink::Red, failure.kind.sign(style)).text(" ");
    sign.join(transition(board, failure)).whole(style)
}

fn path_and_output(log: &Path, err: &mut Stream, style: &Style) {
    path(log, err, style);
    output(log, err, style);
}

fn path(log: &Path, err: &mut Stream, style: &Style) {
    err.line(&Line::new().ink(Ink::Dim, format!("{INDENT}log: {}", shown(log))).whole(style));
}

fn output(log: &Path, err: &mut Stream, style: &Style) {
    let dim = |text: String| Line::new().ink(Ink::Dim, text).whole(style);
    match windlass_server::tail(log, OUTPUT) {
        Ok(tail) => {
            if tail.skipped > 0 {
                let (before, log) = (tail.skipped, shown(log));
                err.line(&dim(format!("{INDENT}{before} bytes before this are in {log}")));
            }
            let keep = if style.colours == Colours::Ansi { Keep::Colours } else { Keep::Nothing };
            let (mut writer, mut out) = (LineWriter::new(INDENT.to_owned(), keep), String::new());
            writer.push(&tail.text, &mut out);
            writer.finish(&mut out);
            err.write(out);
        }
        Err(error) => err.line(&dim(format!("{INDENT}{} cannot be read: {error}", shown(log)))),
    }
}

/// Returns a path without characters that would change the terminal.
fn shown(path: &Path) -> String {
    crate::style::plain(&path.display().to_string())
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

    fn printed(board: &Board, print: impl Fn(&Board, &mut Stream, &Style)) -> String {
        let sink = Sink::default();
        print(board, &mut Stream::new(sink.clone()), &PLAIN);
        sink.text()
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
