//! Changes of steps of a queue that have not begun: another command or other settings, another place.
//!
//! A change is stored as a row before the journal has its fact, so a replay takes the rows as it comes to the
//! facts. A change that had no effect, because its step had begun by then, has no fact, and is passed over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass_core::{Fact, Happening, Input, Phase, WorkId, WorkState};
use windlass_workflow::Step;

use super::Schedule;

/// A change of a step that has not begun.
#[derive(Clone)]
pub(crate) enum StepChange {
    /// It is this from now on.
    Edit { work: WorkId, step: Box<Step> },
    /// It comes before another one, or last.
    Move { work: WorkId, before: Option<WorkId> },
}

/// The changes of the steps of a queue since the base of its journal.
#[derive(Default)]
pub(super) struct Changes {
    /// Those that no fact is known of, by their numbers.
    untaken: VecDeque<(u64, StepChange)>,
    /// The number of the last one.
    last: u64,
    /// The last edit of each step.
    edits: BTreeMap<WorkId, u64>,
}

impl Changes {
    /// Takes the change that a fact stands for, and those before it, which had no effect.
    fn take(&mut self, fits: impl Fn(&StepChange) -> bool) -> (u64, StepChange) {
        loop {
            let next = self.untaken.pop_front().expect("a change is stored before its fact");
            if fits(&next.1) {
                return next;
            }
        }
    }

    /// Forgets a step.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.edits.remove(&work);
    }

    /// Returns the last edit of each step, and the number of the last change, for a base that stands for them.
    pub(super) fn fold(&mut self) -> (Vec<(WorkId, u64)>, u64) {
        (std::mem::take(&mut self.edits).into_iter().collect(), self.last)
    }
}

impl Schedule {
    /// Notes changes that facts to come stand for, or that are to be taken.
    pub(crate) fn expect_changes(&mut self, changes: Vec<(u64, StepChange)>) {
        if let Some(growth) = &mut self.growth {
            let known = &mut growth.changes;
            known.last = changes.last().map_or(known.last, |(number, _)| *number);
            known.untaken.extend(changes);
        }
    }

    /// Notes that changes up to this number were made before.
    pub(crate) fn skip_changes(&mut self, last: u64) {
        if let Some(growth) = &mut self.growth {
            growth.changes.last = growth.changes.last.max(last);
        }
    }

    /// Returns the number of the last change, as far as this schedule knows.
    pub(crate) fn last_change(&self) -> u64 {
        self.growth.as_ref().map_or(0, |growth| growth.changes.last)
    }

    /// Takes the changes that no fact stands for. Returns the steps that are something else now.
    pub(crate) fn take_changes(&mut self) -> Vec<WorkId> {
        let mut edited = Vec::new();
        while let Some((number, change)) = self.next_change() {
            match change {
                StepChange::Edit { work, step } => {
                    if self.may_change(work) {
                        self.edit(number, work, *step);
                        edited.push(work);
                    }
                }
                StepChange::Move { work, before } => {
                    // One of them may be forgotten.
                    let _ = self.apply(Input::Move { work, before });
                }
            }
        }
        edited
    }

    /// Makes a step that has not begun this one.
    fn edit(&mut self, number: u64, work: WorkId, step: Step) {
        let followed = self.followed(work);
        self.install(number, work, step);
        self.with_submission(work, |schedule, new| {
            schedule.call(|engine, world| engine.replace(world, work, new))
        })
        .expect("it has not begun");
        let follows = self.followed(work);
        for on in followed.difference(&follows) {
            self.call(|engine, world| engine.remove_dependency(world, work, *on))
                .expect("it has not begun");
        }
        for on in follows.difference(&followed) {
            if !self.may_change(work) {
                // One that has failed has ended this step.
                break;
            }
            self.call(|engine, world| engine.add_dependency(world, work, (*on).into()))
                .expect("no step is forgotten while another one is made to follow it");
        }
    }

    /// Returns the steps that a step follows.
    fn followed(&self, work: WorkId) -> BTreeSet<WorkId> {
        self.step(work).after.iter().map(|edge| WorkId::from_index(edge.step)).collect()
    }

    fn next_change(&mut self) -> Option<(u64, StepChange)> {
        self.growth.as_mut()?.changes.untaken.pop_front()
    }

    fn may_change(&self, work: WorkId) -> bool {
        self.engine.attempts(work) == Some(0)
            && self.engine.phase(work).map(Phase::state) == Some(WorkState::Pending)
    }

    /// Prepares for a fact about a change.
    pub(super) fn expect_change(&mut self, fact: &Fact) {
        let changes = &mut self.growing().changes;
        match fact.what {
            Happening::Replaced { work } => {
                let fits = |change: &StepChange| matches!(change, StepChange::Edit { work: of, .. } if *of == work);
                let (number, StepChange::Edit { step, .. }) = changes.take(fits) else {
                    unreachable!("it is an edit");
                };
                self.install(number, work, *step);
                self.with_submission(work, |schedule, new| schedule.engine.stage(new));
            }
            Happening::Moved { work, before } => {
                let fits = |change: &StepChange| {
                    matches!(change, StepChange::Move { work: of, before: next }
                        if (*of, *next) == (work, before))
                };
                drop(changes.take(fits));
            }
            _ => {}
        }
    }

    /// Puts a step in the place of the one that has this number.
    fn install(&mut self, number: u64, work: WorkId, step: Step) {
        self.growing().changes.edits.insert(work, number);
        if let Some(before) = self.growing().remove(work) {
            self.limit_users.remove(work, &before);
        }
        self.names.drop_work(work);
        self.insert(work, step);
    }
}
