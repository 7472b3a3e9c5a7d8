//! The attempts of a run that are under way: what follows a command, and what an end means.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{Ending, Grant, Input, Name, Outcome, Phase, Token, WorkId};
use windlass_store::{AttemptEnd, AttemptRecord};

use super::super::attempts::{Order, OrderId, StopMode};
use super::super::journal::{Record, Start};
use super::PAUSED;
use super::condition::Conclusion;
use super::context::{RunContext, Stop};
use super::items::Items;
use super::orders::{GRACE, OrderBuilder};
use super::step_attempt::{Stage, StepAttempt, outcome};
use crate::command::ResolveError;
use crate::ended::Ended;

/// The attempts that are under way, and what has to follow others.
pub(super) struct Steps {
    running: BTreeMap<WorkId, StepAttempt>,
    items: Items,
    /// The steps that have begun, and whose `finally` has not ended since, with the record of the
    /// last attempt if that has ended.
    uncleaned: BTreeMap<WorkId, Option<AttemptRecord>>,
    /// The steps whose `finally` starts after the next commit.
    due_finally: Vec<WorkId>,
    /// The steps whose checks behind the command were given up, and that have to end for it.
    interrupted: Vec<WorkId>,
    /// How many of the last attempts of steps workers have lost, in a row; none in the foreground, where a
    /// user decides whether a run that was killed is resumed.
    lost: Option<BTreeMap<WorkId, u32>>,
    /// The processes of ended attempts that could not be ended. No other attempt of the step may begin.
    unended: BTreeMap<WorkId, Vec<u32>>,
}

/// Whether it is checked what a step has to ensure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ensuring {
    /// As before.
    Unchanged,
    /// The checks have to begin.
    Begins,
    /// The checks have to be given up.
    GivenUp,
}

impl Steps {
    pub(super) fn new(items: Items) -> Self {
        Self {
            running: BTreeMap::new(),
            items,
            uncleaned: BTreeMap::new(),
            due_finally: Vec::new(),
            interrupted: Vec::new(),
            lost: None,
            unended: BTreeMap::new(),
        }
    }

    /// Counts the attempts that workers lose from now on, after those in `attempts`, which are sorted by work
    /// and attempt.
    pub(super) fn count_lost(&mut self, attempts: &[AttemptRecord]) {
        let mut lost: BTreeMap<WorkId, u32> = BTreeMap::new();
        for record in attempts.iter().filter(|record| record.attempt > 0) {
            match record.end {
                AttemptEnd::Lost => *lost.entry(record.work).or_default() += 1,
                _ => drop(lost.remove(&record.work)),
            }
        }
        self.lost = Some(lost);
    }

