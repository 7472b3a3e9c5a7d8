//! How attempts of steps end: what follows a command, and what an end means.

use std::time::Duration;

use windlass_core::{Ending, Grant, Input, Outcome, Phase, Transition, Why, WorkId, WorkState};
use windlass_store::AttemptEnd;
use windlass_workflow::OnFailure;

use super::super::attempts::OrderId;
use super::super::journal::{Record, Start};
use super::super::observer::Notice;
use super::RunState;
use super::condition::{Conclusion, Side};
use super::step_attempt::{Stage, StepAttempt, outcome};
use crate::ended::Ended;
use crate::schedule::TOO_LATE;

impl RunState {
    /// Takes in the end of a process of a step.
    pub(super) fn on_process(&mut self, work: WorkId, ended: &Ended) {
        let attempt = self.steps.running(work);
        match attempt.stage {
            Stage::Command => {
                attempt.note_command(ended);
                self.on_command(work, ended);
            }
            Stage::Ensuring => unreachable!("no process of it runs"),
            Stage::Finally => self.on_finally(work, ended),
            Stage::CleanUp => {
                self.steps.note_cleaned(work);
                self.steps.remove(work);
            }
        }
    }

    /// Checks what a step has to ensure once its command has succeeded, or settles how it ends.
    fn on_command(&mut self, work: WorkId, ended: &Ended) {
        let step = self.schedule.step(work);
        let asked = matches!(self.schedule.engine().phase(work), Some(Phase::Cancelling { .. }));
        let stopping = self.end.stop.is_some();
        if ended.is_success() && !step.ensures.is_empty() && !asked && !stopping {
            let specs = self.condition_specs(self.latest(work), Side::After);
            self.let_go(work);
            self.steps.running(work).stage = Stage::Ensuring;
            return self.conditions.begin(work, Side::After, specs, self.schedule.now());
        }
        let outcome = outcome(ended, &step.retry, stopping);
        self.settle(work, outcome, ended.why());
    }

    /// Settles how an attempt ends, unless the engine knows better; its `finally` comes first.
    fn settle(&mut self, work: WorkId, outcome: Outcome, why: Option<String>) {
        let attempt = self.steps.running(work);
        attempt.outcome = outcome;
        attempt.why = attempt.why.take().or(why);
        let ending = self.schedule.engine().ending(attempt.start.grant, outcome);
        let last = match ending.expect("it is under way") {
            Ending::Retry { .. } => false,
            Ending::Interrupted => self.end.stop.is_some(),
            _ => true,
        };
        let step = self.schedule.step(work);
        if !last || step.finally.is_none() {
            return self.complete(work);
        }
        attempt.stage = Stage::Finally;
        let record = attempt.record(&step.name, self.schedule.now(), AttemptEnd::Finishing);
        let holder = self.identity.holder(attempt.start.grant);
        self.effects.records.push(Record::Attempt { record, holder, names: Vec::new() });
        self.let_go(work);
        self.steps.queue_finally(work);
    }

    fn on_finally(&mut self, work: WorkId, ended: &Ended) {
        self.steps.note_cleaned(work);
        let attempt = self.steps.running(work);
        if let Some(why) = ended.why().filter(|_| attempt.outcome == Outcome::Success) {
            attempt.outcome = Outcome::Failed;
            attempt.why = Some(format!("finally: {why}"));
        }
        let note = ended.note().map(|note| format!("finally: {note}"));
        attempt.note = joined([attempt.note.take(), note]);
        self.complete(work);
    }

    /// Ends an attempt, and gives back what it held.
    fn complete(&mut self, work: WorkId) {
        let mut attempt = self.steps.remove(work).expect("it is under way");
        let (grant, outcome) = (attempt.start.grant, attempt.outcome);
        let ending = self.schedule.engine().ending(grant, outcome).expect("it is under way");
        attempt.why = self.why_asked(work).or(attempt.why);
        if ending == Ending::Interrupted {
            attempt.why = Some("interrupted".to_owned());
        }
        attempt.why = joined([attempt.why, attempt.note.take()]);
        self.items.give_back(work);
        let end = match ending {
            Ending::Success => AttemptEnd::Success,
            Ending::Retry { .. } => AttemptEnd::Retry,
            Ending::Cancelled => AttemptEnd::Cancelled,
            Ending::Interrupted => AttemptEnd::Interrupted,
            _ => AttemptEnd::Failed,
        };
        let step = &self.schedule.step(work).name;
        let record = attempt.record(step, self.schedule.now(), end);
        self.schedule.apply(Input::Finished { grant, outcome }).expect("an attempt ends once");
        if let Some(why) = attempt.why {
            self.observer.note_reason(work, grant.attempt, why);
        }
        let (holder, names) = (self.identity.holder(grant), attempt.start.names);
        self.effects.records.push(Record::Attempt { record, holder, names });
    }

    /// Says why an attempt was asked to end, if it was.
    fn why_asked(&self, work: WorkId) -> Option<String> {
        let Some(Phase::Cancelling { why, .. }) = self.schedule.engine().phase(work) else {
            return None;
        };
        Some(match (why, self.schedule.step(work).timeout) {
            (Why::Timeout, Some(timeout)) => format!("timed out after {timeout:?}"),
            (Why::Deadline, _) => TOO_LATE.to_owned(),
            _ => match self.schedule.why_stopped().filter(|_| !self.end.cancelled) {
                Some(why) if self.schedule.plan().on_failure == OnFailure::Cancel => {
                    format!("while it ran: {why}")
                }
                _ => "while it ran".to_owned(),
            },
        })
    }

