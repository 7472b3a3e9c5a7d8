//! What a run has decided: pure state, changed by handlers, one for each thing that can happen.
//!
//! A handler starts nothing, stores nothing and shows nothing. What follows from it is collected:
//! records for the journal, orders and stops for the processes, changes for the user. The loop takes
//! them out once the commit that they belong to has succeeded.
//!
//! | part | decides about |
//! |---|---|
//! | [`Steps`] | attempts: command, `finally`, how they end |
//! | [`Waits`] | `when`, guards, what steps have to ensure |
//! | [`Hooks`] | commands that report to users |
//! | [`RunContext`] | nothing: the schedule, and what follows from the decisions of the others |

use std::collections::BTreeSet;
use std::time::Duration;

use signal_hook::consts::SIGXCPU;
use windlass_core::{Grant, Input, Name, Phase, Timestamp, Token, WorkId};
use windlass_store::{AttemptRecord, Decision, Event};

use super::attempts::{Order, OrderId, Report, StopMode};
use super::identity::RunIdentity;
use super::journal::{Admission, Committed, Record, Request, Start};
use super::observer::Notice;
use super::requests::Wish;
use super::{End, Update};
use crate::ended::{Ended, Exit};
use crate::schedule::Schedule;

mod closing;
mod condition;
mod context;
mod hooks;
mod items;
mod orders;
mod step_attempt;
mod steps;
mod takeover;
mod waits;

use self::condition::Side;
use self::context::{RunContext, Stop};
use self::hooks::Hooks;
use self::items::Items;
use self::orders::GRACE;
use self::steps::{Ensuring, Steps};
pub(super) use self::takeover::Executing;
use self::waits::{Follow, Waits};

/// How processes end that another process has killed to take over their names.
const KILLED: Exit = Exit::Signal(9);
/// How names are lost.
const PAUSED: &str = "as after a pause of windlass or of the machine";

/// The state of one run.
pub(super) struct RunState {
    run: RunContext,
    steps: Steps,
    waits: Waits,
    hooks: Hooks,
    /// Everything has ended like this, except for the hook that reports it.
    closing: Option<End>,
}

impl RunState {
    pub(super) fn new(schedule: Schedule, identity: RunIdentity) -> Self {
        Self {
            steps: Steps::new(Items::of(schedule.plan())),
            waits: Waits::new(schedule.plan().guards.clone()),
            hooks: Hooks::default(),
            run: RunContext::new(schedule, identity),
            closing: None,
        }
    }

    /// Counts the attempts that workers lose from now on, after those in `attempts`.
    pub(super) fn count_lost(&mut self, attempts: &[AttemptRecord]) {
        self.steps.count_lost(attempts);
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.run.schedule
    }

    pub(super) fn schedule_mut(&mut self) -> &mut Schedule {
        &mut self.run.schedule
    }

    pub(super) fn identity(&self) -> &RunIdentity {
        &self.run.identity
    }

    /// Makes it look as if what starts had been decided earlier.
    #[cfg(test)]
    pub(super) fn backdate_decisions(&mut self, by: Duration) {
        let since = self.run.decided.since(Timestamp::ZERO);
        self.run.decided = Timestamp::ZERO.after(since - by);
    }

    /// Returns whether works may begin in the next commit.
    pub(super) fn admission(&self) -> Admission {
        if self.run.stop.is_none() { Admission::Open } else { Admission::Closed }
    }

    pub(super) fn heeds_events(&self) -> bool {
        self.waits.heeds_events()
    }