    /// Drops what is noted about a step that is forgotten.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.lost.as_mut().and_then(|lost| lost.remove(&work));
        self.unended.remove(&work);
    }

    /// Begins an attempt that the journal knows, and returns the order for its command.
    pub(super) fn begin(&mut self, run: &RunContext, mut start: Start) -> Order {
        let grant = start.grant;
        if let Some(pids) = self.unended.get(&grant.work).cloned() {
            start.broken = Some(ResolveError::Unended { pids });
        }
        let step = run.schedule.step(grant.work);
        if step.ending.finally.is_some() {
            self.uncleaned.insert(grant.work, None);
        }
        self.items.take(grant.work, run.schedule.plan(), step);
        self.running.insert(grant.work, StepAttempt::new(start, run.schedule.now()));
        self.orders(run).command(grant)
    }

    /// Takes in the end of a process of a step.
    pub(super) fn on_process(
        &mut self,
        run: &mut RunContext,
        work: WorkId,
        ended: &Ended,
    ) -> Ensuring {
        if !ended.unended.is_empty() {
            self.unended.entry(work).or_default().extend(&ended.unended);
        }
        let attempt = self.attempt(work);
        match attempt.stage {
            Stage::Command => {
                attempt.note_command(ended);
                return self.on_command(run, work, ended);
            }
            Stage::Ensuring => unreachable!("no process of it runs"),
            Stage::Finally => self.on_finally(run, work, ended),
            Stage::CleanUp => self.on_clean_up(run, work, ended),
        }
        Ensuring::Unchanged
    }

    /// Has what the step has to ensure checked once its command has succeeded, or settles how it ends.
    fn on_command(&mut self, run: &mut RunContext, work: WorkId, ended: &Ended) -> Ensuring {
        let step = run.schedule.step(work);
        let asked = matches!(run.schedule.engine().phase(work), Some(Phase::Cancelling { .. }));
        let stopping = run.stop.is_some();
        if ended.is_success() && !step.ending.ensures.is_empty() && !asked && !stopping {
            self.let_go(run, work);
            let attempt = self.attempt(work);
            attempt.stage = Stage::Ensuring;
            run.record_stage(attempt, AttemptEnd::Ensuring);
            return Ensuring::Begins;
        }
        let outcome = outcome(ended, &step.ending.retry, stopping);
        self.settle(run, work, outcome, ended.why());
        Ensuring::Unchanged
    }

    /// Settles how an attempt ends, unless the engine knows better; its `finally` comes first.
    fn settle(
        &mut self,
        run: &mut RunContext,
        work: WorkId,
        outcome: Outcome,
        why: Option<String>,
    ) {
        let attempt = self.attempt(work);
        attempt.outcome = outcome;
        attempt.why = attempt.why.take().or(why);
        let ending = run.schedule.engine().ending(attempt.start.grant, outcome);
        let last = match ending.expect("it is under way") {
            Ending::Retry { .. } => false,
            Ending::Interrupted => run.stop.is_some(),
            _ => true,
        };
        if !last || run.schedule.step(work).ending.finally.is_none() {
            return self.complete(run, work);
        }
        attempt.stage = Stage::Finally;
        run.record_stage(attempt, AttemptEnd::Finishing);
        self.let_go(run, work);
        self.due_finally.push(work);
    }

    fn on_finally(&mut self, run: &mut RunContext, work: WorkId, ended: &Ended) {
        self.uncleaned.remove(&work);
        if self.is_cut_short(work, ended) {
            return self.leave_unfinished(run, work);
        }
        let attempt = self.attempt(work);
        if let Some(why) = ended.why().filter(|_| attempt.outcome == Outcome::Success) {
            attempt.outcome = Outcome::Failed;
            attempt.why = Some(format!("finally: {why}"));
            run.observer.note_failed_finally(attempt.start.grant);
        }
        let note = ended.note().map(|note| format!("finally: {note}"));
        attempt.note = joined([attempt.note.take(), note]);
        self.complete(run, work);
    }

    /// Takes in the end of a `finally` that has followed an earlier attempt. Stores that it has ended,
    /// so that no later leader repeats it: only an attempt that ended as [`AttemptEnd::Retry`] or
    /// [`AttemptEnd::Lost`] is cleaned up after.
    fn on_clean_up(&mut self, run: &mut RunContext, work: WorkId, ended: &Ended) {
        let cut_short = self.is_cut_short(work, ended);
        self.running.remove(&work);
        let record = self.uncleaned.remove(&work).flatten();
        if let Some(record) = record.filter(|_| !cut_short) {
            run.store_attempt(AttemptRecord { end: AttemptEnd::Interrupted, ..record }, Vec::new());
        }
    }

    /// Returns whether a `finally` has ended only because the run is interrupted.
    fn is_cut_short(&self, work: WorkId, ended: &Ended) -> bool {
        !ended.is_success() && self.running.get(&work).is_some_and(|attempt| attempt.interrupted)
    }

    /// Leaves a step whose `finally` was cut short to the next leader. If the command has a result, the
    /// leader repeats the `finally` and then ends the attempt with that result. If the command was
    /// interrupted too, the attempt is lost. An attempt that was cancelled or timed out ends now.
    fn leave_unfinished(&mut self, run: &mut RunContext, work: WorkId) {
        let StepAttempt { start, outcome, .. } = self.attempt(work);
        let (grant, interrupted) = (start.grant, *outcome == Outcome::Interrupted);
        let asked = matches!(run.schedule.engine().phase(work), Some(Phase::Cancelling { .. }));
        if asked {
            self.complete(run, work);
        } else if interrupted {
            self.on_command_lost(run, grant, "interrupted".to_owned());
        } else {
            let attempt = self.running.remove(&work).expect("it is under way");
            run.record_attempt(&attempt, AttemptEnd::Finishing);
        }
    }

    /// Ends an attempt, and gives back what it held.
    fn complete(&mut self, run: &mut RunContext, work: WorkId) {
        let mut attempt = self.running.remove(&work).expect("it is under way");
        if let Some(lost) = &mut self.lost {
            lost.remove(&work);
        }
        let (grant, outcome) = (attempt.start.grant, attempt.outcome);
        let ending = run.schedule.engine().ending(grant, outcome).expect("it is under way");
        attempt.why = run.why_asked(work).or(attempt.why);
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
        let record = run.record_attempt(&attempt, end);
        self.note_record(work, record);
        run.schedule.apply(Input::Finished { grant, outcome }).expect("an attempt ends once");
        if let Some(why) = attempt.why {
            run.observer.note_reason(work, grant.attempt, why);
        }
    }

    /// Gives back the slot and the resources of a step that is under way.
    fn let_go(&mut self, run: &mut RunContext, work: WorkId) {
        self.items.give_back(work);
        let grant = run.latest(work);
        run.schedule.apply(Input::Suspend(grant)).expect("it is under way");
    }

    /// Records the result of the conditions after a command.
    pub(super) fn on_ensured(
        &mut self,
        run: &mut RunContext,
        work: WorkId,
        conclusion: Conclusion,
    ) {
        if !self.running.get(&work).is_some_and(|attempt| attempt.stage == Stage::Ensuring) {
            return;
        }
        match conclusion {
            Conclusion::Passed | Conclusion::Skip => self.settle(run, work, Outcome::Success, None),
            Conclusion::Failed(why) if run.stop.is_some() => {
                self.settle(run, work, Outcome::Interrupted, Some(why));
            }
            Conclusion::Failed(why) => {
                let named = run.schedule.step(work).ending.retry.on_exit.is_some();
                let again = Outcome::Retry { delay: Duration::ZERO };
                self.settle(run, work, if named { Outcome::Failed } else { again }, Some(why));
            }
        }
    }

    /// Ends the attempts whose checks behind the command were given up.
    pub(super) fn end_interrupted(&mut self, run: &mut RunContext) {
        for work in std::mem::take(&mut self.interrupted) {
            run.effects.records.push(Record::WaitOver(work));
            self.on_ensured(run, work, Conclusion::Failed("interrupted".to_owned()));
        }
    }

    /// Repeats an order that was not started in time, or ends it if the step has lost a name.
    pub(super) fn on_late(&mut self, run: &mut RunContext, id: OrderId, lost_name: Option<Name>) {
        let mut order = match id {
            OrderId::Command(grant) => self.orders(run).command(grant),
            OrderId::Finally(grant) => self.orders(run).finally(grant),
            OrderId::Check { .. } | OrderId::Hook(_) => unreachable!("they hold no names"),
        };
        if let Some(name) = lost_name {
            order.command = Err(lost(name));
        } else if let OrderId::Command(grant) = id
            && self.names(grant.work).is_empty()
        {
            // Only what holds names can be late, and an earlier scheduler has seen these go.
            order.command = Err(format!("the names that it held were lost, {PAUSED}"));
        }
        run.effects.orders.push(order);
    }

    /// Has the attempt of a step hold no names any more.
    pub(super) fn forget_names(&mut self, work: WorkId) {
        self.attempt(work).start.names.clear();
    }

    /// Returns the order of a `finally` whose step has lost a name: it runs without names.
    pub(super) fn finally_without_names(&mut self, run: &RunContext, grant: Grant) -> Order {
        self.forget_names(grant.work);
        self.orders(run).finally(grant)
    }

    /// Takes in that it is unknown how the command of an attempt has ended: it counts as interrupted.
    pub(super) fn on_command_lost(&mut self, run: &mut RunContext, grant: Grant, why: String) {
        let began = run.schedule.began_attempt(grant.work);
        let attempt = self.running.remove(&grant.work);
        let mut attempt = attempt.unwrap_or_else(|| StepAttempt::new(Start::plain(grant), began));
        if let Some(lost) = &mut self.lost {
            let lost = lost.entry(grant.work).or_default();
            *lost += 1;
            if *lost >= run.schedule.step(grant.work).ending.crash_limit {
                let why = format!("{why}; {lost} attempts in a row were lost (crash_limit)");
                self.running.insert(grant.work, attempt);
                return self.settle(run, grant.work, Outcome::Failed, Some(why));
            }
        }
        attempt.why = Some(why);
        self.items.give_back(grant.work);
        let record = run.record_attempt(&attempt, AttemptEnd::Lost);
        self.note_record(grant.work, record);
        run.schedule.lose(grant);
        run.observer.note_lost(grant);
    }

    /// Takes in that it is unknown how a `finally` has ended: it is repeated.
    pub(super) fn on_finally_lost(&mut self, work: WorkId) {
        match self.attempt(work).stage {
            // The step still owes it, so it is ordered again after the next commit.
            Stage::CleanUp => drop(self.running.remove(&work)),
            _ => self.due_finally.push(work),
        }
    }

    /// Stops an attempt as `mode` says, or else within its grace period. Its `finally` is only given
    /// that long.
    pub(super) fn stop(
        &mut self,
        run: &mut RunContext,
        work: WorkId,
        mode: Option<StopMode>,
    ) -> Ensuring {
        let Some(attempt) = self.running.get_mut(&work) else { return Ensuring::Unchanged };
        let grace = run.schedule.step(work).ending.grace.unwrap_or(GRACE);
        let usual = match attempt.stage {
            Stage::Command => StopMode::Ask { grace },
            _ => StopMode::Finish { grace },
        };
        match attempt.order() {
            Some(id) => {
                let finishes = matches!(id, OrderId::Finally(_));
                attempt.interrupted |= finishes && matches!(run.stop, Some(Stop::Signal(_)));
                run.effects.stops.push((id, mode.unwrap_or(usual)));
                Ensuring::Unchanged
            }
            None => {
                self.interrupted.push(work);
                Ensuring::GivenUp
            }
        }
    }

    /// Stops the command of a step, if it runs. What follows a command goes on.
    pub(super) fn halt(&mut self, run: &mut RunContext, work: WorkId) {
        let runs = run.schedule.engine().phase(work) == Some(Phase::Running);
        let is_command =
            self.running.get(&work).is_some_and(|attempt| attempt.stage == Stage::Command);
        if runs && is_command {
            let grant = run.latest(work);
            run.schedule.apply(Input::Halt(grant)).expect("it is under way");
            run.effects.stops.push((OrderId::Command(grant), StopMode::Halt));
        }
    }

    /// Lets the commands continue that were stopped and that no pause keeps.
    pub(super) fn go_on(&self, run: &mut RunContext) {
        for work in run.schedule.works_in(|phase| phase == Phase::Halted) {
            let engine = run.schedule.engine();
            if !engine.is_paused(work) && engine.all_paused_since().is_none() {
                let grant = run.latest(work);
                run.schedule.apply(Input::Continue(grant)).expect("it was stopped");
                run.effects.stops.push((OrderId::Command(grant), StopMode::Continue));
            }
        }
    }

    /// Returns the orders for each `finally` that is due after a commit.
    pub(super) fn take_due_orders(&mut self, run: &RunContext) -> Vec<Order> {
        let mut works = std::mem::take(&mut self.due_finally);
        let interrupted = matches!(run.stop, Some(Stop::Signal(_)));
        let over = |work: WorkId| {
            run.schedule.engine().phase(work).is_some_and(|phase| phase.state().is_terminal())
        };
        let idle = |work: &WorkId| !self.running.contains_key(work);
        let due = |work: &WorkId| idle(work) && (interrupted || over(*work));
        for work in self.uncleaned.keys().copied().filter(due).collect::<Vec<_>>() {
            let mut attempt = StepAttempt::new(Start::plain(run.latest(work)), run.schedule.now());
            attempt.stage = Stage::CleanUp;
            self.running.insert(work, attempt);
            works.push(work);
        }
        let finally = |work| self.orders(run).finally(run.latest(work));
        works.into_iter().map(finally).collect()
    }

    /// Notes that a step has begun under an earlier leader, and that its `finally` has not ended since
    /// the attempt of `record`.
    pub(super) fn owe_finally(&mut self, work: WorkId, record: Option<AttemptRecord>) {
        self.uncleaned.insert(work, record);
    }

    /// Keeps the record of an attempt that has ended until the step's `finally` has.
    fn note_record(&mut self, work: WorkId, record: AttemptRecord) {
        if let Some(last) = self.uncleaned.get_mut(&work) {
            *last = Some(record);
        }
    }

    /// Repeats the `finally` of an attempt whose command had ended under an earlier leader.
    pub(super) fn finish_again(&mut self, run: &RunContext, start: Start, record: &AttemptRecord) {
        let grant = start.grant;
        let retry = &run.schedule.step(grant.work).ending.retry;
        let attempt = StepAttempt::restored(start, record, retry);
        self.running.insert(grant.work, attempt);
        self.due_finally.push(grant.work);
    }

    /// Goes on with an attempt that an earlier scheduler began, at the stage that it has reached.
    pub(super) fn pick_up(&mut self, attempt: StepAttempt, items: Vec<(usize, usize)>) {
        let work = attempt.start.grant.work;
        if !items.is_empty() {
            self.items.take_again(work, items);
        }
        self.running.insert(work, attempt);
    }

    /// Returns the items that the attempt of a step has.
    pub(super) fn items(&self, work: WorkId) -> Vec<(usize, usize)> {
        self.items.of_work(work)
    }

    /// Returns the names that the attempt of a step holds.
    pub(super) fn names(&self, work: WorkId) -> &[(Name, Token)] {
        self.running.get(&work).map_or(&[], |attempt| &attempt.start.names)
    }

    /// Returns the steps under way whose commands have ended.
    pub(super) fn ended_commands(&self) -> impl Iterator<Item = WorkId> {
        let ended = self.running.iter().filter(|(_, attempt)| attempt.stage != Stage::Command);
        ended.map(|(work, _)| *work)
    }

    pub(super) fn works(&self) -> Vec<WorkId> {
        self.running.keys().copied().collect()
    }

    /// Returns whether no attempt is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns whether a `finally` has to run, now or later.
    pub(super) fn owes_finally(&self) -> bool {
        !self.uncleaned.is_empty() || !self.due_finally.is_empty()
    }

    /// Returns whether attempts have to end in the next commit.
    pub(super) fn has_interrupted(&self) -> bool {
        !self.interrupted.is_empty()
    }

    fn attempt(&mut self, work: WorkId) -> &mut StepAttempt {
        self.running.get_mut(&work).expect("it is under way")
    }

    fn orders<'a>(&'a self, run: &'a RunContext) -> OrderBuilder<'a> {
        OrderBuilder { run, items: &self.items, running: &self.running }
    }
}

/// Says why a step cannot start that has lost a name.
fn lost(name: Name) -> String {
    ResolveError::Lost { name, how: PAUSED }.to_string()
}

/// Joins phrases to one; none if there is none.
pub(super) fn joined<const N: usize>(phrases: [Option<String>; N]) -> Option<String> {
    phrases.into_iter().flatten().reduce(|all, phrase| format!("{all}; {phrase}"))
}
