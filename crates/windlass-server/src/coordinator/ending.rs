//! How a run ends: interrupts, what steps leave to be done, hooks, and giving up the lead.

use std::io;
use std::time::Duration;

use signal_hook::consts::SIGXCPU;
use windlass_core::{Grant, Phase, WorkId, WorkState};
use windlass_store::{AttemptEnd, AttemptRecord, RunEnd, RunOutcome, StoreError};
use windlass_workflow::Command;

use super::condition::Side;
use super::leader::Start;
use super::pass::{Record, Running, Stage};
use super::requests::forget_requests;
use super::{Coordinator, End, Notice, RunError, Stop, Update};
use crate::clock::millis;
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::guard::UsedUp;
use crate::look::step_argument;
use crate::size;

/// How long something that does not say so may take to end once it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long processes that outlive the one that started them may take to end by themselves.
pub(super) const LINGER: Duration = Duration::from_secs(2);

pub(super) fn cannot_end(source: io::Error) -> RunError {
    RunError::Io { what: "the processes of the run cannot be ended", source }
}

impl Coordinator {
    /// The first signal asks everything to end, the second one kills it.
    pub(super) fn heed_signal(&mut self, signal: i32) -> Result<(), RunError> {
        let before = self.stop.replace(Stop::Signal(signal));
        match before {
            // It comes every second, and nobody sends it.
            Some(Stop::Signal(_)) if signal == SIGXCPU => {}
            Some(Stop::Signal(_)) => {
                self.end_all_waiting();
                self.processes.kill_all().map_err(cannot_end)?;
            }
            _ => self.notices.push(Notice::Stopping),
        }
        for work in self.running.keys().copied().collect::<Vec<_>>() {
            self.ask_to_end(work)?;
        }
        self.forget_guards();
        self.end_hooks()
    }

    /// No step waits for its guards any more; it will wait again when the run goes on.
    pub(super) fn forget_guards(&mut self) {
        for work in self.conditions.waiting(Side::Before) {
            self.conditions.forget(work);
        }
    }

    /// Starts what is due after a commit: what follows the end of steps, and hooks.
    pub(super) fn clean_up(&mut self) -> Result<(), RunError> {
        for work in std::mem::take(&mut self.due_finally) {
            self.start_finally(work)?;
        }
        let interrupted = matches!(self.stop, Some(Stop::Signal(_)));
        let due = |work: &WorkId| {
            let over = self.schedule.engine().phase(*work).is_some_and(|p| p.state().is_terminal());
            (over || interrupted) && !self.running.contains_key(work)
        };
        for work in self.uncleaned.iter().copied().filter(due).collect::<Vec<_>>() {
            let start = Start { grant: self.latest(work), names: Vec::new(), broken: None };
            let mut running = Running::new(start, self.schedule.now());
            running.stage = Stage::CleanUp;
            self.running.insert(work, running);
            self.start_finally(work)?;
        }
        self.start_hooks()
    }

    /// Goes on where a run that was killed has been left: what ran is lost, except that whatever
    /// follows a step in any case still does.
    pub(super) fn pick_up(&mut self) -> Result<(), RunError> {
        let run = self.leader.run.id.clone();
        let attempts = self.store.read(|transaction| transaction.steps().attempts(&run))?;
        let known = |grant: Grant| {
            let key = |record: &AttemptRecord| (record.work, record.attempt);
            let found = attempts.binary_search_by_key(&(grant.work, grant.attempt), key);
            found.ok().map(|place| &attempts[place])
        };
        for work in self.schedule.begun() {
            let grant = self.latest(work);
            let end = known(grant).map(|record| record.end);
            let lives = self.schedule.engine().phase(work).map(Phase::state);
            let unclean = [None, Some(AttemptEnd::Lost), Some(AttemptEnd::Retry)].contains(&end);
            if self.schedule.step(work).finally.is_some()
                && (unclean || end == Some(AttemptEnd::Finishing))
            {
                self.uncleaned.insert(work);
            }
            if lives != Some(WorkState::Running) {
                continue;
            }
            match known(grant).filter(|record| record.end == AttemptEnd::Finishing) {
                Some(record) => self.finish_again(grant, record),
                None => self.lose(grant),
            }
        }
        for work in self.schedule.works_in(|phase| phase == Phase::Gated) {
            self.begin_conditions(work);
        }
        Ok(())
    }

