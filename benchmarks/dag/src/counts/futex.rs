//! Futex calls per node: how often threads sleep and wake each other.
//!
//! perf counts them without stopping a thread. strace stops the thread at each call for longer than most waits
//! last, and so counts fewer of them; it is used where perf is missing or not permitted.

use std::process::Command;

use serde_json::{Value, json};

use super::{answer, count_in, output};
use crate::options::Options;
use crate::probe::Probe;
use crate::spread::Spread;

pub(super) struct Tool {
    command: &'static [&'static str],
    parse: fn(&str) -> Option<u64>,
}

const TOOLS: &[Tool] = &[
    Tool { command: &["perf", "stat", "-x,", "-e", "syscalls:sys_enter_futex"], parse: by_perf },
    Tool {
        command: &["strace", "-f", "--seccomp-bpf", "-c", "-e", "trace=futex"],
        parse: by_strace,
    },
];

/// Returns the first tool that works here.
pub(super) fn find() -> Result<&'static Tool, String> {
    let works = |tool: &&Tool| {
        let [program, arguments @ ..] = tool.command else { return false };
        let tried = Command::new(program).args(arguments).arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    let refusal =
        "--futex needs perf or strace, and neither was found on PATH with the permission to trace";
    TOOLS.iter().find(works).ok_or_else(|| refusal.to_owned())
}

pub(super) fn figure(tool: &Tool, options: &Options, probe: &Probe) -> Result<Value, String> {
    let per_node = |_| {
        let output = output(probe, tool.command, &[])?;
        let nodes = answer(&output)["nodes"].as_f64().expect("a number");
        Ok(count_in(&output, tool.parse)? as f64 / nodes)
    };
    let calls = (0..options.rounds(5)).map(per_node).collect::<Result<_, String>>()?;
    let calls = Spread::of(calls);
    let rounded = |calls: f64| (calls * 10_000.0).round() / 10_000.0;
    let [median, min, max] = [calls.median, calls.min, calls.max].map(rounded);
    Ok(json!({
        "contender": probe.row,
        "nodes": probe.nodes,
        "futex_calls": median,
        "min": min,
        "max": max,
        "tool": tool.command[0],
    }))
}

/// Parses `270,,syscalls:sys_enter_futex,309906636,100.00,,`.
fn by_perf(line: &str) -> Option<u64> {
    let (count, rest) = line.split_once(',')?;
    rest.contains("futex").then(|| count.parse().ok())?
}

/// Parses `100.00    0.000123          12        10         3 futex`, where 3 of 10 calls have failed.
fn by_strace(line: &str) -> Option<u64> {
    let words: Vec<_> = line.split_whitespace().collect();
    words.ends_with(&["futex"]).then(|| words.get(3)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_found_in_what_the_tools_print() {
        assert_eq!(by_perf("270,,syscalls:sys_enter_futex,309906636,100.00,,"), Some(270));
        assert_eq!(by_strace("100.00    0.000123      12        10         3 futex"), Some(10));
        assert_eq!(by_strace("100.00    0.000123      12        10           futex"), Some(10));
        assert_eq!(by_strace("100.00    0.000123      12        10           total"), None);
    }
}
