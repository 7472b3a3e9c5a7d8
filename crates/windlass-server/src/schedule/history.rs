//! Everything that is stored of a run and from which its schedule is rebuilt.

use windlass_core::{Fact, WorkId};
use windlass_store::{StoreError, Transaction};
use windlass_workflow::Step;

use super::Schedule;
use crate::queue::step_of;

/// The journal of a run, and what was added to the run.
pub(crate) struct RunHistory {
    pub(crate) facts: Vec<Fact>,
    /// The steps that were added, if the run stays open.
    added: Option<Vec<(WorkId, Step)>>,
}

impl RunHistory {
    /// Reads what is stored of a run.
    pub(crate) fn read(transaction: &Transaction<'_>, run: &str) -> Result<Self, StoreError> {
        let facts = transaction.facts().of(run)?;
        let added = match transaction.queues().of_run(run)? {
            Some(_) => {
                let stored = transaction.queues().steps_after(run, 0)?;
                Some(stored.iter().map(step_of).collect::<Result<_, _>>()?)
            }
            None => None,
        };
        Ok(Self { facts, added })
    }

    /// Returns how many facts the journal has, those that a base stands for included.
    pub(crate) fn seen(&self) -> usize {
        self.facts.len()
    }

    /// Returns whether the scheduler has never led the run.
    pub(crate) fn is_new(&self) -> bool {
        self.facts.is_empty() && self.added.is_none()
    }

    /// Brings a new schedule to where the journal ends. A queue takes what was added since.
    pub(crate) fn replay(&mut self, schedule: &mut Schedule) {
        self.replay_journal(schedule);
        schedule.add_untaken();
    }

    /// Brings a new schedule to where the journal ends.
    pub(crate) fn replay_journal(&mut self, schedule: &mut Schedule) {
        if let Some(added) = self.added.take() {
            schedule.stay_open(added);
        }
        schedule.replay(&self.facts);
    }
}
