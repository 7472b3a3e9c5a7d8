//! The works of a run that wait for names which the whole machine shares.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Fact, Grant, Happening, Input, Need, Phase, Rejected, WorkId, WorkState};

use super::{Schedule, next_attempt};

/// The works that wait for names which the whole machine shares.
#[derive(Default)]
pub(super) struct NameQueues {
    /// The works that a name has refused, with what they need.
    refused: BTreeMap<WorkId, Vec<Need>>,
    /// The same works, by what they need.
    by_needs: BTreeMap<Vec<Need>, BTreeSet<WorkId>>,
    /// The works in the queue of a name, also those that were woken and find no room inside the run.
    queued: BTreeSet<WorkId>,
}

impl NameQueues {
    fn add(&mut self, work: WorkId, needs: Vec<Need>) {
        self.remove(work);
        self.by_needs.entry(needs.clone()).or_default().insert(work);
        self.refused.insert(work, needs);
    }

    /// Forgets a work, which needs something else now.
    pub(super) fn drop_work(&mut self, work: WorkId) {
        self.remove(work);
        self.queued.remove(&work);
    }

    fn remove(&mut self, work: WorkId) {
        if let Some(needs) = self.refused.remove(&work)
            && let Some(works) = self.by_needs.get_mut(&needs)
        {
            works.remove(&work);
            if works.is_empty() {
                self.by_needs.remove(&needs);
            }
        }
    }
}

impl Schedule {
    /// Takes a grant back, because a name among `needs` has refused the work.
    pub(crate) fn refuse(&mut self, grant: Grant, needs: Vec<Need>) -> Result<(), Rejected> {
        self.apply(Input::Refuse(grant))?;
        self.names.add(grant.work, needs);
        self.names.queued.insert(grant.work);
        Ok(())
    }

    /// Notes that works may be in the queues of their names, because an earlier leader has claimed these.
    pub(crate) fn expect_queued(&mut self, works: impl Iterator<Item = WorkId>) {
        let waits = |work: &WorkId| {
            self.engine.phase(*work).is_some_and(|phase| phase.state() == WorkState::Pending)
        };
        self.names.queued.extend(works.filter(waits));
    }

    /// Begins a granted work, which has all names that it needs.
    pub(crate) fn begin(&mut self, grant: Grant) -> Result<(), Rejected> {
        self.apply(Input::Begin(grant))?;
        self.names.queued.remove(&grant.work);
        Ok(())
    }

    /// Keeps of these grants those that still hold: time may have ended a work.
    pub(crate) fn keep_granted(&mut self, grants: &mut Vec<Grant>) {
        if !grants.is_empty() {
            self.apply(Input::Tick).expect("time passes");
            grants.retain(|grant| self.engine.phase(grant.work) == Some(Phase::Granted));
        }
    }

    /// Returns the facts that granted attempts begin now. They begin with [`Schedule::begin_stored`] once a
    /// commit has these facts.
    pub(crate) fn starts_of(&self, grants: impl Iterator<Item = Grant>) -> Vec<Fact> {
        let at = self.now();
        let started = |Grant { work, attempt }| Fact {
            at,
            what: Happening::Started { work, attempt, worker: None },
        };
        grants.map(started).collect()
    }

    /// Begins a granted work, as a fact says that the journal has.
    pub(crate) fn begin_stored(&mut self, start: &Fact) {
        self.call_at(start.at, |engine, world| engine.evolve(world, start));
        if let Happening::Started { work, .. } = start.what {
            self.names.queued.remove(&work);
        }
    }

    /// Returns whether a work waits for a name or a limit that has refused it.
    pub(crate) fn waits_outside(&self) -> bool {
        !self.names.refused.is_empty() || self.waits_for_limits
    }

    /// Gives up the places in queues of the works in a phase that `fits`, and returns the attempts that
    /// had them.
    pub(crate) fn leave_queues(&mut self, fits: impl Fn(Phase) -> bool) -> Vec<Grant> {
        let engine = &self.engine;
        let leaves = |work: &WorkId| fits(engine.phase(*work).expect("it is one of its works"));
        let left: Vec<_> = self.names.queued.extract_if(.., leaves).collect();
        left.iter().for_each(|work| self.names.remove(*work));
        left.into_iter().map(|work| next_attempt(engine, work)).collect()
    }

    /// Returns what the works need that a name has refused, each combination once.
    pub(crate) fn refused_needs(&self) -> Vec<Vec<Need>> {
        self.names.by_needs.keys().cloned().collect()
    }

    /// Returns whether `grant` is the next attempt of a work that needs this and that a name has refused.
    pub(crate) fn is_refused(&self, grant: Grant, needs: &[Need]) -> bool {
        self.names.refused.get(&grant.work).is_some_and(|refused| refused == needs)
            && self.engine.phase(grant.work) == Some(Phase::WaitingOutside)
            && next_attempt(&self.engine, grant.work) == grant
    }

    /// Returns an attempt that needs this and that a name has refused, if there is one.
    pub(crate) fn any_refused(&self, needs: &[Need]) -> Option<Grant> {
        let mut works = self.names.by_needs.get(needs).into_iter().flatten();
        let is_outside = |work: &&WorkId| self.engine.phase(**work) == Some(Phase::WaitingOutside);
        works.find(is_outside).map(|work| next_attempt(&self.engine, *work))
    }

    /// Wakes a work that a name has refused.
    pub(crate) fn wake(&mut self, work: WorkId) {
        self.names.remove(work);
        self.apply(Input::Notify(work)).expect("it was refused before");
    }
}
