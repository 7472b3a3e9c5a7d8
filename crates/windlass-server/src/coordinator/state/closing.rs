//! How a run ends, and the hooks that report it.

use windlass_core::Phase;
use windlass_store::{RunEnd, RunOutcome};
use windlass_workflow::Command;

use super::super::End;
use super::super::attempts::{OrderId, StopMode};
use super::super::observer::Notice;
use super::orders::hook_log;
use super::step_ends::joined;
use super::{RunState, Stop};
use crate::clock::millis;
use crate::ended::Ended;
use crate::size;

impl RunState {
    /// Returns how the run ends, if everything has ended and nothing has to follow.
    pub(in super::super) fn plain_end(&self) -> Option<End> {
        let busy =
            !self.steps.is_idle() || self.hooks.are_running() || self.steps.has_interrupted();
        let due = self.hooks.are_due() || self.steps.owes_finally();
        if busy || due || self.end.closing.is_some() || !self.schedule.engine().is_done() {
            return None;
        }
        let end = self.outcome();
        self.end_hook(end).is_none().then_some(end)
    }

    /// Queues the hook for the end of the run, once everything has ended. Returns whether that was
    /// done just now.
    pub(in super::super) fn begin_closing(&mut self) -> bool {
        let over = self.steps.is_idle() && self.schedule.engine().is_done();
        if !over || self.end.closing.is_some() {
            return false;
        }
        let end = self.outcome();
        self.end.closing = Some(end);
        let Some((name, command)) = self.end_hook(end) else { return true };
        let command = command.clone();
        let failed: Vec<_> = self.schedule.works_in(|phase| phase == Phase::Failed);
        let failed =
            size::fitting(failed.into_iter().map(|work| self.schedule.step(work).name.as_str()));
        let outcome = stored(end).map_or("", RunOutcome::word);
        let about = [("WINDLASS_OUTCOME", outcome), ("WINDLASS_FAILED", failed.as_str())];
        self.call_hook(name, &command, &about);
        true
    }

    /// Returns how the run ends, or pauses, once nothing runs any more.
    pub(in super::super) fn end(&self) -> Option<End> {
        if !self.steps.is_idle() || self.hooks.are_running() {
            return None;
        }
        if self.schedule.engine().is_done() {
            return self.end.closing;
        }
        self.end.stop.map(|stop| match stop {
            Stop::Signal(signal) => End::Interrupted { signal },
            Stop::Leave => End::Left,
        })
    }

    /// Returns an end as it is stored; none for a run that can be resumed.
    pub(in super::super) fn stored_end(&self, end: End) -> Option<RunEnd> {
        let at_ms = millis(self.schedule.now());
        stored(end).map(|outcome| RunEnd { at_ms, outcome })
    }

    /// Has a hook start after the next commit.
    pub(super) fn call_hook(
        &mut self,
        name: &'static str,
        command: &Command,
        about: &[(&str, &str)],
    ) {
        match self.identity.resolve(&self.schedule, |all| all.hook(command, about)) {
            Ok(command) => self.hooks.queue(name, command),
            Err(unresolved) => self.observer.notice(Notice::Run(format!("{name}: {unresolved}"))),
        }
    }

    pub(super) fn stop_hooks(&mut self, mode: StopMode) {
        let stops = self.hooks.running().map(|hook| (OrderId::Hook(hook), mode));
        self.effects.stops.extend(stops);
    }

    /// Tells the user of a hook that has not succeeded.
    pub(super) fn on_hook(&mut self, hook: u32, ended: &Ended) {
        let Some(name) = self.hooks.end(hook) else { return };
        if let Some(why) = joined([ended.why(), ended.note()]) {
            let log = hook_log(&self.identity, name);
            let what = format!("{name}: {why}; its output: {}", log.display());
            self.observer.notice(Notice::Run(what));
        }
    }

    fn outcome(&self) -> End {
        match self.schedule.outcome() {
            RunOutcome::Succeeded => End::Succeeded,
            RunOutcome::TooLate => End::TooLate,
            RunOutcome::Failed if !self.end.cancelled => End::Failed,
            _ => End::Cancelled,
        }
    }

    /// Returns the hook for such an end, if there is one.
    fn end_hook(&self, end: End) -> Option<(&'static str, &Command)> {
        let hooks = &self.schedule.plan().hooks;
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
