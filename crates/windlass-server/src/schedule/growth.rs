//! The steps of a run that stays open: they are added while it runs, and forgotten after they have ended.

use std::collections::{BTreeMap, VecDeque};

use windlass_core::{Fact, Happening, WorkId};
use windlass_workflow::Step;

use super::Schedule;

/// The steps that were added to a run and are not forgotten.
#[derive(Default)]
pub(super) struct Growth {
    steps: BTreeMap<WorkId, Step>,
    /// The steps that the journal does not know yet.
    untaken: VecDeque<(WorkId, Step)>,
}

impl Growth {
    pub(super) fn step(&self, work: WorkId) -> Option<&Step> {
        self.steps.get(&work)
    }

    pub(super) fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        self.steps.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }
}

impl Schedule {
    /// Makes the run one that stays open, to which these steps were added, in the order of their numbers.
    pub(crate) fn stay_open(&mut self, added: Vec<(WorkId, Step)>) {
        let untaken = added.into();
        self.growth = Some(Growth { untaken, ..Growth::default() });
    }

    /// Returns whether the run stays open when all its steps have ended.
    pub(crate) fn stays_open(&self) -> bool {
        self.growth.is_some()
    }

    /// Returns how many steps were ever added and taken, which is the number of the last one.
    pub(crate) fn taken(&self) -> u64 {
        self.engine.submitted()
    }

    /// Adds a step under the next number.
    pub(crate) fn add(&mut self, work: WorkId, step: Step) {
        let growth = self.growth.as_mut().expect("steps are added to a run that stays open");
        growth.steps.insert(work, step);
        let added = self.with_submission(work, |schedule, submission| {
            schedule.call(|engine, world| engine.submit(world, submission))
        });
        let number = added.expect("no step is forgotten while one is added that follows it");
        assert_eq!(number, work, "steps are taken in the order of their numbers");
    }

    /// Notes steps that were added and that facts to come will submit.
    pub(crate) fn expect_added(&mut self, added: impl IntoIterator<Item = (WorkId, Step)>) {
        if let Some(growth) = &mut self.growth {
            growth.untaken.extend(added);
        }
    }

    /// Returns the number of the last step that was added, as far as this schedule knows.
    pub(crate) fn last_added(&self) -> u64 {
        let untaken = self.growth.as_ref().and_then(|growth| growth.untaken.back());
        untaken.map_or(self.taken(), |(work, _)| work.get())
    }

    /// Adds the steps that the replayed journal does not know.
    pub(crate) fn add_untaken(&mut self) {
        while let Some((work, step)) =
            self.growth.as_mut().and_then(|growth| growth.untaken.pop_front())
        {
            self.add(work, step);
        }
    }

    /// Provides the next step that was added for its fact.
    pub(super) fn stage_added(&mut self, fact: &Fact) {
        let Happening::Submitted { work } = fact.what else { return };
        let Some(growth) = &mut self.growth else { return };
        let (number, step) = growth.untaken.pop_front().expect("a step is stored before its fact");
        assert_eq!(number, work, "steps are taken in the order of their numbers");
        growth.steps.insert(work, step);
        self.with_submission(work, |schedule, submission| schedule.engine.stage(submission));
    }
}
