//! Attempts: random drivers begin, suspend, resume and end them.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::{
    Begun, Ending, Engine, Grant, Input, Outcome, Phase, Rejected, StopReason, WorkId, WorkState,
};

use super::RandomWorld;

impl RandomWorld {
    pub(super) fn take(&mut self, side: usize) {
        if self.random.one_in(3) {
            self.begin_all(side);
        }
        // A driver may ask `may_begin` first, instead of asking for a grant in vain.
        if self.random.one_in(2) && !self.may_begin(side) {
            self.verify_that_nothing_fits(side);
            self.sides[side].look = false;
            return;
        }
        while let Some(grant) = self.take_one(side) {
            if self.random.one_in(8) {
                self.verify_reasons_of(side, grant.work);
            }
            match self.random.within(0..10) {
                _ if self.has_resumed(side, grant) => {}
                0 => {
                    self.report.count("refused outside");
                    self.apply(side, Input::Refuse(grant));
                }
                1 => {
                    self.apply(side, Input::Cancel(grant.work));
                    self.try_apply(side, Input::Begin(grant)).expect_err("it was cancelled");
                    self.report.count("stale grant");
                }
                2 => {
                    self.report.count("handed back");
                    self.apply(side, Input::HandBack(grant));
                    return;
                }
                _ => self.begin(side, grant),
            }
        }
        self.verify_that_nothing_fits(side);
        assert!(!self.may_begin(side), "an engine that grants nothing may begin nothing");
        self.sides[side].look = false;
    }

    fn may_begin(&mut self, side: usize) -> bool {
        self.call(side, |engine, world| {
            engine.apply(world, Input::Tick).expect("time passes");
            engine.may_begin(world.capacity)
        })
    }

    /// Begins a few grants at once, like a driver that begins all it is granted.
    fn begin_all(&mut self, side: usize) {
        for _ in 0..self.random.within(0..4) {
            let Some(begun) = self.call(side, Engine::begin_next) else { return };
            self.log_step(format!("{side}: {begun:?}"));
            self.report.count("begun at once");
            let (Begun::Started(grant) | Begun::Resumed(grant)) = begun;
            self.verify_limits(side, grant.work);
            let known = self.sides[side].running.contains(&grant);
            assert_eq!(begun, if known { Begun::Resumed(grant) } else { Begun::Started(grant) });
            assert_eq!(self.phase(side, grant.work), Phase::Running);
            if !known {
                self.sides[side].running.push(grant);
            }
        }
    }

    pub(super) fn take_one(&mut self, side: usize) -> Option<Grant> {
        let may_begin = self.may_begin(side);
        let grant = self.call(side, Engine::take_next)?;
        assert!(may_begin, "{grant:?} was granted although nothing may begin");
        self.log_step(format!("{side}: granted {grant:?}"));
        self.verify_limits(side, grant.work);
        Some(grant)
    }

    /// Returns whether the grant resumes an attempt under way; otherwise it starts one.
    pub(super) fn has_resumed(&self, side: usize, grant: Grant) -> bool {
        let known = self.sides[side].running.contains(&grant);
        let phase = self.phase(side, grant.work);
        assert_eq!(phase, if known { Phase::Running } else { Phase::Granted });
        known
    }

    pub(super) fn begin(&mut self, side: usize, grant: Grant) {
        self.apply(side, Input::Begin(grant));
        self.sides[side].running.push(grant);
    }

    /// Suspends or resumes an attempt, returns from its body, or stops its children.
    pub(super) fn steer(&mut self, side: usize) {
        let Some((_, grant)) = self.any_attempt(side) else { return };
        let before = self.phase(side, grant.work);
        let input = match self.random.within(0..11) {
            10 if before == Phase::Halted => Input::Continue(grant),
            10 => Input::Halt(grant),
            _ if before == Phase::Halted && self.random.one_in(2) => Input::Continue(grant),
            0 => Input::StopChildren(grant.work),
            1 | 2 => Input::Join(grant),
            _ if before == Phase::Suspended => Input::ResumeRequested(grant),
            3 => Input::ResumeRequested(grant),
            _ => Input::Suspend(grant),
        };
        self.apply(side, input);
    }