    /// Returns when there is something to decide though nothing happens.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = [self.run.schedule.engine().next_wakeup(), self.waits.next_due()];
        due.into_iter().flatten().min()
    }

    /// Returns whether the run waits for something that another process may give without a wake-up,
    /// such as the names of a holder that was killed.
    pub(super) fn waits_for_others(&self) -> bool {
        self.run.schedule.waits_outside() || self.waits.heeds_events()
    }

    /// Returns whether decisions are left over that the next commit has to take in.
    pub(super) fn has_decisions(&self) -> bool {
        self.steps.has_interrupted()
    }

    /// Returns whether there are records for the next commit.
    pub(super) fn has_records(&self) -> bool {
        !self.run.effects.records.is_empty()
    }

    /// Has what is taken in next count as if it happened `ago`, until [`RunState::go_on`].
    pub(super) fn go_back(&mut self, ago: Duration) {
        self.run.schedule.go_back(ago);
    }

    /// Has what is taken in next happen now.
    pub(super) fn go_on(&mut self) {
        self.run.schedule.go_on();
    }

    /// Returns the items that the attempt of a step has.
    pub(super) fn items(&self, work: WorkId) -> Vec<(usize, usize)> {
        self.steps.items(work)
    }

    /// Takes the records for the next commit.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.run.effects.records)
    }

    /// Takes the orders to start once the commit has succeeded.
    pub(super) fn take_orders(&mut self) -> Vec<Order> {
        self.waits.order(&mut self.run);
        std::mem::take(&mut self.run.effects.orders)
    }

    /// Takes the orders to stop.
    pub(super) fn take_stops(&mut self) -> Vec<(OrderId, StopMode)> {
        self.waits.order(&mut self.run);
        std::mem::take(&mut self.run.effects.stops)
    }

    /// Returns the orders that are due after a commit: what follows the end of steps, and hooks.
    pub(super) fn take_due_orders(&mut self) -> Vec<Order> {
        let mut orders = self.steps.take_due_orders(&self.run);
        orders.extend(self.hooks.take_due_orders(&self.run));
        orders
    }

    /// Returns whether an attempt follows one of the works in `ended`, whose ends may be lost with the
    /// power. One that does not need not wait for the disk: no process survives a loss of power.
    pub(super) fn follows(&self, start: &Start, ended: &BTreeSet<WorkId>) -> bool {
        let mut before = self.run.schedule.engine().dependencies(start.grant.work);
        before.any(|on| ended.contains(&on.work))
    }

    /// Begins an attempt that the journal knows, and returns the order for its command.
    pub(super) fn begin_attempt(&mut self, start: Start) -> Order {
        self.steps.begin(&self.run, start)
    }

    /// Begins to decide: what time alone brings comes first.
    pub(super) fn on_tick(&mut self) {
        self.run.decided = self.run.schedule.clock().with_pauses();
        self.run.schedule.apply(Input::Tick).expect("time passes");
        self.run.schedule.open_due();
        self.steps.end_interrupted(&mut self.run);
    }

    /// Returns the names that the order of a report may have lost, so that the report means something
    /// else: a process that takes over a name kills its holder first.
    pub(super) fn names_in_doubt(&self, report: &Report) -> &[(Name, Token)] {
        let id = match report {
            Report::Late(id) => id,
            Report::Ended { id, ended } if ended.exit == KILLED && ended.flaw.is_none() => id,
            _ => return &[],
        };
        id.work().map_or(&[], |work| self.steps.names(work))
    }

    /// Returns the names that the attempt of a step holds.
    pub(super) fn names(&self, work: WorkId) -> &[(Name, Token)] {
        self.steps.names(work)
    }

    /// Returns the attempts that hold names though their commands have ended.
    pub(super) fn attempts_with_names(&self) -> Vec<Grant> {
        let works = self.steps.ended_commands();
        let works = works.filter(|work| !self.steps.names(*work).is_empty());
        works.map(|work| self.run.latest(work)).collect()
    }

    /// Has the attempt of a step hold no names any more.
    pub(super) fn forget_names(&mut self, work: WorkId) {
        self.steps.forget_names(work);
    }

    /// Returns the order of a `finally` whose step has lost a name: it runs without names.
    pub(super) fn finally_without_names(&mut self, grant: Grant) -> Order {
        self.steps.finally_without_names(&self.run, grant)
    }

    /// Takes in what has become of an order; `lost` is a name that it has lost.
    pub(super) fn on_report(&mut self, report: Report, lost: Option<Name>) {
        let Self { run, steps, waits, .. } = self;
        match report {
            Report::Ended { id, mut ended } => {
                let lost = lost.map(|name| format!("{name} was lost while it ran, {PAUSED}"));
                ended.flaw = lost.or(ended.flaw);
                self.on_ended(id, &ended);
            }
            Report::Checked { id: OrderId::Check { work, round }, end } => {
                let follow = waits.on_checked(run, (work, round), end);
                self.follow(follow);
            }
            Report::Checked { .. } => unreachable!("only a check ends with a result"),
            Report::Late(id) => steps.on_late(run, id, lost),
            Report::Lost { id, why } => self.on_lost(id, why),
            Report::NoRoom(error) => run.observer.notice(Notice::Run(format!(
                "there is no room for another process, so the next ones wait: {error}"
            ))),
        }
    }

    fn on_ended(&mut self, id: OrderId, ended: &Ended) {
        let Self { run, steps, hooks, .. } = self;
        match id {
            OrderId::Command(grant) | OrderId::Finally(grant) => {
                if steps.on_process(run, grant.work, ended) == Ensuring::Begins {
                    self.waits.begin(&self.run, grant.work, Side::After);
                }
            }
            OrderId::Hook(hook) => hooks.on_ended(run, hook, ended),
            OrderId::Check { .. } => unreachable!("a check ends with a result"),
        }
    }

    /// Takes in that it is unknown how an order has ended.
    fn on_lost(&mut self, id: OrderId, why: String) {
        let Self { run, steps, waits, hooks, .. } = self;
        match id {
            OrderId::Command(grant) => steps.on_command_lost(run, grant, why),
            OrderId::Finally(grant) => steps.on_finally_lost(grant.work),
            OrderId::Check { work, round } => waits.on_check_lost(run, work, round),
            OrderId::Hook(hook) => hooks.on_lost(run, hook, &why),
        }
    }

    /// Does what follows from a condition.
    fn follow(&mut self, follow: impl IntoIterator<Item = Follow>) {
        let Self { run, steps, hooks, .. } = self;
        for follow in follow {
            match follow {
                Follow::Ensured(work, conclusion) => steps.on_ensured(run, work, conclusion),
                Follow::Escalated { guard, step } => {
                    if let Some(hook) = run.schedule.plan().hooks.escalate.clone() {
                        let about = [("WINDLASS_GUARD", &*guard), ("WINDLASS_STEP", &*step)];
                        hooks.call(run, "on.escalate", &hook, &about);
                    }
                }
            }
        }
    }

    /// Asks every attempt to end at the first signal, and kills them at the second one. The stops do
    /// not wait for a commit: that a run is interrupted is stored nowhere.
    pub(super) fn on_signal(&mut self, signal: i32) {
        let before = self.run.stop.replace(Stop::Signal(signal));
        let again = matches!(before, Some(Stop::Signal(_)));
        if !again {
            self.run.observer.notice(Notice::Stopping);
        }
        // The kernel sends SIGXCPU every second once the processor time is used up, so only a signal
        // that a user sends a second time kills.
        let kill = again && signal != SIGXCPU;
        for work in self.steps.works() {
            self.stop_step(work, kill.then_some(StopMode::Kill));
        }
        let mode = if kill { StopMode::Kill } else { StopMode::Ask { grace: GRACE } };
        self.hooks.stop(&mut self.run, mode);
        self.waits.forget_guards();
    }

    fn stop_step(&mut self, work: WorkId, mode: Option<StopMode>) {
        if self.steps.stop(&mut self.run, work, mode) == Ensuring::GivenUp {
            self.waits.forget(work);
        }
    }

    pub(super) fn on_events(&mut self, events: &[Event]) {
        self.waits.on_events(&self.run, events);
    }

    pub(super) fn on_request(&mut self, request: &Request) {
        let run = &mut self.run;
        run.effects.records.push(Record::Taken(request.number));
        match Wish::parse(&request.text, |step| run.schedule.called(step)) {
            Some(Wish::CancelAll) => {
                run.cancelled = true;
                run.schedule.apply(Input::CancelAll).expect("everything can be cancelled");
                self.hooks.stop(run, StopMode::Ask { grace: GRACE });
            }
            Some(Wish::Retry(steps)) => {
                // What ended badly was checked when the request was sent.
                let _ = self.reopen(&steps);
            }
            Some(Wish::Cancel(work)) => {
                // The step may have ended meanwhile.
                let _ = run.schedule.apply(Input::Cancel(work));
            }
            Some(Wish::Pause(work)) => {
                // The step may have ended meanwhile.
                let _ = run.schedule.apply(work.map_or(Input::PauseAll, Input::Pause));
            }
            Some(Wish::Unpause(work)) => {
                let _ = run.schedule.apply(work.map_or(Input::UnpauseAll, Input::Unpause));
                self.steps.go_on(run);
            }
            Some(Wish::Halt(work)) => {
                let works = work.map_or_else(|| self.steps.works(), |work| vec![work]);
                works.into_iter().for_each(|work| self.steps.halt(run, work));
            }
            Some(Wish::Slots(slots)) => run.schedule.set_slots(slots),
            Some(Wish::Remove(work)) => run.schedule.remove(work),
            // The decision itself is stored beside the request.
            Some(Wish::Decide) | None => {}
        }
    }

    /// Drops what is noted about a step that is forgotten.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.run.observer.forget(work);
        self.steps.forget(work);
    }

    /// Notes what users have decided about guards of this run under earlier leaders.
    pub(super) fn note_decisions(&mut self, decisions: &[Decision]) {
        self.waits.note_decisions(decisions);
    }

    /// Takes in what users have decided about guards of this run, all of it or what is new.
    pub(super) fn on_decisions(&mut self, decisions: &[Decision]) {
        let follow = self.waits.on_decisions(&mut self.run, decisions);
        self.follow(follow);
    }

    /// Completes the decisions before a commit: checks conditions that are due, and applies `on_failure`.
    pub(super) fn on_all_taken_in(&mut self) {
        let follow = self.waits.on_time(&mut self.run);
        self.follow(follow);
        self.run.schedule.apply_on_failure();
        self.run.explain_ends();
    }

    /// Takes in what a commit has decided about names, and returns the attempts that have begun.
    pub(super) fn on_committed(&mut self, committed: Committed) -> Vec<Start> {
        let Committed { starts, refusals } = committed;
        let begun = starts.iter().map(|start| start.grant.work);
        self.run.observer.note_refusals(refusals, begun);
        starts
    }

    /// Returns whether the disk may keep the user and the steps waiting a moment longer: nothing
    /// depends on it, and there is nothing to show that a user waits for.
    pub(super) fn may_linger(&self) -> bool {
        let Self { run, steps, waits, hooks, closing } = self;
        let due = hooks.are_due() || steps.owes_finally() || !waits.is_empty();
        let ends = steps.is_idle() || run.stop.is_some() || closing.is_some();
        !due && !ends && !run.observer.has_urgent() && run.schedule.all_is_well()
    }

    /// Shows every change, now that the disk has it; begins conditions, and stops attempts that have
    /// to end.
    pub(super) fn publish(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        self.run.explain_ends();
        self.run.observer.note_pauses(&self.run.schedule, self.run.identity.id());
        let changes = self.run.schedule.take_transitions();
        for change in &changes {
            match change.to {
                Phase::Cancelling { .. } => self.stop_step(change.work, None),
                Phase::Gated => self.waits.begin(&self.run, change.work, Side::Before),
                _ => self.waits.forget_before(change.work),
            }
        }
        let RunContext { schedule, identity, observer, .. } = &mut self.run;
        let waits = |work| self.waits.contains(work);
        observer.show(schedule, identity.logs(), &changes, waits, watch);
    }

    /// Shows what is left to say of a run that has ended.
    pub(super) fn show_rest(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        self.run.observer.show_rest(watch);
    }
}
