//! The inputs about attempts and gates: checked, then recorded as facts.

use std::time::Duration;

use super::Engine;
use super::state::{Children, Work};
use crate::fact::{Ending, Happening, World};
use crate::input::{Grant, Outcome, Rejected};
use crate::phase::{Phase, StopReason, WorkState};
use crate::{Random, WorkId};

impl Engine {
    pub(super) fn work(&self, work: WorkId) -> Result<&Work, Rejected> {
        self.state.get(work).ok_or(Rejected::UnknownWork { work })
    }

    /// Refuses an input about a grant that is no longer valid.
    pub(super) fn expect_granted(&self, grant: Grant) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        let entry = self.work(work)?;
        if entry.phase() != Phase::Granted || attempt != entry.attempts + 1 {
            return Err(Rejected::Stale { work, attempt });
        }
        Ok(())
    }

    /// Refuses an input about an attempt that is not under way.
    pub(super) fn expect_under_way(&self, grant: Grant) -> Result<&Work, Rejected> {
        let Grant { work, attempt } = grant;
        let entry = self.work(work)?;
        if entry.phase().state() != WorkState::Running || attempt != entry.attempts {
            return Err(Rejected::Stale { work, attempt });
        }
        Ok(entry)
    }

    pub(super) fn expect_gated(&self, work: WorkId) -> Result<(), Rejected> {
        self.work(work)?;
        if self.awaits_gate(work) { Ok(()) } else { Err(Rejected::NotGated { work }) }
    }

    /// Returns whether `work` has a gate that has not opened, and has not passed it.
    #[must_use]
    pub fn awaits_gate(&self, work: WorkId) -> bool {
        let waits = matches!(self.phase(work), Some(Phase::Waiting | Phase::Gated));
        waits && self.is_shut(work)
    }

    /// Releases what the attempt holds, or removes it from the queue to resume; changes nothing if
    /// it has neither.
    pub(super) fn suspend(&mut self, world: &mut World<'_>, grant: Grant) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        if matches!(self.expect_under_way(grant)?.phase(), Phase::Running | Phase::Resuming) {
            self.record(world, Happening::Suspended { work, attempt });
        }
        Ok(())
    }

    /// Queues the attempt to resume; changes nothing if it does not wait.
    pub(super) fn request_resume(
        &mut self,
        world: &mut World<'_>,
        grant: Grant,
    ) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        if self.expect_under_way(grant)?.phase() == Phase::Suspended {
            self.record(world, Happening::WaitOver { work, attempt });
        }
        Ok(())
    }

    /// Records that the body has returned; changes nothing if the attempt was asked to stop.
    pub(super) fn join(&mut self, world: &mut World<'_>, grant: Grant) -> Result<(), Rejected> {
        let Grant { work, attempt } = grant;
        let phase = self.expect_under_way(grant)?.phase();
        if !matches!(phase, Phase::Joining | Phase::Cancelling { .. }) {
            self.record(world, Happening::Joined { work, attempt });
        }
        Ok(())
    }

    /// Returns how the attempt would end if its runner reported this outcome now.
    pub fn ending(&self, grant: Grant, outcome: Outcome) -> Result<Ending, Rejected> {
        let entry = self.expect_under_way(grant)?;
        let is_parent = entry.is_related();
        let children = if is_parent { self.children(grant.work) } else { Children::default() };
        if children.open() > 0 {
            return Err(Rejected::ChildrenOpen { work: grant.work });
        }
        let again = Outcome::Retry { delay: Duration::ZERO };
        let outcome = match (entry.phase(), outcome) {
            (Phase::Cancelling { why: StopReason::Cancel, .. }, _) => Outcome::Cancelled,
            (Phase::Cancelling { why: StopReason::Deadline, .. }, _) => Outcome::Failed,
            (Phase::Cancelling { why: StopReason::Timeout, .. }, _) => again,
            (_, Outcome::Success) if children.failed > 0 => again,
            (_, outcome) => outcome,
        };
        Ok(match outcome {
            Outcome::Success => Ending::Success,
            Outcome::Failed => Ending::Failed,
            Outcome::Cancelled => Ending::Cancelled,
            Outcome::Interrupted => Ending::Interrupted,
            Outcome::Retry { .. } if entry.retries_left == 0 => Ending::Failed,
            Outcome::Retry { delay } => self.retry(grant.work, delay),
        })
    }

    /// Schedules the next attempt after `asked` or, if that is zero, after the delay of the policy.
    fn retry(&self, work: WorkId, asked: Duration) -> Ending {
        let retries = self.state.retries();
        let delay = match retries.policy(work) {
            _ if !asked.is_zero() => asked,
            None => self.config.retry_delay,
            Some(policy) => {
                let retry = retries.spent(work).saturating_add(1);
                // The jitter of a retry depends only on its work and its number.
                let place = work.get().rotate_left(32) ^ u64::from(retry);
                policy.delay(retry, &mut Random::new(self.config.seed ^ place))
            }
        };
        Ending::Retry { due: self.state.now().after(delay) }
    }

    /// Ends an attempt; returns what became of it. [`Input::Finished`](crate::Input::Finished) does the
    /// same.
    pub fn end(
        &mut self,
        world: &mut World<'_>,
        grant: Grant,
        outcome: Outcome,
    ) -> Result<Ending, Rejected> {
        self.advance(world);
        let ending = self.ending(grant, outcome)?;
        self.end_as(world, grant, ending);
        Ok(ending)
    }

    /// Ends an attempt as [`Engine::ending`] has just foreseen it.
    ///
    /// # Panics
    ///
    /// If something has happened in between that allows no such end.
    pub fn end_as(&mut self, world: &mut World<'_>, grant: Grant, ending: Ending) {
        let Grant { work, attempt } = grant;
        self.record(world, Happening::Ended { work, attempt, ending });
    }

    pub(super) fn cancel(&mut self, world: &mut World<'_>, work: WorkId) -> Result<(), Rejected> {
        if !self.work(work)?.is_open() {
            return Err(Rejected::Ended { work });
        }
        self.cancel_if_open(world, work);
        Ok(())
    }

    /// Cancels every work that has not ended: dependents before their dependencies, so that none is
    /// blocked by another.
    pub(super) fn cancel_all(&mut self, world: &mut World<'_>) {
        let mut open: Vec<_> = self.works().filter(|work| self.state.is_open(*work)).collect();
        open.sort_by_key(|work| std::cmp::Reverse(self.state.dag().place(work.index())));
        for work in open {
            // A cancelled parent ends its children, and a child may end its siblings.
            self.cancel_if_open(world, work);
        }
    }

    pub(super) fn stop_children(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
    ) -> Result<(), Rejected> {
        self.work(work)?;
        for child in self.state.families().children(work).rev().collect::<Vec<_>>() {
            self.cancel_if_open(world, child);
        }
        Ok(())
    }

    fn cancel_if_open(&mut self, world: &mut World<'_>, work: WorkId) {
        if self.state.is_open(work) && !self.state.is_stopping(work, StopReason::Cancel) {
            self.record(world, Happening::CancelAsked { work });
        }
    }
}
