//! How a run ends, and the hooks that report it.

use windlass_core::Phase;
use windlass_store::{RunEnd, RunOutcome};
use windlass_workflow::Command;

use super::super::End;
use super::RunState;
use super::context::Stop;
use crate::clock::millis;
use crate::size;

impl RunState {
    /// Returns how the run ends, if everything has ended and nothing has to follow.
    pub(in super::super) fn plain_end(&self) -> Option<End> {
        let busy =
            !self.steps.is_idle() || self.hooks.are_running() || self.steps.has_interrupted();
        let due = self.hooks.are_due() || self.steps.owes_finally();
        if busy || due || self.closing.is_some() || !self.run.schedule.engine().is_done() {
            return None;
        }
        let end = self.run.outcome();
        self.end_hook(end).is_none().then_some(end)
    }

    /// Queues the hook for the end of the run, once everything has ended. Returns whether that was
    /// done just now.
    pub(in super::super) fn begin_closing(&mut self) -> bool {
        let over = self.steps.is_idle() && self.run.schedule.engine().is_done();
        if !over || self.run.schedule.stays_open() || self.closing.is_some() {
            return false;
        }
        let end = self.run.outcome();
        self.closing = Some(end);
        let Some((name, command)) = self.end_hook(end) else { return true };
        let command = command.clone();
        let failed: Vec<_> = self.run.schedule.works_in(|phase| phase == Phase::Failed);
        let failed = size::fitting(
            failed.into_iter().map(|work| self.run.schedule.step(work).name.as_str()),
        );
        let outcome = stored(end).map_or("", RunOutcome::word);
        let about = [("WINDLASS_OUTCOME", outcome), ("WINDLASS_FAILED", failed.as_str())];
        self.hooks.call(&mut self.run, name, &command, &about);
        true
    }

    /// Goes on with a hook that an earlier scheduler has called. If everything else has ended, it is the
    /// one for the end of the run.
    pub(super) fn pick_up_hook(&mut self, call: u32) {
        self.hooks.pick_up(call);
        if self.run.schedule.engine().is_done() {
            self.closing = Some(self.run.outcome());
        }
    }

    /// Returns how the run ends, or pauses, once nothing runs any more.
    pub(in super::super) fn end(&self) -> Option<End> {
        if !self.steps.is_idle() || self.hooks.are_running() {
            return None;
        }
        if self.run.schedule.engine().is_done() {
            return self.closing;
        }
        self.run.stop.map(|stop| match stop {
            Stop::Signal(signal) => End::Interrupted { signal },
            Stop::Leave => End::Left,
        })
    }

    /// Returns an end as it is stored; none for a run that can be resumed.
    pub(in super::super) fn stored_end(&self, end: End) -> Option<RunEnd> {
        let at_ms = millis(self.run.schedule.now());
        stored(end).map(|outcome| RunEnd { at_ms, outcome })
    }

    /// Returns the hook for such an end, if there is one.
    fn end_hook(&self, end: End) -> Option<(&'static str, &Command)> {
        let hooks = &self.run.schedule.plan().hooks;
        match end {
            End::Succeeded => Some(("on.success", hooks.success.as_ref()?)),
            End::Failed | End::TooLate => Some(("on.failure", hooks.failure.as_ref()?)),
            End::Cancelled | End::Interrupted { .. } | End::Left => None,
        }
    }
}

fn stored(end: End) -> Option<RunOutcome> {
    match end {
        End::Succeeded => Some(RunOutcome::Succeeded),
        End::Failed => Some(RunOutcome::Failed),
        End::TooLate => Some(RunOutcome::TooLate),
        End::Cancelled => Some(RunOutcome::Cancelled),
        End::Interrupted { .. } | End::Left => None,
    }
}