    pub(super) fn finish(&mut self, side: usize) {
        self.apply(side, Input::Tick);
        let Some((place, grant)) = self.any_attempt(side) else { return };
        let delay = Duration::from_millis(self.random.within(0..2000));
        let outcome = match self.random.within(0..12) {
            0 | 1 => Outcome::Failed,
            2 | 3 => Outcome::Retry { delay },
            4 => Outcome::Interrupted,
            5 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        if self.sides[side].engine.children(grant.work).open() == 0 {
            return self.end(side, place, outcome);
        }
        let refused = self.refused(side, Input::Finished { grant, outcome });
        assert_eq!(refused, Rejected::ChildrenOpen { work: grant.work });
        self.report.count("rejected: children open");
    }

    pub(super) fn end(&mut self, side: usize, place: usize, outcome: Outcome) {
        self.apply(side, Input::Tick);
        let grant = self.sides[side].running.swap_remove(place);
        self.sides[side].past.push(grant);
        let expected = self.expected_end(side, grant, outcome);
        let engine = &self.sides[side].engine;
        let children = engine.descendants(grant.work);
        let announced = engine.ending(grant, outcome).expect("its children have ended");
        self.apply(side, Input::Finished { grant, outcome });
        assert_eq!(self.state(side, grant.work), expected, "the end of {grant:?}");
        if let Ending::Retry { due } = announced {
            assert_eq!(
                self.phase(side, grant.work),
                Phase::Delayed { due },
                "as `ending` has said"
            );
        }
        let engine = &self.sides[side].engine;
        let known = children.iter().filter(|child| engine.phase(**child).is_some()).count();
        let kept = if expected == WorkState::Pending { 0 } else { children.len() };
        assert_eq!(known, kept, "the next attempt has a family of its own");
    }

    /// Returns the state of a work after its attempt ends with `outcome`.
    fn expected_end(&self, side: usize, grant: Grant, outcome: Outcome) -> WorkState {
        let engine = &self.sides[side].engine;
        let failed_child = engine.children(grant.work).failed > 0;
        let budget = engine.retries_left(grant.work).is_some_and(|left| left > 0);
        let failure = if budget { WorkState::Pending } else { WorkState::Failed };
        match (self.phase(side, grant.work), outcome) {
            (Phase::Cancelling { why: StopReason::Cancel, .. }, _) => WorkState::Cancelled,
            (Phase::Cancelling { why: StopReason::Deadline, .. }, _) => WorkState::Failed,
            (Phase::Cancelling { .. }, _) | (_, Outcome::Retry { .. }) => failure,
            (_, Outcome::Success) if failed_child => failure,
            (_, Outcome::Success) => WorkState::Success,
            (_, Outcome::Cancelled) => WorkState::Cancelled,
            (_, Outcome::Interrupted) => WorkState::Pending,
            _ => WorkState::Failed,
        }
    }

    pub(super) fn cancel(&mut self, side: usize) {
        self.apply(side, Input::Tick);
        let Some(work) = self.any_work(side) else { return };
        let ended = self.state(side, work).is_terminal();
        let cancelled = self.try_apply(side, Input::Cancel(work));
        assert_eq!(cancelled.is_err(), ended, "what has not ended can be cancelled");
    }

    /// Pauses a work or everything, or lets it continue.
    pub(super) fn pause(&mut self, side: usize) {
        self.apply(side, Input::Tick);
        if self.sides[side].engine.all_paused_since().is_some() {
            return self.unpause_all(side);
        }
        if self.random.one_in(4) {
            self.apply(side, Input::PauseAll);
            return self.sides[side].clocks.pause(self.now);
        }
        let Some(work) = self.any_work(side) else { return };
        if self.sides[side].engine.is_paused(work) {
            return self.apply(side, Input::Unpause(work));
        }
        let ended = self.state(side, work).is_terminal();
        let paused = self.try_apply(side, Input::Pause(work));
        assert_eq!(paused.is_err(), ended, "what has not ended can be paused");
    }

    pub(super) fn unpause_all(&mut self, side: usize) {
        // What is due at the end of the pause is due then.
        self.sides[side].clocks.unpause(self.now);
        self.apply(side, Input::UnpauseAll);
    }

    pub(super) fn turn_gate(&mut self, side: usize) {
        self.apply(side, Input::Tick);
        let works = self.sides[side].engine.works();
        let waits = |phase| matches!(phase, Phase::Waiting | Phase::Gated);
        let closed: Vec<_> = works.filter(|&work| waits(self.phase(side, work))).collect();
        let any = if closed.is_empty() || self.random.one_in(8) {
            self.any_work(side)
        } else {
            Some(*self.random.pick(&closed))
        };
        let Some(work) = any else { return };
        let gated = self.phase(side, work) == Phase::Gated;
        let inputs = [Input::Reject(work), Input::Skip(work), Input::Open(work), Input::Open(work)];
        let input = *self.random.pick(&inputs);
        match self.try_apply(side, input) {
            Ok(()) => {}
            Err(Rejected::NotGated { .. }) if !gated => self.report.count("rejected: not gated"),
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn reopen(&mut self, side: usize) {
        self.apply(side, Input::Tick);
        let works = self.sides[side].engine.works();
        let bad = |state| matches!(state, WorkState::Failed | WorkState::Cancelled);
        let bad: Vec<_> = works.filter(|&work| bad(self.state(side, work))).collect();
        let any = if bad.is_empty() || self.random.one_in(8) {
            self.any_work(side)
        } else {
            Some(*self.random.pick(&bad))
        };
        let Some(work) = any else { return };
        let before = self.sides[side].engine.digest();
        match self.try_apply(side, Input::Reopen(work)) {
            Ok(()) => return self.verify_generation(side, work),
            Err(Rejected::NotReopenable { .. }) => self.report.count("rejected: not reopenable"),
            Err(Rejected::Entangled { .. }) => self.report.count("rejected: entangled"),
            Err(Rejected::Cycle { .. }) => self.report.count("rejected: cycle"),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(self.sides[side].engine.digest(), before, "what is rejected changes nothing");
    }

    /// Checks that a reopened work and its dependents have all their retries again, and have not ended
    /// unless another work blocks them.
    fn verify_generation(&mut self, side: usize, reopened: WorkId) {
        let mut found = BTreeSet::from([reopened]);
        let engine = &self.sides[side].engine;
        let works: Vec<_> = engine.works().collect();
        let follows = |work: WorkId, found: &BTreeSet<WorkId>| {
            engine.dependencies(work).any(|on| found.contains(&on.work))
        };
        while let Some(next) =
            works.iter().find(|work| !found.contains(*work) && follows(**work, &found))
        {
            found.insert(*next);
        }
        for &work in &found {
            self.sides[side].clocks.drop_deadline(work);
            self.sides[side].close_again(work);
            match self.phase(side, work) {
                // Another work blocks it.
                Phase::Blocked => continue,
                Phase::Skipped => {}
                phase => assert_eq!(phase.state(), WorkState::Pending, "work {work}"),
            }
            let left = self.sides[side].engine.retries_left(work);
            assert_eq!(left, self.sides[side].retries.get(&work).copied(), "work {work}");
        }
    }

    pub(super) fn forget(&mut self, side: usize) {
        for _ in 0..3 {
            let Some(work) = self.any_work(side) else { return };
            self.apply(side, Input::Tick);
            let ended = self.state(side, work).is_terminal();
            let forgotten = self.try_apply(side, Input::Forget(work));
            assert_eq!(forgotten.is_ok(), ended, "only ended works are forgotten");
        }
    }

    fn any_attempt(&mut self, side: usize) -> Option<(usize, Grant)> {
        let running = &self.sides[side].running;
        if running.is_empty() {
            return None;
        }
        let place = self.random.within(0..running.len() as u64) as usize;
        Some((place, running[place]))
    }
}
