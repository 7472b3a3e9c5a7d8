//! The machine, the time and the load of a measurement.

use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

/// Returns the load averages of the last one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Describes a measurement that took `took` and ends now.
pub(crate) fn now(load_before: &str, took: Duration, quick: bool) -> Value {
    json!({
        "date": output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        "commit": commit(),
        "quick": quick,
        "seconds": took.as_secs(),
        "load_before": load_before,
        "load_after": load(),
        "processor": processor(),
        "processors": thread::available_parallelism().map_or(1, usize::from),
        "memory": memory(),
        "system": output_of("uname", &["-srm"]),
        "compiler": output_of("rustc", &["--version"]),
    })
}

/// Returns the commit that was measured, and whether the tree was changed since.
fn commit() -> String {
    let commit = output_of("git", &["rev-parse", "--short", "HEAD"]);
    let changes =
        output_of("git", &["status", "--porcelain", "--untracked-files=no", "--", "crates"]);
    if changes.is_empty() { commit } else { commit + ", changed" }
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or("unknown", |model| model.trim_start_matches([' ', '\t', ':'])).to_owned()
}

fn memory() -> String {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{} GiB", kib.div_ceil(1 << 20)))
}

/// Returns the output of a command, without the last line break; empty if there is no such command.
fn output_of(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).current_dir(crate::root()).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}