    /// The command of the attempt had ended, and what follows in any case had not.
    fn finish_again(&mut self, grant: Grant, record: &AttemptRecord) {
        let start = Start { grant, names: Vec::new(), broken: None };
        let running = Running::remembered(start, record, &self.schedule.step(grant.work).retry);
        self.running.insert(grant.work, running);
        self.due_finally.push(grant.work);
    }

    /// The attempt was lost with the process that led the run.
    fn lose(&mut self, grant: Grant) {
        let step = self.schedule.step(grant.work).name.clone();
        let (began, now) = (self.schedule.began_attempt(grant.work), self.schedule.now());
        self.schedule.lose(grant);
        self.lost.insert((grant.work, grant.attempt));
        let record = AttemptRecord {
            work: grant.work,
            attempt: grant.attempt,
            step,
            started_ms: millis(began),
            ended_ms: millis(now),
            end: AttemptEnd::Lost,
            code: None,
            signal: None,
            why: Some("the process that led the run was killed".to_owned()),
            peak_kib: None,
            cpu_ms: None,
        };
        let holder = self.leader.holder_of(grant);
        self.records.push(Record::Attempt { record, holder, names: Vec::new() });
    }

    /// How the run ends, once everything has; the hook for that runs before.
    pub(super) fn end(&mut self) -> Result<Option<End>, RunError> {
        if !self.running.is_empty() || !self.inbox.is_empty() {
            return Ok(None);
        }
        if self.schedule.engine().is_done() {
            if self.closing.is_none() {
                let end = self.outcome();
                self.closing = Some(end);
                self.call_end_hook(end)?;
            }
            return Ok(self.closing.filter(|_| !self.hooks.are_running()));
        }
        Ok(self.stop.filter(|_| !self.hooks.are_running()).map(|stop| match stop {
            Stop::Signal(signal) => End::Interrupted { signal },
            Stop::Leave => End::Left,
        }))
    }

    fn outcome(&self) -> End {
        match self.schedule.outcome() {
            RunOutcome::Succeeded => End::Succeeded,
            RunOutcome::TooLate => End::TooLate,
            RunOutcome::Failed if !self.cancelled => End::Failed,
            _ => End::Cancelled,
        }
    }

    /// How the run ends, if everything has ended and nothing is to follow but that the store knows.
    pub(super) fn plain_end(&self) -> Option<End> {
        let under_way =
            !self.running.is_empty() || self.hooks.are_running() || !self.inbox.is_empty();
        let due = self.hooks.are_due() || !self.uncleaned.is_empty();
        if under_way || due || self.closing.is_some() || !self.schedule.engine().is_done() {
            return None;
        }
        let end = self.outcome();
        self.end_hook(end).is_none().then_some(end)
    }

