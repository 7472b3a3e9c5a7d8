//! How steps wait for their conditions, and how that is shown to users.

use windlass_core::{Grant, Input, Timestamp, WorkId};
use windlass_store::{AttemptEnd, Decision, Event};
use windlass_workflow::Guard;

use super::super::attempts::{CheckEnd, Limits, Order, OrderId, StopMode};
use super::super::journal::Record;
use super::super::observer::{Notice, SKIPPED_BY_WHEN};
use super::condition::{Conclusion, Condition, ConditionNews, Conditions, Side, Specs};
use super::context::RunContext;
use super::orders::{GRACE, LINGER};
use crate::guard::UsedUp;
use crate::look::step_argument;

/// The steps of a run that wait for conditions.
pub(super) struct Waits {
    conditions: Conditions,
}

/// What follows from a condition outside of it.
pub(super) enum Follow {
    /// What a step has to ensure is decided.
    Ensured(WorkId, Conclusion),
    /// A user has to decide about a guard of a step.
    Escalated { guard: String, step: String },
}

impl Waits {
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Self { conditions: Conditions::new(guards) }
    }

    /// Has a step wait for its conditions on one side of its command.
    pub(super) fn begin(&mut self, run: &RunContext, work: WorkId, side: Side) {
        // A gate that opens at a time has no conditions.
        if side == Side::Before && run.schedule.opens_at(work).is_some() {
            return;
        }
        let Grant { attempt, .. } = run.latest(work);
        let attempt = if side == Side::Before { attempt + 1 } else { attempt };
        let of = Grant { work, attempt };
        let specs = specs(run, of, side);
        self.conditions.begin(of, side, specs, run.schedule.now());
    }

    /// Counts a check that an earlier scheduler has started. Its result is not needed.
    pub(super) fn note_stray(&mut self, round: u64) {
        self.conditions.note_stray(round);
    }

    /// Has a step wait no more.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.conditions.forget(work);
    }

    /// Has a step wait no more that waits before its command.
    pub(super) fn forget_before(&mut self, work: WorkId) {
        if self.conditions.side(work) == Some(Side::Before) {
            self.conditions.forget(work);
        }
    }

    /// Ends all waits for guards; steps wait again when the run is resumed.
    pub(super) fn forget_guards(&mut self) {
        for work in self.conditions.waiting(Side::Before) {
            self.conditions.forget(work);
        }
    }

    pub(super) fn on_checked(
        &mut self,
        run: &mut RunContext,
        (work, round): (WorkId, u64),
        end: CheckEnd,
    ) -> Option<Follow> {
        let news = self.conditions.checked(work, round, end, run.schedule.now());
        news.and_then(|news| self.take_in(run, news))
    }

    /// Repeats a check of which it is unknown how it has ended.
    pub(super) fn on_check_lost(&mut self, run: &RunContext, work: WorkId, round: u64) {
        self.conditions.check_lost(work, round, run.schedule.now());
    }

    /// Notes what users have decided about guards, for when steps wait for them.
    pub(super) fn note_decisions(&mut self, decisions: &[Decision]) {
        self.conditions.note(decisions);
    }

    /// Has the guards of a step that is tried again wait for other decisions.
    pub(super) fn forget_decisions(&mut self, run: &mut RunContext, work: WorkId) {
        if self.conditions.forget_decisions(work) {
            run.effects.records.push(Record::Undecided(work));
        }
    }

    /// Takes in what users have decided about guards.
    pub(super) fn on_decisions(
        &mut self,
        run: &mut RunContext,
        decisions: &[Decision],
    ) -> Vec<Follow> {
        self.conditions.note(decisions);
        let news = self.conditions.heed_decisions(run.schedule.now());
        news.into_iter().filter_map(|news| self.take_in(run, news)).collect()
    }

    pub(super) fn on_events(&mut self, run: &RunContext, events: &[Event]) {
        self.conditions.wake(events, run.schedule.now());
    }

    /// Looks at the conditions that are due.
    pub(super) fn on_time(&mut self, run: &mut RunContext) -> Vec<Follow> {
        let news = self.conditions.look(run.schedule.now());
        news.into_iter().filter_map(|news| self.take_in(run, news)).collect()
    }

    /// Hands over the checks to start and to stop.
    pub(super) fn order(&mut self, run: &mut RunContext) {
        for check in self.conditions.take_starts() {
            run.effects.orders.push(Order {
                id: OrderId::Check { work: check.work, round: check.round },
                command: Ok(check.command),
                tag: format!("{}-check-{}", run.identity.tag(), check.round),
                log: None,
                output: None,
                limits: Limits { time: Some(check.limit), linger: LINGER, grace: GRACE },
                start_by: None,
            });
        }
        for (work, round) in self.conditions.take_stops() {
            run.effects.stops.push((OrderId::Check { work, round }, StopMode::Kill));
        }
    }

    pub(super) fn contains(&self, work: WorkId) -> bool {
        self.conditions.side(work).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    pub(super) fn heeds_events(&self) -> bool {
        self.conditions.heeds_events()
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.conditions.next_look()
    }

    fn take_in(&mut self, run: &mut RunContext, news: ConditionNews) -> Option<Follow> {
        match news {
            ConditionNews::Concluded(work, Side::Before, conclusion) => {
                run.effects.records.push(Record::WaitOver(work));
                conclude_before(run, work, conclusion);
            }
            ConditionNews::Concluded(work, Side::After, conclusion) => {
                run.effects.records.push(Record::WaitOver(work));
                return Some(Follow::Ensured(work, conclusion));
            }
            ConditionNews::NotYet(work) => self.note_wait(run, work, ""),
            ConditionNews::Blocked(work, used_up) => {
                self.note_wait(run, work, &format!("; it {used_up}, and is still checked"));
            }
            ConditionNews::Escalated(work, used_up) => return self.escalate(run, work, used_up),
        }
        None
    }

    /// Tells users that a guard waits for their decision.
    fn escalate(&mut self, run: &mut RunContext, work: WorkId, used_up: UsedUp) -> Option<Follow> {
        let wait = self.conditions.shown(work)?;
        let (guard, step) = (wait.guard.clone(), run.schedule.step(work).name.clone());
        let target = step_argument(run.identity.id(), &step);
        let what = format!(
            "guard {guard}: it {used_up}; decide with: windlass approve {target}, or windlass reject {target}"
        );
        run.observer.notice(Notice::Waits(work, what));
        run.effects.records.push(Record::Emit(format!("guard:{guard}:escalated")));
        run.effects.records.push(Record::Wait(wait));
        Some(Follow::Escalated { guard, step })
    }

    /// Stores that a step waits for a guard; a watching user sees it once.
    fn note_wait(&mut self, run: &mut RunContext, work: WorkId, more: &str) {
        let Some(wait) = self.conditions.shown(work) else { return };
        if wait.checks == 1 || !more.is_empty() {
            let said =
                wait.last_result.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
            let target = step_argument(run.identity.id(), &run.schedule.step(work).name);
            let person = format!("\nto decide it now: windlass approve {target}");
            let what = format!("guard {}{said}{more}{person}", wait.guard);
            run.observer.notice(Notice::Waits(work, what));
        }
        run.effects.records.push(Record::Wait(wait));
    }
}

