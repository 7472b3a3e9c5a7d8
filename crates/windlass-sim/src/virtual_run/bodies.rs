//! The bodies of attempts under way, and what each does next.

use std::collections::BTreeMap;

use windlass_core::{Grant, Timestamp};

use crate::scenario::Wait;

/// What a body does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Suspend(Wait),
    ResumeRequested,
    Return,
}

#[derive(Default)]
pub(super) struct Bodies {
    /// By time; in the order in which they were planned within one instant.
    plans: BTreeMap<(Timestamp, usize), (Grant, Next)>,
    planned: usize,
    /// Those that want to go on and wait for their turn.
    resuming: Vec<Grant>,
    /// Those that have returned or were dropped, and whose attempts have not ended.
    pub(super) returned: Vec<Grant>,
}

impl Bodies {
    pub(super) fn plan(&mut self, at: Timestamp, grant: Grant, next: Next) {
        self.plans.insert((at, self.planned), (grant, next));
        self.planned += 1;
    }

    pub(super) fn next_time(&self) -> Option<Timestamp> {
        self.plans.keys().next().map(|&(at, _)| at)
    }

    /// Who does something by now.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<(Grant, Next)> {
        let first = self.plans.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    pub(super) fn wait_for_turn(&mut self, grant: Grant) {
        self.resuming.push(grant);
    }

    /// The turn of this one has come; whether it was waiting for that.
    pub(super) fn resume(&mut self, grant: Grant) -> bool {
        let before = self.resuming.len();
        self.resuming.retain(|waiting| *waiting != grant);
        self.resuming.len() < before
    }

    /// Everybody who has not returned.
    pub(super) fn all(&self) -> Vec<Grant> {
        let planned = self.plans.values().map(|(grant, _)| *grant);
        planned.chain(self.resuming.iter().copied()).collect()
    }

    /// Whether it is suspended or waits for its turn.
    pub(super) fn waits(&self, grant: Grant) -> bool {
        let suspended = |(planned, next): &(Grant, Next)| {
            *planned == grant && matches!(next, Next::ResumeRequested)
        };
        self.resuming.contains(&grant) || self.plans.values().any(suspended)
    }

    pub(super) fn remove(&mut self, grant: Grant) {
        self.plans.retain(|_, (planned, _)| *planned != grant);
        self.resuming.retain(|waiting| *waiting != grant);
    }

    /// What changes with everything that a body does.
    pub(super) fn steps(&self) -> usize {
        self.planned + self.plans.len() + self.returned.len()
    }
}
