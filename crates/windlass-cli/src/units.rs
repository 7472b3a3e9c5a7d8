//! `windlass serve --unit`: systemd user units for a scheduler and a worker.
//!
//! They are two, so that the scheduler can be restarted at any time: the steps belong to the worker's unit.

use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;

use crate::arguments::{ServiceArguments, Unit};
use crate::exit::Exit;
use crate::output::print;
use crate::state;

/// The time after which systemd ends a worker that does not beat.
const WATCHDOG: &str = "60s";
/// How long a worker may drain when it is stopped.
const DRAIN: &str = "90s";

/// Prints the units of a store.
pub(crate) fn print_units(
    state: Option<&Path>,
    unit: Unit,
    service: &ServiceArguments,
) -> Result<Exit, Box<dyn Error>> {
    let program = quoted(std::env::current_exe()?.as_os_str())?;
    let store = quoted(state::dir(state)?.as_os_str())?;
    let command = |verb: &str| {
        format!("{program} --state {store} {verb} --lease {}ms", service.lease.as_millis())
    };
    let mut offer = service.slots.map(|slots| format!(" --slots {slots}")).unwrap_or_default();
    for argument in service.worker_arguments() {
        offer += &format!(" {}", quoted(OsStr::new(&argument))?);
    }
    let scheduler = format!(
        "[Unit]\n\
        Description=Windlass scheduler\n\n\
        [Service]\n\
        ExecStart={}\n\
        Restart=on-failure\n\
        # The store cannot be used: a restart would not help.\n\
        RestartPreventExitStatus=69\n\n\
        [Install]\n\
        WantedBy=default.target\n",
        command("serve --no-worker")
    );
    let worker = format!(
        "[Unit]\n\
        Description=Windlass worker\n\n\
        [Service]\n\
        Type=notify\n\
        ExecStart={}{offer}\n\
        # Only the worker is asked to end, and drains. Then everything that is left is killed.\n\
        KillMode=mixed\n\
        TimeoutStopSec={DRAIN}\n\
        WatchdogSec={WATCHDOG}\n\
        Restart=on-failure\n\
        # The store cannot be used: a restart would not help.\n\
        RestartPreventExitStatus=69\n\n\
        [Install]\n\
        WantedBy=default.target\n",
        command("worker")
    );
    print(&match unit {
        Unit::Scheduler => scheduler,
        Unit::Worker => worker,
        Unit::Both => format!(
            "# windlass-scheduler.service: windlass serve --unit=scheduler prints it alone\n\
            {scheduler}\n\
            # windlass-worker.service: windlass serve --unit=worker prints it alone\n\
            {worker}"
        ),
    });
    Ok(Exit::Success)
}

/// Returns a path as a word of `ExecStart`.
fn quoted(path: &OsStr) -> Result<String, Box<dyn Error>> {
    let path = path.to_str().filter(|path| !path.contains(char::is_control));
    let Some(path) = path else {
        return Err(
            "a path with control characters or without UTF-8 cannot be written to a unit".into()
        );
    };
    let mut word = String::from("\"");
    for character in path.chars() {
        match character {
            '"' | '\\' => word.extend(['\\', character]),
            // Both begin something that systemd replaces.
            '%' | '$' => word.extend([character, character]),
            other => word.push(other),
        }
    }
    word.push('"');
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_one_word_of_a_command_line() {
        let check = |path: &str, word: &str| {
            assert_eq!(quoted(OsStr::new(path)).expect("it is text"), word);
        };
        check("/a b/c", "\"/a b/c\"");
        check("/50%/$x", "\"/50%%/$$x\"");
        check("/\"q\\", "\"/\\\"q\\\\\"");
        assert!(quoted(OsStr::new("/a\nExecStart=")).is_err());
    }
}