/// Opens the gate of a step, skips it or fails it. The step may have been cancelled a moment ago.
fn conclude_before(run: &mut RunContext, work: WorkId, conclusion: Conclusion) {
    match conclusion {
        Conclusion::Passed => {
            let _ = run.schedule.apply(Input::Open(work));
        }
        Conclusion::Skip => {
            if run.schedule.apply(Input::Skip(work)).is_ok() {
                run.note_reason(work, SKIPPED_BY_WHEN.to_owned());
            }
        }
        Conclusion::Failed(why) => {
            if run.schedule.apply(Input::Reject(work)).is_ok() {
                run.record_reason(work, AttemptEnd::Failed, why);
            }
        }
    }
}

/// Resolves the conditions of an attempt on one side of its command.
fn specs(run: &RunContext, grant: Grant, side: Side) -> Specs {
    let step = run.schedule.step(grant.work);
    run.identity.resolve(&run.schedule, |all| {
        let when = step.gate.when.as_ref().filter(|_| side == Side::Before);
        let when = when.map(|script| (Condition::When, all.when(grant, script)));
        let guards = if side == Side::Before { &step.gate.guards } else { &step.ending.ensures };
        let guards = guards.iter().map(|&place| (Condition::Guard(place), all.guard(grant, place)));
        when.into_iter().chain(guards).collect()
    })
}
