//! Instructions per node, counted by valgrind.
//!
//! Valgrind runs one thread of a process at a time. So its count on two threads shows little contention, and
//! varies by some percent where a contender depends on the interleaving of threads or on the clock. On one
//! thread it is nearly exact.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::{answer, count_in, output};
use crate::options::Options;
use crate::probe::Probe;
use crate::spread::Spread;

const VALGRIND: &[&str] =
    &["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];

/// Returns an error if there is no valgrind.
pub(super) fn check() -> Result<(), String> {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    let refusal = |_| "--instructions needs valgrind, which was not found on PATH".to_owned();
    version.map(drop).map_err(refusal)
}

#[derive(Default)]
pub(super) struct Instructions {
    /// Instructions of probes without a run.
    baselines: Mutex<HashMap<Probe, u64>>,
}

impl Instructions {
    pub(super) fn figure(&self, options: &Options, probe: &Probe) -> Result<Value, String> {
        let alone = self.per_node(&Probe { threads: 1, ..probe.clone() })?;
        let mut counts = Vec::new();
        while counts.len() < options.rounds(3) && !agree(&counts) {
            counts.push(self.per_node(probe)?);
        }
        let counts = Spread::of(counts);
        Ok(json!({
            "contender": probe.row,
            "nodes": probe.nodes,
            "instructions": counts.median.round() as i64,
            "min": counts.min.round() as i64,
            "max": counts.max.round() as i64,
            "on_one_thread": alone.round() as i64,
        }))
    }

    /// Subtracts the count of a process that builds the same case and runs none of its nodes, so that the
    /// costs of starting and of building the graph cancel out.
    fn per_node(&self, probe: &Probe) -> Result<f64, String> {
        let (count, nodes) = count(probe)?;
        Ok((count as f64 - self.baseline(probe.without_run())? as f64) / nodes)
    }

    fn baseline(&self, probe: Probe) -> Result<u64, String> {
        let mut baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        match baselines.entry(probe) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(unknown) => {
                let (count, _) = count(unknown.key())?;
                Ok(*unknown.insert(count))
            }
        }
    }
}

/// Returns whether two counts are so close that a third is not needed.
fn agree(counts: &[f64]) -> bool {
    matches!(counts, [first, second] if (first - second).abs() < first * 0.01)
}

/// Returns the instructions of the probe's process, and its number of nodes.
fn count(probe: &Probe) -> Result<(u64, f64), String> {
    let output = output(probe, VALGRIND, &[])?;
    Ok((count_in(&output, refs)?, answer(&output)["nodes"].as_f64().expect("a number")))
}

/// Parses `==900== I   refs:      1,172,802,189`.
fn refs(line: &str) -> Option<u64> {
    let (head, count) = line.split_once("refs:")?;
    head.trim_end().ends_with('I').then_some(())?;
    count.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_the_summary() {
        assert_eq!(refs("==900== I   refs:      1,172,802,189"), Some(1_172_802_189));
        assert_eq!(refs("==900== D   refs:      1"), None);
    }
}
