//! Read-only queries on an engine and its works.

use super::Engine;
use super::config::Precedence;
use super::state::{Children, Work};
use crate::capacity::Demand;
use crate::input::Dependency;
use crate::metrics::Metrics;
use crate::phase::{Phase, WorkState};
use crate::{ClientId, Timestamp, WorkId};

impl Engine {
    /// Returns the phase of `work`, or `None` if its id was never issued or it is forgotten.
    #[must_use]
    pub fn phase(&self, work: WorkId) -> Option<Phase> {
        self.state.get(work).map(Work::phase)
    }

    /// Returns how many attempts of `work` have begun.
    #[must_use]
    pub fn attempts(&self, work: WorkId) -> Option<u32> {
        self.state.get(work).map(|entry| entry.attempts)
    }

    /// Returns when the attempt of `work` reaches its time limit; none if it has none, or that stands still.
    #[must_use]
    pub fn expires(&self, work: WorkId) -> Option<Timestamp> {
        self.state.clock().expires(work)
    }

    /// Returns how many retries `work` has left.
    #[must_use]
    pub fn retries_left(&self, work: WorkId) -> Option<u32> {
        self.state.get(work).map(|entry| entry.retries_left)
    }

    /// Returns how many retries `work` has in all.
    #[must_use]
    pub fn retries(&self, work: WorkId) -> Option<u32> {
        Some(self.retries_left(work)?.saturating_add(self.state.retries().spent(work)))
    }

    /// Returns whether `work` has a gate that has not opened.
    #[must_use]
    pub fn is_shut(&self, work: WorkId) -> bool {
        self.state.get(work).is_some_and(Work::is_shut)
    }

    /// Returns a number that orders works of equal priority in the queue, if they are queued in the order of
    /// their submission.
    #[must_use]
    pub fn seq(&self, work: WorkId) -> Option<u64> {
        let in_order = self.config.precedence == Precedence::Submitted;
        self.state.get(work).filter(|_| in_order).map(|entry| entry.seq.get())
    }

    /// Iterates over the dependencies of `work`.
    pub fn dependencies(&self, work: WorkId) -> impl Iterator<Item = Dependency> {
        let dependency = |edge: crate::dag::Edge| Dependency {
            work: WorkId::from_index(edge.node),
            kind: edge.kind,
        };
        self.state.dag().sources(work.index()).map(dependency)
    }

    /// Iterates over the works that wait for `work`, without those submitted after its end.
    pub fn dependents(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        self.state.dag().targets(work.index()).map(|edge| WorkId::from_index(edge.node))
    }

    /// Returns what `work` takes while it runs.
    ///
    /// # Panics
    ///
    /// Panics if the id was never issued or the work is forgotten.
    #[must_use]
    pub fn demand(&self, work: WorkId) -> &Demand {
        self.admission.demand(self.state.work(work).cost)
    }

    /// Returns the first work of the queue, whether it fits or not. After [`Input::Tick`] the cost is
    /// logarithmic in the length of the queue.
    ///
    /// [`Input::Tick`]: crate::Input::Tick
    #[must_use]
    pub fn first_in_queue(&self) -> Option<WorkId> {
        self.admission.queues().foremost(self.state.now())
    }

    /// Iterates over the works that are not forgotten, in the order in which they were submitted.
    pub fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        self.state.works().map(|(work, _)| work)
    }

    /// Returns how many works were ever submitted, which is the number of the last one.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.state.next_work().get() - 1
    }

    /// Returns the counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(self.state.counts(), self.admission.counts())
    }

    /// Returns the counts of the children of `work`; all zero if it has none.
    #[must_use]
    pub fn children(&self, work: WorkId) -> Children {
        self.state.families().counts(work)
    }

    /// Returns all descendants of `work` that are not forgotten, parents before children.
    #[must_use]
    pub fn descendants(&self, work: WorkId) -> Vec<WorkId> {
        self.state.families().descendants(work)
    }

    /// Returns the parent of `work`.
    #[must_use]
    pub fn parent(&self, work: WorkId) -> Option<WorkId> {
        self.state.families().parent(work)
    }

    /// Returns a hash of everything that facts decide: phases, attempts, retries left, the order of
    /// the queue, what is in use, timers. Grants that have not begun and refusals are recomputed
    /// and do not count.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.state.digest()
    }

    /// The client as which this engine takes from its capacity.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.admission.client()
    }

    /// Returns whether every work has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let open = [WorkState::Pending, WorkState::Running];
        open.into_iter().all(|state| self.state.counts().count(state) == 0)
    }
}
