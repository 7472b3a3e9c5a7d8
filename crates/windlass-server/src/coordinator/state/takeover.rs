//! What a new leader does before it continues a run: take over, retry, cancel.

use std::collections::BTreeMap;

use windlass_core::{Grant, Input, Name, Phase, Token, WorkId, WorkState};
use windlass_store::{AttemptEnd, AttemptRecord};

use super::super::RunError;
use super::super::attempts::{OrderId, Report};
use super::super::journal::{Record, Start};
use super::RunState;
use super::condition::Side;
use super::context::Stop;
use super::step_attempt::{Stage, StepAttempt};

/// What the store knows of the orders of a run that workers execute.
#[derive(Default)]
pub(in super::super) struct Executing {
    /// The orders, with the items that their attempts have.
    pub(in super::super) orders: BTreeMap<OrderId, Vec<(usize, usize)>>,
    /// The names that attempts hold.
    pub(in super::super) names: BTreeMap<Grant, Vec<(Name, Token)>>,
    /// The variables that tell attempts which items of limits they have.
    pub(in super::super) items: BTreeMap<Grant, Vec<(String, String)>>,
}

impl RunState {
    /// Takes over the run from another scheduler, while workers execute its orders.
    pub(in super::super) fn take_over(
        &mut self,
        attempts: &[AttemptRecord],
        executing: &Executing,
    ) {
        for work in self.run.schedule.begun() {
            self.take_over_step(work, attempts, executing);
        }
        for order in executing.orders.keys() {
            match order {
                OrderId::Hook(call) => self.pick_up_hook(*call),
                OrderId::Check { round, .. } => self.waits.note_stray(*round),
                OrderId::Command(_) | OrderId::Finally(_) => {}
            }
        }
        for work in self.run.schedule.works_in(|phase| phase == Phase::Gated) {
            self.waits.begin(&self.run, work, Side::Before);
        }
    }

    fn take_over_step(&mut self, work: WorkId, attempts: &[AttemptRecord], executing: &Executing) {
        let grant = self.run.latest(work);
        let record = known(attempts, grant);
        let end = record.map(|record| record.end);
        let command = executing.orders.get(&OrderId::Command(grant));
        let finally = executing.orders.contains_key(&OrderId::Finally(grant));
        let runs =
            self.run.schedule.engine().phase(work).map(Phase::state) == Some(WorkState::Running);
        let open = runs || finally || matches!(end, Some(AttemptEnd::Lost | AttemptEnd::Retry));
        if self.run.schedule.step(work).ending.finally.is_some() && open {
            self.steps.owe_finally(work, record.filter(|_| !runs).cloned());
        }
        let names = executing.names.get(&grant).cloned().unwrap_or_default();
        let items = executing.items.get(&grant).cloned().unwrap_or_default();
        let start = Start { names, items, ..Start::plain(grant) };
        let began = self.run.schedule.began_attempt(work);
        let retry = &self.run.schedule.step(work).ending.retry;
        match (runs, command, record) {
            (true, Some(items), _) => {
                self.steps.pick_up(StepAttempt::new(start, began), items.clone());
            }
            (true, None, Some(record)) if finally => {
                self.steps.pick_up(StepAttempt::restored(start, record, retry), Vec::new());
            }
            (true, None, Some(record)) if record.end == AttemptEnd::Ensuring => {
                let attempt = StepAttempt::restored(start, record, retry).at(Stage::Ensuring);
                self.steps.pick_up(attempt, Vec::new());
                self.waits.begin(&self.run, work, Side::After);
            }
            (true, None, Some(record)) if record.end == AttemptEnd::Finishing => {
                // No worker was there for its `finally`.
                self.steps.finish_again(&self.run, start, record);
            }
            (true, ..) => {
                let why = "its order is gone".to_owned();
                // It gives back its names.
                self.steps.pick_up(StepAttempt::new(start, began), Vec::new());
                self.on_report(Report::Lost { id: OrderId::Command(grant), why }, None);
            }
            (false, ..) if finally => {
                let attempt = StepAttempt::new(start, began).at(Stage::CleanUp);
                self.steps.pick_up(attempt, Vec::new());
            }
            (false, ..) => {}
        }
    }

