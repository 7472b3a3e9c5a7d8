//! How often each case occurred in random worlds.

use std::collections::BTreeMap;
use std::fmt;

/// Counters by name.
#[derive(Clone, Debug, Default)]
pub struct Report(BTreeMap<&'static str, u64>);

/// The cases that must occur at least once over the fixed seeds: a case that never occurs is not tested.
pub const EXPECTED: [&str; 73] = [
    "fact: submitted",
    "fact: edge added",
    "fact: started",
    "fact: succeeded",
    "fact: failed",
    "fact: retried",
    "fact: stopped",
    "fact: interrupted",
    "fact: cancel asked",
    "fact: limit set",
    "fact: forgotten",
    "fact: gate opened",
    "fact: gate skipped",
    "fact: gate rejected",
    "fact: suspended",
    "fact: wait over",
    "fact: resumed",
    "fact: joined",
    "fact: reopened",
    "phase: waiting",
    "phase: gated",
    "phase: ready",
    "phase: granted",
    "phase: ticketed",
    "phase: delayed",
    "phase: running",
    "phase: suspended",
    "phase: resuming",
    "phase: joining",
    "phase: out of time",
    "phase: past its deadline",
    "phase: cancelled while it waits",
    "phase: cancelling",
    "phase: ended",
    "end: success",
    "end: failed",
    "end: blocked",
    "end: cancelled",
    "end: skipped",
    "refused: limit",
    "refused: reserved",
    "refused: rate",
    "refused: quota",
    "refused outside",
    "begun at once",
    "handed back",
    "dependency refused: begun",
    "dependency refused: cycle",
    "passed over",
    "reserved",
    "take-over",
    "late input",
    "wake",
    "stale grant",
    "child of a child",
    "child after a sibling",
    "child after an outsider",
    "child refused: no parent",
    "child refused: cycle",
    "rejected: children open",
    "rejected: not gated",
    "rejected: not reopenable",
    "rejected: entangled",
    "explained: nothing",
    "explained: edges and gate",
    "explained: retry",
    "explained: outside",
    "explained: granted",
    "explained: shortage",
    "explained: place in queue",
    "explained: strict order",
    "explained: suspended",
    "explained: children",
];

impl Report {
    /// Adds one to a counter.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Adds `times` to a counter.
    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// Adds all counters of `other`.
    pub fn merge(&mut self, other: &Report) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    /// Returns the expected cases that have not occurred.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = |what: &&&str| self.0.get(**what).is_none_or(|times| *times == 0);
        EXPECTED.iter().filter(missing).copied().collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>9}  {what}"))
    }
}
