//! What a run has decided: pure state, changed by handlers, one for each thing that can happen.
//!
//! A handler starts nothing, stores nothing and shows nothing. What follows from it is collected here:
//! records for the journal, orders and stops for the processes, changes for the user. The loop takes
//! them out once the commit that they belong to has succeeded.

use signal_hook::consts::SIGXCPU;
use windlass_core::{Grant, Input, Name, Phase, Timestamp, Token, WorkId};
use windlass_store::Event;

use super::attempts::{CheckEnd, Order, OrderId, Report, StopMode};
use super::identity::RunIdentity;
use super::journal::{Admission, Committed, Record, Request, Start};
use super::observer::{Notice, Observer};
use super::requests::Wish;
use super::{End, Update};
use crate::ended::{Ended, Exit};
use crate::schedule::Schedule;

mod closing;
mod condition;
mod hooks;
mod items;
mod orders;
mod step_attempt;
mod step_ends;
mod takeover;
mod waits;

use self::condition::{Conditions, Side};
use self::hooks::Hooks;
use self::items::Items;
use self::orders::GRACE;
use self::step_attempt::{Stage, StepAttempts};

/// How processes end that another process has killed to take over their names.
const KILLED: Exit = Exit::Signal(9);
/// How names are lost.
const PAUSED: &str = "as after a pause of windlass or of the machine";

/// The state of one run.
pub(super) struct RunState {
    schedule: Schedule,
    identity: RunIdentity,
    steps: StepAttempts,
    items: Items,
    conditions: Conditions,
    hooks: Hooks,
    observer: Observer,
    end: Ending,
    effects: Effects,
    /// When it was last decided what starts.
    decided: Timestamp,
}

/// How far a run is on the way to its end.
#[derive(Default)]
struct Ending {
    stop: Option<Stop>,
    /// A user has asked for the end of the whole run.
    cancelled: bool,
    /// Everything has ended like this, except for the hook that reports it.
    closing: Option<End>,
}

/// Why nothing starts any more.
#[derive(Clone, Copy)]
enum Stop {
    Signal(i32),
    /// This process does only what it was asked to, and leaves the run to another one.
    Leave,
}

/// What follows from decisions, until the commit that they belong to has succeeded.
#[derive(Default)]
struct Effects {
    records: Vec<Record>,
    orders: Vec<Order>,
    stops: Vec<(OrderId, StopMode)>,
}

impl RunState {
    pub(super) fn new(schedule: Schedule, identity: RunIdentity) -> Self {
        Self {
            items: Items::of(schedule.plan()),
            conditions: Conditions::new(schedule.plan().guards.clone()),
            decided: schedule.now(),
            schedule,
            identity,
            steps: StepAttempts::default(),
            hooks: Hooks::default(),
            observer: Observer::default(),
            end: Ending::default(),
            effects: Effects::default(),
        }
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn schedule_mut(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// Makes it look as if what starts had been decided earlier.
    #[cfg(test)]
    pub(super) fn backdate_decisions(&mut self, by: std::time::Duration) {
        let since = self.decided.since(Timestamp::ZERO);
        self.decided = Timestamp::ZERO.after(since - by);
    }

    pub(super) fn identity(&self) -> &RunIdentity {
        &self.identity
    }

    /// Returns whether works may begin in the next commit.
    pub(super) fn admission(&self) -> Admission {
        if self.end.stop.is_none() { Admission::Open } else { Admission::Closed }
    }

    pub(super) fn heeds_events(&self) -> bool {
        self.conditions.heeds_events()
    }

    /// Returns when there is something to decide though nothing happens.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = [self.schedule.engine().next_wakeup(), self.conditions.next_look()];
        due.into_iter().flatten().min()
    }

    /// Returns whether the run waits for something that another process may give without a wake-up,
    /// such as the names of a holder that was killed.
    pub(super) fn waits_for_others(&self) -> bool {
        self.schedule.waits_outside() || self.conditions.heeds_events()
    }

    /// Takes the records for the next commit.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.effects.records)
    }

