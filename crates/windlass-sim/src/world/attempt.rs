//! The course of attempts, as random drivers steer it.

use std::time::Duration;

use windlass_core::{Engine, Grant, Input, Outcome};

use super::RandomWorld;

impl RandomWorld {
    pub(super) fn take(&mut self, side: usize) {
        while let Some(grant) = self.take_one(side) {
            match self.random.within(0..10) {
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
        self.sides[side].look = false;
    }

    pub(super) fn take_one(&mut self, side: usize) -> Option<Grant> {
        let grant = self.call(side, Engine::take_next)?;
        self.tell(format!("{side}: granted {grant:?}"));
        self.verify_limits(side, grant.work);
        Some(grant)
    }

    pub(super) fn begin(&mut self, side: usize, grant: Grant) {
        self.apply(side, Input::Begin(grant));
        self.sides[side].running.push(grant);
    }

    pub(super) fn finish(&mut self, side: usize) {
        if self.sides[side].running.is_empty() {
            return;
        }
        let place = self.random.within(0..self.sides[side].running.len() as u64) as usize;
        let delay = Duration::from_millis(self.random.within(0..2000));
        let outcome = match self.random.within(0..12) {
            0 | 1 => Outcome::Failed,
            2 | 3 => Outcome::Retry { delay },
            4 => Outcome::Interrupted,
            5 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        self.end(side, place, outcome);
    }

    pub(super) fn end(&mut self, side: usize, place: usize, outcome: Outcome) {
        let grant = self.sides[side].running.swap_remove(place);
        self.sides[side].past.push(grant);
        self.apply(side, Input::Finished { grant, outcome });
    }

    pub(super) fn cancel(&mut self, side: usize) {
        if let Some(work) = self.any_work(side) {
            // It may have ended already.
            let _ = self.try_apply(side, Input::Cancel(work));
        }
    }

    pub(super) fn forget(&mut self, side: usize) {
        for _ in 0..3 {
            let Some(work) = self.any_work(side) else { return };
            let ended = self.state(side, work).is_terminal();
            let forgotten = self.try_apply(side, Input::Forget(work));
            assert_eq!(forgotten.is_ok(), ended, "only ended works are forgotten");
        }
    }
}
