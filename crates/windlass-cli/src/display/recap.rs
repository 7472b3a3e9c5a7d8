//! The last lines of a step's output, shown below its end.

use std::path::Path;

use windlass_server::ShownLogs;

use super::tail::LineWriter;
use crate::clean::Keep;

/// The maximum number of lines.
const LINES: usize = 10;
/// The number of bytes at the end of a log that are read for them.
const WINDOW: u64 = 16 << 10;
/// The prefix of each line.
const INDENT: &str = "    ";

/// The last lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recap {
    /// Whole lines, cleaned for a terminal.
    pub(crate) text: String,
    /// Whether there are more before them.
    pub(crate) cut: bool,
}

impl Recap {
    /// Reads the last lines of a log. Returns none if there are none, or if the log cannot be read.
    pub(crate) fn of(logs: &mut ShownLogs, log: &Path, keep: Keep) -> Option<Self> {
        let tail = logs.tail(log, WINDOW).ok()?;
        let mut text = String::new();
        let mut writer = LineWriter::new(INDENT.to_owned(), keep);
        writer.push(&tail.text, &mut text);
        writer.finish(&mut text);
        let hidden = text.lines().count().saturating_sub(LINES);
        let begin: usize = text.split_inclusive('\n').take(hidden).map(str::len).sum();
        text.drain(..begin);
        let cut = hidden > 0 || tail.skipped > 0;
        (!text.trim().is_empty()).then_some(Self { text, cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recap(log: &str) -> Option<(String, bool)> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        std::fs::write(&path, log).expect("it can be written");
        Recap::of(&mut ShownLogs::on_this_machine(), &path, Keep::Nothing)
            .map(|recap| (recap.text, recap.cut))
    }

    #[test]
    fn a_few_lines_are_shown_and_of_many_the_last() {
        assert_eq!(recap(""), None);
        assert_eq!(recap("\n \n"), None);
        assert_eq!(recap("one\ntwo"), Some(("    one\n    two\n".to_owned(), false)));
        let many: String = (1..=12).map(|line| format!("{line}\n")).collect();
        let last: String = (3..=12).map(|line| format!("    {line}\n")).collect();
        assert_eq!(recap(&many), Some((last, true)));
    }

    #[test]
    fn a_log_that_is_not_there_has_nothing_to_show() {
        let mut logs = ShownLogs::on_this_machine();
        assert_eq!(Recap::of(&mut logs, Path::new("/nowhere/log"), Keep::Nothing), None);
    }
}
