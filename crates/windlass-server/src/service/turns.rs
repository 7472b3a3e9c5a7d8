//! Whose turn it is to start a step: that of the run with the greatest priority, and among equals that of the
//! run which has started one least recently.
//!
//! Knows nothing of capacity: a run that has its turn may find no room.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The turns of the runs of a scheduler.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The turn of each run.
    of: BTreeMap<String, Turn>,
    /// The runs that want to start steps, in the order of their turns.
    wanted: BTreeMap<Turn, String>,
    last: u64,
}

type Turn = (Reverse<i16>, u64);

impl Turns {
    /// Adds a run, whose turn comes after those of the runs that are as urgent.
    pub(super) fn add(&mut self, run: &str, priority: i16) {
        self.last += 1;
        self.of.insert(run.to_owned(), (Reverse(priority), self.last));
    }

    pub(super) fn remove(&mut self, run: &str) {
        if let Some(turn) = self.of.remove(run) {
            self.wanted.remove(&turn);
        }
    }

    /// Notes that a run wants to start steps.
    pub(super) fn want(&mut self, run: &str) {
        if let Some(turn) = self.of.get(run) {
            self.wanted.insert(*turn, run.to_owned());
        }
    }

    /// Takes the run whose turn it is, which then wants nothing more.
    pub(super) fn next(&mut self) -> Option<String> {
        self.wanted.pop_first().map(|(_, run)| run)
    }

    /// Puts a run behind those that are as urgent, and notes that it wants to start more.
    pub(super) fn took(&mut self, run: &str) {
        if let Some((priority, _)) = self.of.get(run).copied() {
            self.remove(run);
            self.add(run, priority.0);
            self.want(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_take_turns_and_an_urgent_one_comes_first() {
        let mut turns = Turns::default();
        for (run, priority) in [("a", 0), ("b", 0), ("c", 0), ("urgent", 1), ("idle", 9)] {
            turns.add(run, priority);
        }
        ["c", "a", "b", "urgent"].into_iter().for_each(|run| turns.want(run));
        let mut taken = Vec::new();
        // Each finds room for two steps.
        while let Some(run) = turns.next() {
            if taken.iter().filter(|other| **other == run).count() < 2 {
                turns.took(&run);
                taken.push(run);
            }
        }
        assert_eq!(taken, ["urgent", "urgent", "a", "b", "c", "a", "b", "c"]);
        turns.want("b");
        turns.remove("b");
        assert_eq!(turns.next(), None, "a run that is gone wants nothing");
    }
}
