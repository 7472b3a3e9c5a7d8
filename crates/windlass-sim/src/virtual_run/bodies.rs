//! The bodies of the attempts under way, and the next step of each.

use std::collections::BTreeMap;

use windlass_core::{Grant, Timestamp};

use crate::scenario::Wait;

/// The next step of a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Suspend(Wait),
    ResumeRequested,
    Return,
}

#[derive(Default)]
pub(super) struct Bodies {
    /// By time, and within one instant in the order of planning.
    plans: BTreeMap<(Timestamp, usize), (Grant, Next)>,
    planned: usize,
    /// The suspended attempts that have asked to resume.
    resuming: Vec<Grant>,
    /// The attempts that have not ended although their bodies have returned or were dropped.
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

    /// Takes the next step that is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<(Grant, Next)> {
        let first = self.plans.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    pub(super) fn wait_for_turn(&mut self, grant: Grant) {
        self.resuming.push(grant);
    }

    /// Resumes an attempt. Returns whether it had asked for that.
    pub(super) fn resume(&mut self, grant: Grant) -> bool {
        let before = self.resuming.len();
        self.resuming.retain(|waiting| *waiting != grant);
        self.resuming.len() < before
    }

    /// Returns the attempts whose bodies have not returned.
    pub(super) fn all(&self) -> Vec<Grant> {
        let planned = self.plans.values().map(|(grant, _)| *grant);
        planned.chain(self.resuming.iter().copied()).collect()
    }

    /// Returns whether an attempt is suspended or waits to resume.
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

    /// Returns a counter that changes with every step of a body.
    pub(super) fn steps(&self) -> usize {
        self.planned + self.plans.len() + self.returned.len()
    }
}
