//! What becomes of tasks under way, and giving tasks up.

use std::collections::{BTreeSet, VecDeque};

use windlass_core::{Grant, Input, Outcome, WorkId, World};

use super::error::ReportError;
use super::queue::Queue;
use super::state::{Hands, Started, State};

impl<T> Queue<T> {
    /// The end of a task that was pulled by hand.
    pub(super) fn report(&self, work: WorkId, outcome: Outcome) -> Result<(), ReportError<WorkId>> {
        let reported = self.call(|state, world| {
            let grant = state.pulled(work)?;
            state.end(world, grant, outcome);
            Ok(())
        });
        self.tell_all();
        reported
    }

    /// Reports the ends of tasks that a runner had; then, if the runner wants more, starts what fits. A task
    /// that will be retried comes back with its body. Returns the tasks that had been aborted by then, whose
    /// ends are not reported.
    pub(crate) fn report_runs(
        &self,
        ended: impl IntoIterator<Item = (Grant, Option<T>, Outcome)>,
        started: Option<&mut VecDeque<Started<T>>>,
    ) -> Vec<WorkId> {
        let aborted = self.call(|state, world| {
            let mut stops = state.stops.clone();
            for (grant, task, outcome) in ended {
                state.take_back(grant.work, task);
                state.end(world, grant, outcome);
            }
            if let Some(started) = started {
                state.start_what_fits(world, started);
            }
            stops.retain(|work| !state.stops.contains(work));
            stops
        });
        self.tell_others();
        aborted
    }

    /// The end of a task that was stopped.
    pub(crate) fn report_stopped(&self, grant: Grant) {
        self.call(|state, world| state.end(world, grant, Outcome::Cancelled));
        self.tell_all();
    }

    /// The end of tasks whose runner stops; everything else in the source ends, too.
    pub(crate) fn cancel_everything(&self, stopped: impl IntoIterator<Item = Grant>) {
        self.call(|state, world| {
            for grant in stopped {
                state.end(world, grant, Outcome::Cancelled);
            }
            state.cancel_everything(world);
        });
        self.tell_all();
    }

    /// Gives up a task and all that wait for it, at any depth; returns them, level by level.
    pub(super) fn abort(&self, work: WorkId) -> Result<Vec<WorkId>, ReportError<WorkId>> {
        let aborted = self.call(|state, world| {
            state.expect_open(work)?;
            let aborted = state.with_dependents(work);
            aborted.iter().for_each(|work| state.cancel(world, *work));
            Ok(aborted)
        });
        self.tell_all();
        aborted
    }

    /// Those of a runner that are to be stopped; `is_mine` tells which it has.
    pub(crate) fn take_stops(&self, is_mine: impl Fn(WorkId) -> bool) -> Vec<WorkId> {
        let mut mine = Vec::new();
        self.call(|state, _| {
            state.stops.retain(|work| {
                let own = is_mine(*work);
                mine.extend(own.then_some(*work));
                !own
            });
        });
        mine
    }
}

impl<T> State<T> {
    /// The attempt of one that was pulled by hand and has not been reported.
    fn pulled(&self, work: WorkId) -> Result<Grant, ReportError<WorkId>> {
        match self.expect_open(work)? {
            Hands::Puller(grant) => Ok(grant),
            Hands::Free => Err(ReportError::NotUnderWay { key: work }),
            Hands::Runner => Err(ReportError::RunByRunner { key: work }),
        }
    }

    fn expect_open(&self, work: WorkId) -> Result<Hands, ReportError<WorkId>> {
        match self.entries.get(work.index()) {
            Some(entry) => Ok(entry.hands),
            None if work.index() < self.entries.pushed() => {
                Err(ReportError::AlreadyReported { key: work })
            }
            None => Err(ReportError::Unknown { key: work }),
        }
    }

    pub(super) fn end(&mut self, world: &mut World<'_>, grant: Grant, outcome: Outcome) {
        if let Some(entry) = self.entries.get_mut(grant.work.index()) {
            entry.hands = Hands::Free;
        }
        self.stops.retain(|work| *work != grant.work);
        let finished = Input::Finished { grant, outcome };
        self.engine.apply(world, finished).expect("an attempt is reported once");
    }

    fn take_back(&mut self, work: WorkId, task: Option<T>) {
        self.entries[work.index()].task = task;
    }

    /// `work` and all that wait for it and have not ended, level by level.
    fn with_dependents(&self, work: WorkId) -> Vec<WorkId> {
        let mut seen = BTreeSet::from([work]);
        let mut found = Vec::new();
        let mut level = VecDeque::from([work]);
        while let Some(next) = level.pop_front() {
            found.push(next);
            let dependents =
                self.entries.get(next.index()).map_or(&[][..], |entry| &entry.dependents);
            let open = dependents.iter().filter(|work| self.entries.get(work.index()).is_some());
            level.extend(open.copied().filter(|work| seen.insert(*work)));
        }
        found
    }

    /// One that was pulled by hand ends at once; one that a runner has, when the runner has stopped
    /// it. What waits for one that ends has ended by that, too.
    fn cancel(&mut self, world: &mut World<'_>, work: WorkId) {
        let ended = self.engine.phase(work).is_none_or(|phase| phase.state().is_terminal());
        let Some(entry) = self.entries.get(work.index()).filter(|_| !ended) else { return };
        match entry.hands {
            Hands::Free => {}
            Hands::Puller(grant) => return self.end(world, grant, Outcome::Cancelled),
            Hands::Runner => self.stops.push(work),
        }
        self.engine.apply(world, Input::Cancel(work)).expect("it has not ended");
    }

    fn cancel_everything(&mut self, world: &mut World<'_>) {
        self.impossible.clear();
        let open: Vec<_> =
            self.entries.iter().map(|(index, _)| WorkId::from_index(index)).collect();
        open.into_iter().for_each(|work| self.cancel(world, work));
    }
}
