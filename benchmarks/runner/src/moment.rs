//! Where and when something was measured.

use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

/// How busy the machine has been for the last minute, five and fifteen.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The present moment, for what took so long and began under that load.
pub(crate) fn now(load_before: &str, took: Duration, quick: bool) -> Value {
    json!({
        "date": said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        "commit": commit(),
        "quick": quick,
        "seconds": took.as_secs(),
        "load_before": load_before,
        "load_after": load(),
        "processor": processor(),
        "processors": thread::available_parallelism().map_or(1, usize::from),
        "memory": memory(),
        "system": said_by("uname", &["-srm"]),
        "compiler": said_by("rustc", &["--version"]),
    })
}

/// Which commit was measured, and whether something was changed since.
fn commit() -> String {
    let commit = said_by("git", &["rev-parse", "--short", "HEAD"]);
    let changes =
        said_by("git", &["status", "--porcelain", "--untracked-files=no", "--", "crates"]);
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

/// What a command prints, without its last line break; nothing if there is no such command.
fn said_by(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).current_dir(crate::root()).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}
