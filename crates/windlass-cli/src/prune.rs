//! `windlass prune`: deletes finished runs with their logs, and old events.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use windlass_server::{Pruned, Pruning, prune as delete};

use crate::arguments::{Form, PruneArguments};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::Style;
use crate::table::{Cell, Table};
use crate::times::Times;

/// The age at which runs and events are deleted by default.
const USUAL: Duration = Duration::from_secs(30 * 86_400);

pub(crate) fn prune(
    state: Option<&Path>,
    arguments: &PruneArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let PruneArguments { older_than, keep, interrupted, dry_run } = *arguments;
    let older_than = older_than.or(Some(USUAL).filter(|_| keep.is_none()));
    let pruning = Pruning { older_than, keep, interrupted, dry_run };
    let pruned = delete(&mut state::look(state)?, &pruning)?;
    match form {
        Form::Json => print(&lines(&pruned, dry_run)),
        Form::Text => {
            if !pruned.runs.is_empty() {
                print(&table(&pruned));
            }
            eprintln!("{}", sum(&pruned, dry_run));
        }
    }
    Ok(Exit::Success)
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum PrunedJson<'a> {
    Run {
        dry_run: bool,
        run: &'a str,
        workflow: &'a str,
        state: &'a str,
        ended: i64,
        bytes: u64,
    },
    /// The logs of no run.
    Logs {
        dry_run: bool,
        dir: String,
        bytes: u64,
    },
    Events {
        dry_run: bool,
        number: usize,
    },
}

fn lines(pruned: &Pruned, dry_run: bool) -> String {
    let runs = pruned.runs.iter().map(|run| PrunedJson::Run {
        dry_run,
        run: &run.id,
        workflow: &run.workflow,
        state: run.state,
        ended: run.ended_ms,
        bytes: run.bytes,
    });
    let logs = pruned.orphans.iter().map(|orphan| PrunedJson::Logs {
        dry_run,
        dir: orphan.dir.display().to_string(),
        bytes: orphan.bytes,
    });
    let events = PrunedJson::Events { dry_run, number: pruned.events };
    runs.chain(logs).chain([events]).map(|line| json("pruned", &line)).collect()
}

fn table(pruned: &Pruned) -> String {
    let times = Times::now();
    let mut table = Table::new(["RUN", "WORKFLOW", "OUTCOME", "ENDED", "LOGS"]);
    for run in &pruned.runs {
        table.row([
            Cell::from(&run.id),
            Cell::from(&run.workflow),
            Cell::from(run.state),
            Cell::from(times.ago(run.ended_ms)),
            Cell::from(size(run.bytes)),
        ]);
    }
    table.render(&Style::of_stdout())
}

fn sum(pruned: &Pruned, dry_run: bool) -> String {
    let verb = if dry_run { "would delete" } else { "deleted" };
    let bytes = pruned.runs.iter().map(|run| run.bytes).sum::<u64>()
        + pruned.orphans.iter().map(|orphan| orphan.bytes).sum::<u64>();
    let mut parts = vec![count(pruned.runs.len(), "run")];
    if !pruned.orphans.is_empty() {
        parts.push(format!(
            "{} that belonged to no run",
            count(pruned.orphans.len(), "directory of logs")
        ));
    }
    parts.push(count(pruned.events, "event"));
    let kept = match pruned.others {
        0 => String::new(),
        others => format!("; kept {} of other users", count(others, "run")),
    };
    format!("{verb} {}: {} of logs{kept}", parts.join(", "), size(bytes))
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun.split_once(' ')) {
        (1, _) => format!("1 {noun}"),
        (number, Some(("directory", rest))) => format!("{number} directories {rest}"),
        (number, _) => format!("{number} {noun}s"),
    }
}

/// Returns a size for users: `0 B`, `512 B`, `1.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 {
        tenths /= 1024;
        unit += 1;
    }
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, UNITS[unit]),
        rest => format!("{}.{rest} {}", tenths / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_the_largest_unit_that_fits() {
        for (bytes, said) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size(bytes), said, "{bytes}");
        }
    }
}
