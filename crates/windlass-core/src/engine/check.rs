//! Verifies the invariants of an engine by recomputing them from its works. For tests and
//! simulation: takes time linear in the number of works.

use std::collections::BTreeSet;

use super::Engine;
use super::state::Work;
use crate::WorkId;
use crate::capacity::CapacityTree;
use crate::dag::EdgeOutcome;
use crate::phase::{Phase, StopReason, WorkState};

impl Engine {
    /// Verifies that everything derived from the works' phases agrees with them.
    ///
    /// # Panics
    ///
    /// Panics if it does not: a bug in the engine.
    pub fn check(&self, capacity: &CapacityTree) {
        capacity.check();
        assert_eq!(self.state.dag().len(), self.state.next_work().index(), "every work is a node");
        self.state.works().for_each(|(work, entry)| self.check_edges(work, entry));
        self.check_pauses();
        self.check_queue();
        self.check_families();
        self.check_counters();
        self.check_capacity(capacity);
    }

    /// No work is past its dependencies, and exactly those are Blocked or Skipped whose
    /// dependencies require it. A forgotten source had ended, and its edges were resolved.
    fn check_edges(&self, work: WorkId, entry: &Work) {
        let outcome: Vec<_> = self.state.edge_outcomes(work).collect();
        let open = outcome.iter().filter(|outcome| outcome.is_none()).count();
        let blocks = outcome.contains(&Some(EdgeOutcome::Blocks));
        match entry.phase() {
            Phase::Waiting => {
                assert!(!blocks, "work {work} waits for what can still happen");
                let unmet = self.state.dag().unmet(work.index()) as usize;
                assert!(open > 0 && open == unmet, "work {work} waits for {open}, counts {unmet}");
            }
            Phase::Blocked => assert!(blocks, "work {work} is blocked without a cause"),
            // These may have ended before their dependencies.
            Phase::Cancelled | Phase::Failed => {}
            Phase::Skipped => assert!(!blocks && open == 0 && entry.unneeded, "work {work}"),
            _ => assert!(!blocks && open == 0 && !entry.unneeded, "work {work} is past its edges"),
        }
        let passed = !matches!(entry.phase().state(), WorkState::Pending) && entry.attempts > 0;
        let ran = matches!(entry.phase(), Phase::Success) || passed && entry.phase().holds();
        assert!(!(ran && entry.is_shut()), "work {work} ran behind a closed gate");
    }

    /// No work is queued that is paused, and no work is kept from the queue without a pause.
    fn check_pauses(&self) {
        for (work, entry) in self.state.works() {
            let held_back = self.is_paused(work) || self.all_paused_since().is_some();
            match entry.phase() {
                Phase::Paused => assert!(held_back, "work {work} is kept back by nothing"),
                phase => assert!(
                    !(held_back && phase.journaled() == Phase::Ready),
                    "work {work} is paused"
                ),
            }
        }
    }

    fn check_queue(&self) {
        let queued: BTreeSet<_> =
            self.admission.queues().iter().map(|waiting| waiting.work).collect();
        assert_eq!(queued.len(), self.admission.queues().len(), "no work is queued twice");
        let mut due = BTreeSet::new();
        for (work, entry) in self.state.works() {
            assert_eq!(queued.contains(&work), entry.phase().is_queued(), "work {work} in queue");
            due.extend(self.state.dues(work).map(|at| (at, work)));
        }
        let timers: BTreeSet<_> = self.state.clock().timers().copied().collect();
        assert_eq!(timers, due, "there are timers for what is due, and only for that");
        if let Some(reserved_for) = self.admission.reserved_for() {
            assert!(queued.contains(&reserved_for), "a reservation is for a queued work");
        }
    }

    /// No work ends before its children, and the counts of children are right.
    fn check_families(&self) {
        for (work, entry) in self.state.works().filter(|(_, entry)| entry.is_related()) {
            let counts = self.children(work);
            let known: Vec<_> = self.state.families().children(work).collect();
            let open = known.iter().filter(|child| self.state.is_open(**child)).count();
            assert_eq!(counts.open(), open, "children of work {work} that have not ended");
            assert!(known.iter().all(|child| self.parent(*child) == Some(work)), "one parent");
            let under_way = entry.phase().state() == WorkState::Running;
            assert!(open == 0 || under_way, "work {work} ends after its children");
            let stops = counts.failed > 0 || matches!(entry.phase(), Phase::Cancelling { .. });
            let continues = |child: &WorkId| {
                self.state.is_open(*child) && !self.state.is_stopping(*child, StopReason::Cancel)
            };
            assert!(!(stops && known.iter().any(continues)), "the family of work {work} stops");
        }
    }

    fn check_counters(&self) {
        for state in WorkState::ALL {
            let entries = self.state.works().filter(|(_, entry)| entry.phase().state() == state);
            assert_eq!(self.state.counts().count(state), entries.count(), "works that are {state}");
        }
        let open = self.state.works().filter(|(_, work)| work.is_open());
        let retries: u64 = open.map(|(_, work)| u64::from(work.retries_left)).sum();
        assert_eq!(self.state.counts().retries_left, retries, "retries left");
    }

    /// What the engine's client has in use is the sum over the works that hold their cost.
    fn check_capacity(&self, capacity: &CapacityTree) {
        let held = capacity.held(self.client());
        let mut sums = vec![0i128; held.len()];
        for (_, entry) in self.state.works().filter(|(_, entry)| entry.phase().holds()) {
            for (resource, amount) in self.admission.demand(entry.cost).iter() {
                sums[resource.index()] += i128::from(amount.steps());
            }
        }
        assert_eq!(held, sums, "in use is the sum over the grants");
    }
}