    /// Goes on where a killed leader has left the run: attempts that ran are lost, except that the
    /// `finally` of a step still follows.
    pub(in super::super) fn pick_up(&mut self, attempts: &[AttemptRecord]) {
        for work in self.run.schedule.begun() {
            let grant = self.run.latest(work);
            let record = known(attempts, grant);
            let end = record.map(|record| record.end);
            let lives = self.run.schedule.engine().phase(work).map(Phase::state);
            let unclean = matches!(
                end,
                None | Some(AttemptEnd::Lost | AttemptEnd::Retry | AttemptEnd::Ensuring)
            );
            if self.run.schedule.step(work).ending.finally.is_some()
                && (unclean || end == Some(AttemptEnd::Finishing))
            {
                self.steps.owe_finally(work, record.cloned());
            }
            if lives != Some(WorkState::Running) {
                continue;
            }
            match record.filter(|record| record.end == AttemptEnd::Finishing) {
                Some(record) => self.steps.finish_again(&self.run, Start::plain(grant), record),
                None => {
                    let why = "the process that led the run was killed".to_owned();
                    self.on_report(Report::Lost { id: OrderId::Command(grant), why }, None);
                }
            }
        }
        for work in self.run.schedule.works_in(|phase| phase == Phase::Gated) {
            self.waits.begin(&self.run, work, Side::Before);
        }
    }

    /// Has what failed or was cancelled tried again: the named steps, or all of them.
    pub(in super::super) fn reopen(&mut self, steps: &[String]) -> Result<(), RunError> {
        let run = || self.run.identity.id().to_owned();
        let bad = |phase: Phase| matches!(phase, Phase::Failed | Phase::Cancelled);
        let mut works = Vec::new();
        for step in steps {
            let mut again = self.all_called(step)?;
            again.retain(|work| self.run.schedule.engine().phase(*work).is_some_and(bad));
            if again.is_empty() {
                return Err(RunError::NotAgain { run: run(), step: step.clone() });
            }
            works.extend(again);
        }
        if steps.is_empty() {
            works = self.run.schedule.works_in(bad);
        }
        if works.is_empty() {
            return Err(RunError::NothingToRetry { run: run() });
        }
        // A user who tries an ended run again wants it to start something. A queue has no end.
        if !self.run.schedule.stays_open() {
            self.run.schedule.apply(Input::UnpauseAll).expect("a pause can always end");
        }
        self.run.schedule.reopen(&works).expect("nothing of an ended run is under way");
        self.run.effects.records.push(Record::Reopened);
        for work in works {
            self.waits.forget_decisions(&mut self.run, work);
        }
        Ok(())
    }

    /// Cancels a step, all that a step of the file became, or all steps.
    pub(in super::super) fn cancel(&mut self, step: Option<&str>) -> Result<(), RunError> {
        let Some(step) = step else {
            self.run.cancelled = true;
            self.run.schedule.apply(Input::CancelAll).expect("everything can be cancelled");
            return Ok(());
        };
        let mut works = self.all_called(step)?;
        works.retain(|work| {
            self.run
                .schedule
                .engine()
                .phase(*work)
                .is_some_and(|phase| !phase.state().is_terminal())
        });
        if works.is_empty() {
            let (run, step) = (self.run.identity.id().to_owned(), step.to_owned());
            return Err(RunError::StepOver { run, step });
        }
        for work in works {
            self.run.schedule.apply(Input::Cancel(work)).expect("it has not ended");
        }
        self.leave();
        Ok(())
    }

    /// Has nothing else of the run begin here.
    pub(in super::super) fn leave(&mut self) {
        self.run.stop = Some(Stop::Leave);
        self.waits.forget_guards();
    }

    /// Returns the step of that name, or all that a step of the file became.
    fn all_called(&self, step: &str) -> Result<Vec<WorkId>, RunError> {
        if let Some(work) = self.run.schedule.called(step) {
            return Ok(vec![work]);
        }
        let schedule = &self.run.schedule;
        let of_it = |work: &WorkId| schedule.step(*work).declared == step;
        let works: Vec<_> = schedule.works().filter(of_it).collect();
        match works.is_empty() {
            true => Err(self.run.schedule.plan().no_such_step(step).into()),
            false => Ok(works),
        }
    }
}

/// Finds the record of an attempt; they are sorted by work and attempt.
fn known(attempts: &[AttemptRecord], grant: Grant) -> Option<&AttemptRecord> {
    let key = |record: &AttemptRecord| (record.work, record.attempt);
    let found = attempts.binary_search_by_key(&(grant.work, grant.attempt), key);
    found.ok().map(|place| &attempts[place])
}
