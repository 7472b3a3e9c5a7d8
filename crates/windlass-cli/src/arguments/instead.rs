//! What windlass has in place of the verbs and options of other tools.

use super::holding;

/// Returns what to use in place of a verb that windlass does not have.
pub(super) fn of_verb(given: &str) -> Option<&'static str> {
    Some(match given {
        "exec" | "execute" | "start" => "run a workflow: windlass run FILE",
        "enqueue" => "add a command to a queue: windlass add -- COMMAND",
        "ls" | "list" | "jobs" | "status" => {
            "list the runs that have not ended: windlass ps; the others: windlass history"
        }
        "abort" | "kill" | "stop" | "terminate" => {
            "cancel a run or a step: windlass cancel RUN, windlass cancel RUN/STEP"
        }
        "lint" | "test" | "validate" | "verify" => "check a workflow file: windlass check FILE",
        "rerun" | "restart" => "retry what failed: windlass retry RUN",
        "continue" => "continue an interrupted run: windlass resume",
        "follow" | "tail" | "watch" => {
            "follow a submitted run: windlass attach RUN; the output of any run: windlass log -f RUN"
        }
        "clean" | "delete" | "rm" => "delete old runs: windlass prune",
        "daemon" | "scheduler" | "server" => "schedule submitted runs: windlass serve",
        "dag" | "dot" | "plot" => "draw the steps: windlass graph FILE",
        "create" | "new" => "write a first file: windlass init",
        "unlock" => "release a lock: windlass lock release NAME --holder ID --token NUMBER",
        _ => return None,
    })
}

/// Returns what to use in place of an option that `verb` does not have.
pub(super) fn of_option(verb: &str, given: &str) -> Option<&'static str> {
    match verb {
        "lock" => holding::in_place_of_flock(given),
        "run" | "submit" => of_run(given),
        _ => None,
    }
}

fn of_run(given: &str) -> Option<&'static str> {
    Some(match given {
        "-n" | "--dry-run" | "--just-print" => {
            "windlass check FILE reports errors, windlass graph FILE draws the order"
        }
        "-f" | "--file" => "write the file without an option: windlass run FILE",
        "-s" | "--step" | "--only" | "--target" => {
            "write the steps behind the file: windlass run FILE STEP"
        }
        "-q" | "--quiet" | "--silent" => "use --output quiet",
        "-k" | "--keep-going" => {
            "leave it out: steps that do not depend on a failed one run in any case; `on_failure` in \
             the file changes that"
        }
        "-e" | "--env" => {
            "steps have the environment of windlass: NAME=VALUE windlass run FILE, or `env` in the file"
        }
        "--timeout" => "set `timeout` for a step or `deadline` for the run in the file",
        _ => return None,
    })
}
