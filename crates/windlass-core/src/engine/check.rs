//! The invariants of an engine, verified the slow way: from the works alone.

use std::collections::BTreeSet;

use super::Engine;
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
        self.check_edges();
        self.check_line();
        self.check_counters();
        self.check_capacity(capacity);
    }

    /// No work is past its dependencies; Blocked is exactly what follows from them.
    fn check_edges(&self) {
        for work in self.works() {
            let sources = || self.dag.sources(work.index()).map(|edge| self.works[edge.node].phase);
            let entry = &self.works[work.index()];
            let unmet = sources().filter(|phase| *phase != Phase::Success).count();
            assert_eq!(
                self.dag.unmet(work.index()) as usize,
                unmet,
                "work {work}: unmet dependencies"
            );
            let lost = sources().any(|phase| phase.state().is_failure());
            match entry.phase {
                Phase::Waiting => assert!(unmet > 0 && !lost, "work {work} waits for something"),
                Phase::Blocked => assert!(lost, "work {work} is blocked by something"),
                Phase::Cancelled => {}
                _ => assert_eq!(unmet, 0, "work {work} is past its dependencies"),
            }
            if entry.phase == Phase::Blocked {
                assert_eq!(entry.attempts, 0, "work {work} never ran");
            }
        }
    }

    fn check_line(&self) {
        let in_line: BTreeSet<_> = self.queue.works().map(|(_, work)| work).collect();
        let due: BTreeSet<_> = self.timers.iter().copied().collect();
        for work in self.works() {
            let phase = self.works[work.index()].phase;
            assert_eq!(in_line.contains(&work), phase == Phase::Ready, "work {work} in line");
            if let Phase::Delayed { due: at } = phase {
                assert!(due.contains(&(at, work)), "work {work} has a timer");
            }
        }
        let delayed = |phase: Phase| matches!(phase, Phase::Delayed { .. });
        let delayed = self.works.iter().filter(|entry| delayed(entry.phase)).count();
        assert_eq!(due.len(), delayed, "only delayed works have timers");
    }

    fn check_counters(&self) {
        for state in WorkState::ALL {
            let count = self.works.iter().filter(|entry| entry.phase.state() == state).count();
            assert_eq!(self.metrics.count(state), count, "works that are {state}");
        }
        let attempts: u64 = self.works.iter().map(|entry| u64::from(entry.attempts)).sum();
        assert_eq!(self.metrics.attempts, attempts, "attempts begun");
        let retries: u64 = self.works.iter().map(|entry| u64::from(entry.retries_left)).sum();
        assert_eq!(self.metrics.retries_left, retries, "retries left");
    }

    /// What we have in use is the sum over the works that hold something.
    fn check_capacity(&self, capacity: &CapacityTree) {
        let held = capacity.held(self.client);
        let mut sums = vec![0i128; held.len()];
        for entry in self.works.iter().filter(|entry| entry.phase.holds()) {
            for (resource, amount) in self.costs[entry.cost.index()].iter() {
                sums[resource.index()] += i128::from(amount.steps());
            }
        }
        assert_eq!(held, sums, "in use is the sum over the grants");
    }
}
