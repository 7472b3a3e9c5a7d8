//! What holders of names are called in messages: the words of the user who has started them.

use std::fmt;

use windlass_server::{HolderId, People, Process, StoreOpener, command_line};

use crate::style::{Letters, fit, plain};

/// No more than this is shown of a command, in columns.
const LONGEST_COMMAND: usize = 60;

/// A holder or waiter.
pub(crate) struct Holder<'a> {
    /// `RUN/STEP` for a step, `process PID` for a command, or what `--holder` was given.
    pub(crate) name: &'a str,
    pub(crate) pid: Option<u32>,
    /// The command line of its process, if that can be seen.
    pub(crate) command: Option<&'a str>,
}

impl Holder<'_> {
    /// Returns what it is called, without its process: `command "make"`, `step RUN/STEP`, or a name.
    pub(crate) fn title(&self) -> String {
        match self.command {
            Some(command) if self.is_process() => {
                format!("command {:?}", fit(&plain(command), LONGEST_COMMAND, Letters::Ascii))
            }
            _ if is_step(self.name) => format!("step {}", plain(self.name)),
            _ => plain(self.name),
        }
    }

    /// Returns the process, unless the title names it.
    pub(crate) fn other_pid(&self) -> Option<u32> {
        self.pid.filter(|_| !self.is_process() || self.command.is_some())
    }

    /// Returns the name for programs, which is the id of a step or what `--holder` was given; for a
    /// command, what messages call it.
    pub(crate) fn id(&self) -> String {
        if self.is_process() { self.to_string() } else { self.name.to_owned() }
    }

    fn is_process(&self) -> bool {
        self.pid.is_some_and(|pid| self.name == format!("process {pid}"))
    }
}

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())?;
        // A name that the user has chosen is enough.
        let pid = self.other_pid().filter(|_| self.is_process() || is_step(self.name));
        pid.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}

/// Returns whether a name is `RUN/STEP`: the id of a run has eight hexadecimal digits.
fn is_step(name: &str) -> bool {
    let run = name.split_once('/').map(|(run, _)| run);
    run.is_some_and(|run| run.len() == 8 && run.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns what to call a holder of which only the id is known.
pub(crate) fn called(store: &StoreOpener, id: &HolderId) -> String {
    let found = store.open().and_then(|mut store| {
        let people = People::among(&mut store, [id])?;
        Ok((people, process_of(&mut store, id)?))
    });
    let (people, process) = found.unwrap_or_default();
    let command = process.as_ref().and_then(command_line);
    let pid = process.map(|process| process.pid);
    Holder { name: &people.name(id), pid, command: command.as_deref() }.to_string()
}

fn process_of(
    store: &mut windlass_server::Store,
    id: &HolderId,
) -> Result<Option<Process>, windlass_server::StoreError> {
    let views = store.overview()?;
    let leases = views.iter().flat_map(|view| &view.leases);
    let held = leases.filter(|stored| stored.lease.holder == *id);
    let waiters = views.iter().flat_map(|view| &view.waiters);
    let wanted = waiters.filter(|stored| stored.waiter.holder == *id);
    let held = held.filter_map(|stored| stored.owner.process.clone());
    Ok(held.chain(wanted.filter_map(|stored| stored.process.clone())).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_called_as_users_know_them() {
        let check = |name, pid, command, expected: &str| {
            assert_eq!(Holder { name, pid, command }.to_string(), expected);
        };
        check("process 7", Some(7), Some("make -j2"), "command \"make -j2\" (pid 7)");
        check("process 7", Some(7), None, "process 7");
        check("3fa9c2d1/deploy", Some(7), Some("windlass run"), "step 3fa9c2d1/deploy (pid 7)");
        check("build-17", Some(7), Some("sh ci.sh"), "build-17");
        check("build-17", None, None, "build-17");
        check("a/b", None, None, "a/b");
        let long = "x".repeat(100);
        assert!(
            Holder { name: "process 7", pid: Some(7), command: Some(&long) }.to_string().len() < 90
        );
    }
}
