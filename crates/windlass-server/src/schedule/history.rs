//! Everything that is stored of a run and from which its schedule is rebuilt.

use windlass_core::{Fact, Happening, WorkId};
use windlass_store::{RunBase, StoreError, Transaction};
use windlass_workflow::Step;

use super::{Schedule, StepChange};
use crate::queue::{change_of, step_of};

/// The journal of a run, and what was added to the run.
pub(crate) struct RunHistory {
    pub(crate) facts: Vec<Fact>,
    /// What stands for the facts before, and their number.
    base: Option<(RunBase, usize)>,
    /// The steps that were added, if the run stays open.
    added: Option<Added>,
    /// The names of the workers that facts mean by numbers.
    workers: Vec<String>,
}

/// What was added to a run that stays open.
struct Added {
    steps: Vec<(WorkId, Step)>,
    /// The changes of its steps since the base.
    changes: Vec<(u64, StepChange)>,
    /// The number of the last change.
    last_change: u64,
}

impl RunHistory {
    /// Reads what is stored of a run.
    pub(crate) fn read(transaction: &Transaction<'_>, run: &str) -> Result<Self, StoreError> {
        let facts = transaction.facts().of(run)?;
        let added = match transaction.queues().of_run(run)? {
            Some(queue) => {
                let steps = transaction.queues().steps_after(run, 0)?;
                let steps = steps.iter().map(step_of).collect::<Result<_, _>>()?;
                let changes = transaction.queues().changes_after(run, 0)?;
                let changes = changes.iter().map(change_of).collect::<Result<_, _>>()?;
                Some(Added { steps, changes, last_change: queue.changed })
            }
            None => None,
        };
        let base = match transaction.queues().base(run)? {
            Some(base) => Some((RunBase::decode(&base.text)?, base.facts)),
            None => None,
        };
        let workers = transaction.orders().worker_names(run)?;
        Ok(Self { facts, base, added, workers })
    }

    /// Returns how many facts the journal has, those that a base stands for included.
    pub(crate) fn seen(&self) -> usize {
        self.facts.len() + self.base.as_ref().map_or(0, |(_, facts)| *facts)
    }

    /// Returns the attempts that ran when the base was taken, as the facts that began them.
    pub(crate) fn begun_before(&self) -> Vec<Fact> {
        let Some((base, _)) = &self.base else { return Vec::new() };
        let attempt = |work: WorkId| {
            let works = &base.engine.works;
            let place = works.binary_search_by_key(&work, |entry| entry.work).ok()?;
            Some(works[place].attempts)
        };
        let begun = base.began.iter().filter_map(|(work, at)| {
            let what = Happening::Started { work: *work, attempt: attempt(*work)?, worker: None };
            Some(Fact { at: *at, what })
        });
        begun.collect()
    }

    /// Returns whether the scheduler has never led the run.
    pub(crate) fn is_new(&self) -> bool {
        self.facts.is_empty() && self.added.is_none()
    }

    /// Brings a new schedule to where the journal ends. A queue takes what was added and changed since. Returns
    /// the steps of it that are something else now.
    pub(crate) fn replay(&mut self, schedule: &mut Schedule) -> Vec<WorkId> {
        self.replay_journal(schedule);
        schedule.add_untaken();
        schedule.take_changes()
    }

    /// Brings a new schedule to where the journal ends.
    pub(crate) fn replay_journal(&mut self, schedule: &mut Schedule) {
        schedule.name_workers(&self.workers);
        if let Some(Added { steps, changes, last_change }) = self.added.take() {
            schedule.stay_open(self.base.as_ref().map(|(base, _)| base), steps);
            schedule.expect_changes(changes);
            schedule.skip_changes(last_change);
        }
        schedule.replay(&self.facts);
    }
}