    /// Takes the orders to start once the commit has succeeded.
    pub(super) fn take_orders(&mut self) -> Vec<Order> {
        for check in self.conditions.take_starts() {
            let order = self.orders().check(check);
            self.effects.orders.push(order);
        }
        std::mem::take(&mut self.effects.orders)
    }

    /// Takes the orders to stop.
    pub(super) fn take_stops(&mut self) -> Vec<(OrderId, StopMode)> {
        for (work, round) in self.conditions.take_stops() {
            self.effects.stops.push((OrderId::Check { work, round }, StopMode::Kill));
        }
        std::mem::take(&mut self.effects.stops)
    }

    /// Begins to decide: what time alone brings comes first.
    pub(super) fn on_tick(&mut self) {
        self.decided = self.schedule.now();
        self.schedule.apply(Input::Tick).expect("time passes");
        for work in self.steps.take_interrupted() {
            self.ensuring_interrupted(work);
        }
    }

    /// Returns the names that the order of a report may have lost, so that the report means something
    /// else: a process that takes over a name kills its holder first.
    pub(super) fn names_in_doubt(&self, report: &Report) -> &[(Name, Token)] {
        let id = match report {
            Report::Late(id) => id,
            Report::Ended { id, ended } if ended.exit == KILLED && ended.flaw.is_none() => id,
            _ => return &[],
        };
        let attempt = id.work().and_then(|work| self.steps.get(work));
        attempt.map_or(&[], |attempt| &attempt.start.names)
    }

    /// Takes in what has become of an order; `lost` is a name that it has lost.
    pub(super) fn on_report(&mut self, report: Report, lost: Option<Name>) {
        match report {
            Report::Ended { id, mut ended } => {
                let lost = lost.map(|name| format!("{name} was lost while it ran, {PAUSED}"));
                ended.flaw = lost.or(ended.flaw);
                self.on_ended(id, &ended);
            }
            Report::Checked { work, round, end } => self.on_checked(work, round, end),
            Report::Late(id) => self.on_late(id, lost),
            Report::Lost { id, why } => self.on_lost(id, why),
            Report::NoRoom(error) => self.observer.notice(Notice::Run(format!(
                "there is no room for another process, so the next ones wait: {error}"
            ))),
        }
    }

    fn on_ended(&mut self, id: OrderId, ended: &Ended) {
        match id {
            OrderId::Command(grant) | OrderId::Finally(grant) => self.on_process(grant.work, ended),
            OrderId::Hook(hook) => self.on_hook(hook, ended),
            OrderId::Check { .. } => unreachable!("a check ends with a result"),
        }
    }

    fn on_checked(&mut self, work: WorkId, round: u64, end: CheckEnd) {
        let news = self.conditions.checked(work, round, end, self.schedule.now());
        self.on_condition(news);
    }

    /// Asks every attempt to end at the first signal, and kills them at the second one. The stops do
    /// not wait for a commit: that a run is interrupted is stored nowhere.
    pub(super) fn on_signal(&mut self, signal: i32) {
        let before = self.end.stop.replace(Stop::Signal(signal));
        let again = matches!(before, Some(Stop::Signal(_)));
        if !again {
            self.observer.notice(Notice::Stopping);
        }
        // The kernel sends SIGXCPU every second once the processor time is used up, so only a signal
        // that a user sends a second time kills.
        let kill = again && signal != SIGXCPU;
        for work in self.steps.works() {
            self.stop_step(work, kill.then_some(StopMode::Kill));
        }
        self.stop_hooks(if kill { StopMode::Kill } else { StopMode::Ask { grace: GRACE } });
        self.forget_guards();
    }

    pub(super) fn on_events(&mut self, events: &[Event]) {
        self.conditions.wake(events, self.schedule.now());
    }

