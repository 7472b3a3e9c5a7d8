//! The invariants of an engine, verified the slow way: from the works alone.

use std::collections::BTreeSet;

use super::edges::{Verdict, verdict};
use super::{Engine, Work};
use crate::WorkId;
use crate::capacity::CapacityTree;
use crate::phase::{Phase, WorkState};

impl Engine {
    /// Verifies that everything kept in step with the works' phases agrees with them.
    ///
    /// # Panics
    ///
    /// If it does not: a bug in the engine.
    pub fn check(&self, capacity: &CapacityTree) {
        capacity.check();
        assert_eq!(self.dag.len(), self.works.len(), "every work is a node");
        self.works.iter().for_each(|(index, entry)| self.check_edges(index, entry));
        self.check_line();
        self.check_counters();
        self.check_capacity(capacity);
    }

    /// No work is past its dependencies; Blocked and Skipped are exactly what follows from them. A
    /// forgotten source had ended, and what it said was heard.
    fn check_edges(&self, index: usize, entry: &Work) {
        let sources = self.dag.sources(index).filter_map(|edge| {
            let source = self.works.get(edge.node)?;
            Some(verdict(edge.kind, source.phase))
        });
        let said: Vec<_> = sources.collect();
        let open = said.iter().filter(|said| said.is_none()).count();
        let blocks = said.contains(&Some(Verdict::Blocks));
        let work = WorkId::from_index(index);
        match entry.phase {
            Phase::Waiting => {
                assert!(!blocks, "work {work} waits for what can still happen");
                let unmet = self.dag.unmet(index) as usize;
                assert!(open > 0 && open == unmet, "work {work} waits for {open}, counts {unmet}");
            }
            Phase::Blocked => assert!(blocks || self.has_forgotten_source(index), "work {work}"),
            Phase::Cancelled => {}
            Phase::Skipped => assert!(!blocks && open == 0 && entry.unneeded, "work {work}"),
            _ => assert!(!blocks && open == 0 && !entry.unneeded, "work {work} is past its edges"),
        }
        if matches!(entry.phase, Phase::Waiting | Phase::Blocked | Phase::Skipped) {
            assert_eq!(entry.attempts, 0, "work {work} never ran");
        }
    }

    fn has_forgotten_source(&self, index: usize) -> bool {
        self.dag.sources(index).any(|edge| self.works.get(edge.node).is_none())
    }

    fn check_line(&self) {
        let in_line: BTreeSet<_> = self.queue.iter().map(|waiting| waiting.work).collect();
        assert_eq!(in_line.len(), self.queue.len(), "nobody stands in line twice");
        let mut delayed = BTreeSet::new();
        for (index, entry) in self.works.iter() {
            let work = WorkId::from_index(index);
            let ready = entry.phase == Phase::Ready;
            assert_eq!(in_line.contains(&work), ready, "work {work} in line");
            if let Phase::Delayed { due } = entry.phase {
                delayed.insert((due, work));
            }
        }
        assert_eq!(self.timers, delayed, "delayed works have timers, and only they");
        if let Some(standing) = self.standing {
            assert!(in_line.contains(&standing), "what is set aside is for one in line");
        }
    }

    fn check_counters(&self) {
        for state in WorkState::ALL {
            let entries = self.works.iter().filter(|(_, entry)| entry.phase.state() == state);
            assert_eq!(self.metrics.count(state), entries.count(), "works that are {state}");
        }
        let retries: u64 = self.works.iter().map(|(_, work)| u64::from(work.retries_left)).sum();
        assert_eq!(self.metrics.retries_left, retries, "retries left");
    }

    /// What we have in use is the sum over the works that hold something.
    fn check_capacity(&self, capacity: &CapacityTree) {
        let held = capacity.held(self.client);
        let mut sums = vec![0i128; held.len()];
        for (_, entry) in self.works.iter().filter(|(_, entry)| entry.phase.holds()) {
            for (resource, amount) in self.costs[entry.cost.index()].iter() {
                sums[resource.index()] += i128::from(amount.steps());
            }
        }
        assert_eq!(held, sums, "in use is the sum over the grants");
    }
}
