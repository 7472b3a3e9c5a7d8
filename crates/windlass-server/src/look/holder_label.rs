//! How messages name a holder of a name, or a waiter for it: in the words of the user who started it.
//!
//! A command is named by its command line, a step by `RUN/STEP`, and every other holder as it named
//! itself. The text fits into a message and contains nothing that a terminal would interpret.

use std::fmt;

use windlass_core::is_unprintable;

/// The number of characters of a command line that a message shows.
const LONGEST_COMMAND: usize = 60;

/// A holder or waiter, as messages name it.
///
/// ```
/// use windlass_server::HolderLabel;
///
/// let make = HolderLabel { name: "process 7", pid: Some(7), ..HolderLabel::default() };
/// let label = HolderLabel { command: Some("make -j2"), ..make };
/// assert_eq!(label.to_string(), "command \"make -j2\" (pid 7)");
/// let label = HolderLabel { host: Some("build-2"), ..make };
/// assert_eq!(label.to_string(), "process 7 on build-2");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderLabel<'a> {
    /// `RUN/STEP` for a step, `process PID` for a command, or what `--holder` was given.
    pub name: &'a str,
    /// The pid of its process, if it has named one.
    pub pid: Option<u32>,
    /// The command line of its process, if that can be seen.
    pub command: Option<&'a str>,
    /// Its machine, if that is another one.
    pub host: Option<&'a str>,
}

impl HolderLabel<'_> {
    /// Returns the label without the process: `command "make"`, `step RUN/STEP`, or a name.
    #[must_use]
    pub fn title(&self) -> String {
        match self.command {
            Some(command) if self.is_process() => format!("command {:?}", shortened(command)),
            _ if is_step(self.name) => format!("step {}", printable(self.name)),
            _ => printable(self.name),
        }
    }

    /// Returns the pid of its process, unless the title contains it.
    #[must_use]
    pub fn other_pid(&self) -> Option<u32> {
        self.pid.filter(|_| !self.is_process() || self.command.is_some())
    }

    /// Returns the name for programs: the id of a step, what `--holder` was given, or the label of a command.
    #[must_use]
    pub fn id(&self) -> String {
        if self.is_process() { self.to_string() } else { self.name.to_owned() }
    }

    fn is_process(&self) -> bool {
        self.pid.is_some_and(|pid| self.name == format!("process {pid}"))
    }
}

impl fmt::Display for HolderLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())?;
        // A name that the user has chosen is enough.
        let pid = self.other_pid().filter(|_| self.is_process() || is_step(self.name));
        pid.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))?;
        self.host.map_or(Ok(()), |host| write!(f, " on {}", printable(host)))
    }
}

/// Returns whether a name is `RUN/STEP`: the id of a run has eight hexadecimal digits.
fn is_step(name: &str) -> bool {
    let run = name.split_once('/').map(|(run, _)| run);
    run.is_some_and(|run| run.len() == 8 && run.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

fn shortened(command: &str) -> String {
    let command = printable(command);
    match command.char_indices().nth(LONGEST_COMMAND - 1) {
        Some((end, last)) if end + last.len_utf8() < command.len() => {
            format!("{}~", &command[..end])
        }
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_named_in_the_words_of_their_users() {
        let check = |name, pid, command, expected: &str| {
            assert_eq!(HolderLabel { name, pid, command, host: None }.to_string(), expected);
        };
        check("process 7", Some(7), Some("make -j2"), "command \"make -j2\" (pid 7)");
        check("process 7", Some(7), None, "process 7");
        check("3fa9c2d1/deploy", Some(7), Some("windlass run"), "step 3fa9c2d1/deploy (pid 7)");
        check("build-17", Some(7), Some("sh ci.sh"), "build-17");
        check("build-17", None, None, "build-17");
        check("a/b", None, None, "a/b");
        check("a\u{1b}[1m", None, None, "a\u{fffd}[1m");
    }

    #[test]
    fn a_long_command_line_is_shortened() {
        assert_eq!(shortened(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(shortened(&"x".repeat(61)), "x".repeat(59) + "~");
        assert_eq!(shortened(&"é".repeat(61)), "é".repeat(59) + "~");
    }
}