    pub(super) fn on_request(&mut self, request: &Request) {
        self.effects.records.push(Record::Taken(request.number));
        match Wish::parse(&request.text, |step| self.schedule.called(step)) {
            Some(Wish::CancelAll) => {
                self.end.cancelled = true;
                self.schedule.apply(Input::CancelAll).expect("everything can be cancelled");
                self.stop_hooks(StopMode::Ask { grace: GRACE });
            }
            Some(Wish::Cancel(work)) => {
                // The step may have ended meanwhile.
                let _ = self.schedule.apply(Input::Cancel(work));
            }
            Some(Wish::Decide(work, verdict)) => {
                let news = self.conditions.decide(work, verdict, self.schedule.now());
                self.on_condition(news);
            }
            None => {}
        }
    }

    /// Ends the decisions before a commit: looks at conditions that are due, and at what failures mean
    /// for the other steps.
    pub(super) fn on_all_taken_in(&mut self) {
        for news in self.conditions.look(self.schedule.now()) {
            self.on_condition(Some(news));
        }
        self.schedule.heed_failures();
        self.explain_ends();
    }

    /// Takes in what a commit has decided about names.
    pub(super) fn on_committed(&mut self, committed: Committed) -> Vec<Start> {
        let Committed { starts, refusals } = committed;
        self.observer.note_refusals(refusals, starts.iter().map(|start| start.grant.work));
        starts
    }

    /// Returns whether the disk may keep the user and the steps waiting a moment longer: nothing
    /// depends on it, and there is nothing to show that a user waits for.
    pub(super) fn may_linger(&self) -> bool {
        let due = self.hooks.are_due() || self.steps.owes_finally() || !self.conditions.is_empty();
        let ends = self.steps.is_idle() || self.end.stop.is_some() || self.end.closing.is_some();
        !due && !ends && !self.observer.has_urgent() && self.schedule.all_is_well()
    }

    /// Shows every change, now that the disk has it; begins conditions, and stops attempts that have
    /// to end.
    pub(super) fn publish(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        self.explain_ends();
        let changes = self.schedule.take_transitions();
        for change in &changes {
            match change.to {
                Phase::Cancelling { .. } => self.stop_step(change.work, None),
                Phase::Gated => self.begin_conditions(change.work),
                _ if self.conditions.side(change.work) == Some(Side::Before) => {
                    self.conditions.forget(change.work);
                }
                _ => {}
            }
        }
        let Self { schedule, identity, conditions, observer, .. } = self;
        let waits = |work| conditions.side(work).is_some();
        observer.show(schedule, identity.logs(), &changes, waits, watch);
    }

    /// Shows what is left to say of a run that has ended.
    pub(super) fn show_rest(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        self.observer.show_rest(watch);
    }

    /// Returns whether decisions are left over that the next commit has to take in.
    pub(super) fn has_decisions(&self) -> bool {
        self.steps.has_interrupted()
    }

    /// Stops an attempt as `mode` says, or else within its grace period. Its `finally` is only given
    /// that long.
    fn stop_step(&mut self, work: WorkId, mode: Option<StopMode>) {
        let grace = self.schedule.step(work).grace.unwrap_or(GRACE);
        let Some(attempt) = self.steps.get(work) else { return };
        let usual = match attempt.stage {
            Stage::Command => StopMode::Ask { grace },
            _ => StopMode::Finish { grace },
        };
        match attempt.order() {
            Some(id) => self.effects.stops.push((id, mode.unwrap_or(usual))),
            None => {
                self.conditions.forget(work);
                self.steps.interrupt(work);
            }
        }
    }

    /// Has no step wait for its guards any more; it waits again when the run goes on.
    fn forget_guards(&mut self) {
        for work in self.conditions.waiting(Side::Before) {
            self.conditions.forget(work);
        }
    }

    /// Returns the attempt of a step that is under way, or the last one.
    fn latest(&self, work: WorkId) -> Grant {
        let attempt = self.schedule.engine().attempts(work).expect("it is one of its works");
        Grant { work, attempt }
    }
}
