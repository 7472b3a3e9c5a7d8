//! The inputs by which users pause works, and let them continue: checked, then recorded as facts.

use std::time::Duration;

use super::Engine;
use crate::fact::{Happening, World};
use crate::input::{Grant, Rejected};
use crate::phase::Phase;
use crate::{Timestamp, WorkId};

impl Engine {
    /// Pauses a work that has not ended; changes nothing if it is paused.
    pub(super) fn pause(&mut self, world: &mut World<'_>, work: WorkId) -> Result<(), Rejected> {
        if !self.work(work)?.is_open() {
            return Err(Rejected::Ended { work });
        }
        if !self.is_paused(work) {
            self.record(world, Happening::WorkPaused { work });
        }
        Ok(())
    }

    /// Lets a work continue; changes nothing if it is not paused.
    pub(super) fn unpause(&mut self, world: &mut World<'_>, work: WorkId) -> Result<(), Rejected> {
        self.work(work)?;
        if self.is_paused(work) {
            self.record(world, Happening::WorkUnpaused { work });
        }
        Ok(())
    }

    /// Stops an attempt that runs; changes nothing if it does not.
    pub(super) fn halt(&mut self, world: &mut World<'_>, grant: Grant) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        if self.expect_under_way(grant)?.phase() == Phase::Running {
            self.record(world, Happening::Halted { work, attempt });
        }
        Ok(())
    }

    /// Lets an attempt continue; changes nothing if it was not stopped.
    pub(super) fn continue_halted(
        &mut self,
        world: &mut World<'_>,
        grant: Grant,
    ) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        if self.expect_under_way(grant)?.phase() == Phase::Halted {
            self.record(world, Happening::Continued { work, attempt });
        }
        Ok(())
    }

    pub(super) fn pause_all(&mut self, world: &mut World<'_>) {
        if self.all_paused_since().is_none() {
            self.record(world, Happening::Paused);
        }
    }

    pub(super) fn unpause_all(&mut self, world: &mut World<'_>) {
        if self.all_paused_since().is_some() {
            self.record(world, Happening::Unpaused);
        }
    }

    /// Returns whether a user has paused this work, by itself.
    #[must_use]
    pub fn is_paused(&self, work: WorkId) -> bool {
        self.state.pauses().has(work)
    }

    /// Iterates over the works that a user has paused by themselves.
    pub fn paused(&self) -> impl Iterator<Item = WorkId> {
        self.state.pauses().works()
    }

    /// Returns since when everything has been paused, if it is.
    #[must_use]
    pub fn all_paused_since(&self) -> Option<Timestamp> {
        self.state.pauses().since()
    }

    /// Returns for how long everything was paused until `at`, in all pauses together.
    #[must_use]
    pub fn all_paused_for(&self, at: Timestamp) -> Duration {
        self.state.pauses().total(at)
    }
}
