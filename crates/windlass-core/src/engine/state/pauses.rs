//! What users have paused: single works, or everything.
//!
//! A paused work that would be queued is in [`Phase::Paused`] instead. While everything is paused, the
//! deadlines of works stand still.

use std::collections::BTreeSet;
use std::time::Duration;

use super::State;
use crate::base::PausesBase;
use crate::engine::effects::Effects;
use crate::phase::{Phase, Step};
use crate::{Timestamp, WorkId};

/// The pauses.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Pauses {
    /// The works that were paused by themselves.
    works: BTreeSet<WorkId>,
    /// Since when everything has been paused, if it is.
    since: Option<Timestamp>,
    /// How long everything was paused before.
    before: Duration,
}

impl Pauses {
    /// Returns whether a work was paused by itself.
    pub(in crate::engine) fn has(&self, work: WorkId) -> bool {
        self.works.contains(&work)
    }

    /// Returns since when everything has been paused, if it is.
    pub(in crate::engine) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns for how long everything was paused, in all pauses that are over.
    pub(super) fn before(&self) -> Duration {
        self.before
    }

    /// Returns for how long everything was paused until `at`, in all pauses together.
    pub(in crate::engine) fn total(&self, at: Timestamp) -> Duration {
        self.before.saturating_add(self.since.map_or(Duration::ZERO, |since| at.since(since)))
    }

    /// Iterates over the works that were paused by themselves.
    pub(in crate::engine) fn works(&self) -> impl Iterator<Item = WorkId> {
        self.works.iter().copied()
    }

    /// Returns whether a work may not be queued.
    #[inline]
    pub(super) fn hold_back(&self, work: WorkId) -> bool {
        self.since.is_some() || !self.works.is_empty() && self.works.contains(&work)
    }

    /// Returns the pauses for a base.
    pub(super) fn base(&self) -> PausesBase {
        let Self { works, since, before } = self;
        PausesBase { works: works.iter().copied().collect(), since: *since, before: *before }
    }

    /// Returns the pauses of a base.
    pub(super) fn restored(base: &PausesBase) -> Self {
        let PausesBase { works, since, before } = base;
        Self { works: works.iter().copied().collect(), since: *since, before: *before }
    }

    /// Forgets that a work was paused.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.works.remove(&work);
    }
}

impl State {
    pub(super) fn pause_work(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        self.pauses.works.insert(work);
        self.leave_queue(effects, work);
    }

    pub(super) fn unpause_work(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        self.pauses.forget(work);
        self.queue_again(effects, work);
    }

    pub(super) fn pause_all(&mut self, effects: &mut Effects<'_, '_>) {
        self.pauses.since = Some(self.now);
        for (deadline, work) in self.clock.stop_deadlines(self.now) {
            self.disarm(deadline, work);
        }
        for work in self.works_in(|phase| phase.journaled() == Phase::Ready) {
            self.leave_queue(effects, work);
        }
    }

    pub(super) fn unpause_all(&mut self, effects: &mut Effects<'_, '_>) {
        self.pauses.before = self.pauses.total(self.now);
        self.pauses.since = None;
        for (deadline, work) in self.clock.start_deadlines(self.now) {
            if self.is_open(work) {
                self.clock.arm(deadline, work);
            }
        }
        for work in self.works_in(|phase| phase == Phase::Paused) {
            self.queue_again(effects, work);
        }
        // A deadline that had passed when its work was submitted is missed now.
        self.advance(effects, self.now);
    }

    fn leave_queue(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        if self.work(work).phase().journaled() == Phase::Ready {
            self.step(effects, work, Step::Pause);
        }
    }

    fn queue_again(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        if self.work(work).phase() == Phase::Paused && !self.pauses.hold_back(work) {
            self.step(effects, work, Step::Unpause);
        }
    }

    fn works_in(&self, fits: impl Fn(Phase) -> bool) -> Vec<WorkId> {
        self.works().filter(|(_, entry)| fits(entry.phase())).map(|(work, _)| work).collect()
    }
}