    /// Ends the run with one sync for its last steps and for its end.
    pub(super) fn finish_at_once(
        &mut self,
        end: End,
        watch: &mut impl FnMut(&Update<'_>),
    ) -> Result<End, RunError> {
        self.step_down(end)?;
        #[cfg(windlass_faults)]
        Point::AfterStepDown.reached();
        self.show(watch);
        Ok(end)
    }

    /// Gives up the run, and every place in line that it still has.
    pub(super) fn finish(
        &mut self,
        end: End,
        watch: &mut impl FnMut(&Update<'_>),
    ) -> Result<End, RunError> {
        for notice in std::mem::take(&mut self.notices) {
            if let Notice::Said(what) = notice {
                watch(&Update::Notice(&what));
            }
        }
        self.step_down(end)?;
        #[cfg(windlass_faults)]
        Point::AfterStepDown.reached();
        Ok(end)
    }

    /// Sees everything gone that was started, and stores the end.
    fn step_down(&mut self, end: End) -> Result<(), RunError> {
        self.processes.finish().map_err(cannot_end)?;
        self.store_rest()?;
        #[cfg(windlass_faults)]
        Point::BeforeStepDown.reached();
        let at_ms = millis(self.schedule.now());
        self.give_up(stored(end).map(|outcome| RunEnd { at_ms, outcome }))?;
        self.keep_no_longer();
        Ok(())
    }

    /// Gives up the lead of the run, which has ended like that, if it has.
    pub(super) fn give_up(&mut self, end: Option<RunEnd>) -> Result<(), StoreError> {
        let Self { store, schedule, leader, .. } = self;
        store.transact(|transaction| {
            leader.leave_lines(transaction, schedule, |_| true)?;
            for wait in transaction.steps().guard_waits(&leader.run.id)? {
                transaction.steps().delete_guard_wait(&leader.run.id, wait.work)?;
            }
            if end.is_some() {
                leader.expect_to_lead(transaction)?;
                transaction.runs().set_end(&leader.run.id, end)?;
                // What came too late is not meant for whoever tries the run again.
                forget_requests(transaction, &leader.run.id)?;
            }
            leader.give_up(transaction)
        })
    }

    /// Calls the hook for the end of the run, if there is one.
    fn call_end_hook(&mut self, end: End) -> Result<(), RunError> {
        let Some((name, command)) = self.end_hook(end) else { return Ok(()) };
        let command = command.clone();
        let failed: Vec<_> = self.schedule.works_in(|phase| phase == Phase::Failed);
        let failed =
            size::fitting(failed.into_iter().map(|work| self.schedule.step(work).name.as_str()));
        let outcome = stored(end).map_or("", RunOutcome::word);
        self.call_hook(
            name,
            &command,
            &[("WINDLASS_OUTCOME", outcome), ("WINDLASS_FAILED", &failed)],
        );
        self.clean_up()
    }

    /// The hook that hears of such an end, if there is one.
    fn end_hook(&self, end: End) -> Option<(&'static str, &Command)> {
        let hooks = &self.schedule.plan().hooks;
        match end {
            End::Succeeded => Some(("on.success", hooks.success.as_ref()?)),
            End::Failed | End::TooLate => Some(("on.failure", hooks.failure.as_ref()?)),
            End::Cancelled | End::Interrupted { .. } | End::Left => None,
        }
    }

    /// A guard waits for a person, because it has used up its time or its checks: this is told.
    pub(super) fn escalate(&mut self, work: WorkId, used_up: UsedUp) {
        let plan = self.schedule.plan();
        let Some(wait) = self.conditions.shown(work, &plan.guards) else { return };
        let step = self.schedule.step(work).name.clone();
        let target = step_argument(&self.leader.run.id, &step);
        self.records.push(Record::Emit(format!("guard:{}:escalated", wait.guard)));
        let what = format!(
            "guard {}: it {used_up}; decide with: windlass approve {target}, or windlass reject {target}",
            wait.guard
        );
        self.notices.push(Notice::Waits(work, what));
        if let Some(hook) = plan.hooks.escalate.clone() {
            let about = [("WINDLASS_GUARD", wait.guard.as_str()), ("WINDLASS_STEP", &step)];
            self.call_hook("on.escalate", &hook, &about);
        }
        self.records.push(Record::Wait(wait));
    }

    /// A step waits for a guard: those who watch are told once, those who ask each time.
    pub(super) fn note_wait(&mut self, work: WorkId, more: &str) {
        let guards = &self.schedule.plan().guards;
        let Some(wait) = self.conditions.shown(work, guards) else { return };
        if wait.checks == 1 || !more.is_empty() {
            let said =
                wait.last_result.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
            let target = step_argument(&self.leader.run.id, &self.schedule.step(work).name);
            let person = format!("\nto decide it now: windlass approve {target}");
            let what = format!("guard {}{said}{more}{person}", wait.guard);
            self.notices.push(Notice::Waits(work, what));
        }
        self.records.push(Record::Wait(wait));
    }
}

/// Phrases as one; none if there is none.
pub(super) fn joined<const N: usize>(phrases: [Option<String>; N]) -> Option<String> {
    phrases.into_iter().flatten().reduce(|all, phrase| format!("{all}; {phrase}"))
}

/// An end that is one, as it is stored.
fn stored(end: End) -> Option<RunOutcome> {
    match end {
        End::Succeeded => Some(RunOutcome::Succeeded),
        End::Failed => Some(RunOutcome::Failed),
        End::TooLate => Some(RunOutcome::TooLate),
        End::Cancelled => Some(RunOutcome::Cancelled),
        End::Interrupted { .. } | End::Left => None,
    }
}