    /// Gives back the slot and the resources of a step that is under way.
    fn let_go(&mut self, work: WorkId) {
        let grant = self.latest(work);
        self.items.give_back(work);
        self.schedule.apply(Input::Suspend(grant)).expect("it is under way");
    }

    /// Takes in what became of the conditions behind a command.
    pub(super) fn on_ensured(&mut self, work: WorkId, conclusion: Conclusion) {
        if !self.steps.get(work).is_some_and(|attempt| attempt.stage == Stage::Ensuring) {
            return;
        }
        match conclusion {
            Conclusion::Passed | Conclusion::Skip => self.settle(work, Outcome::Success, None),
            Conclusion::Failed(why) if self.end.stop.is_some() => {
                self.settle(work, Outcome::Interrupted, Some(why));
            }
            Conclusion::Failed(why) => {
                let named = self.schedule.step(work).retry.on_exit.is_some();
                let again = Outcome::Retry { delay: Duration::ZERO };
                self.settle(work, if named { Outcome::Failed } else { again }, Some(why));
            }
        }
    }

    pub(super) fn ensuring_interrupted(&mut self, work: WorkId) {
        let stopped = Conclusion::Failed("interrupted".to_owned());
        self.on_concluded(work, Side::After, stopped);
    }

    /// Takes in that it is unknown how an order has ended. The attempt counts as interrupted; a
    /// `finally` and a check are repeated.
    pub(super) fn on_lost(&mut self, id: OrderId, why: String) {
        match id {
            OrderId::Command(grant) => self.lose_attempt(grant, why),
            OrderId::Finally(Grant { work, .. }) => match self.steps.running(work).stage {
                // Its step owes it still, so it is ordered again after the next commit.
                Stage::CleanUp => drop(self.steps.remove(work)),
                _ => self.steps.queue_finally(work),
            },
            OrderId::Check { work, round } => {
                self.conditions.check_lost(work, round, self.schedule.now());
            }
            OrderId::Hook(hook) => {
                if let Some(name) = self.hooks.end(hook) {
                    self.observer.notice(Notice::Run(format!("{name}: {why}")));
                }
            }
        }
    }

    fn lose_attempt(&mut self, grant: Grant, why: String) {
        let began = self.schedule.began_attempt(grant.work);
        let attempt = self.steps.remove(grant.work);
        let mut attempt = attempt.unwrap_or_else(|| StepAttempt::new(Start::plain(grant), began));
        attempt.why = Some(why);
        self.items.give_back(grant.work);
        let step = &self.schedule.step(grant.work).name;
        let record = attempt.record(step, self.schedule.now(), AttemptEnd::Lost);
        self.schedule.lose(grant);
        self.observer.note_lost(grant);
        let (holder, names) = (self.identity.holder(grant), attempt.start.names);
        self.effects.records.push(Record::Attempt { record, holder, names });
    }

    /// Notes why steps have ended that the run itself ends between their attempts.
    pub(super) fn explain_ends(&mut self) {
        let new = self.observer.unexplained(&self.schedule);
        let ended = |phase: Phase| {
            let idle = |change: &&Transition| change.from == Some(WorkState::Pending);
            let ended = new.iter().filter(idle).filter(|change| change.to == phase);
            ended.map(|change| change.work).collect::<Vec<_>>()
        };
        let (failed, cancelled) = (ended(Phase::Failed), ended(Phase::Cancelled));
        if !failed.is_empty() && self.schedule.is_too_late() {
            self.explain(&failed, AttemptEnd::Failed, TOO_LATE);
        }
        if !cancelled.is_empty()
            && !self.end.cancelled
            && let Some(why) = self.schedule.why_stopped()
        {
            self.explain(&cancelled, AttemptEnd::Cancelled, &why);
        }
    }

    /// Gives the same reason for the ends of all these steps, except where another one is known.
    fn explain(&mut self, works: &[WorkId], end: AttemptEnd, why: &str) {
        for &work in works {
            if !self.observer.has_reason(work, self.latest(work).attempt) {
                self.record_reason(work, end, why.to_owned());
            }
        }
    }

    /// Notes and stores why a step ends between its attempts.
    pub(super) fn record_reason(&mut self, work: WorkId, end: AttemptEnd, why: String) {
        let (step, now) = (self.schedule.step(work), self.schedule.now());
        let grant = Grant { work, attempt: 0 };
        let mut never = StepAttempt::new(Start::plain(grant), now);
        never.why = Some(why.clone());
        let (record, holder) = (never.record(&step.name, now, end), self.identity.holder(grant));
        self.effects.records.push(Record::Attempt { record, holder, names: Vec::new() });
        self.note_reason(work, why);
    }

    /// Notes why a step ends between its attempts.
    pub(super) fn note_reason(&mut self, work: WorkId, why: String) {
        let Grant { attempt, .. } = self.latest(work);
        self.observer.note_reason(work, attempt, why);
    }
}

/// Joins phrases to one; none if there is none.
pub(super) fn joined<const N: usize>(phrases: [Option<String>; N]) -> Option<String> {
    phrases.into_iter().flatten().reduce(|all, phrase| format!("{all}; {phrase}"))
}
