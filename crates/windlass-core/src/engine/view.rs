//! What an engine tells about itself and its works; nothing here changes anything.

use super::Engine;
use super::state::{Children, Work};
use crate::capacity::Demand;
use crate::input::Dependency;
use crate::metrics::Metrics;
use crate::phase::{Phase, WorkState};
use crate::{Ageing, ClientId, WorkId};

impl Engine {
    /// Where `work` stands; none if this engine never gave it out, or has forgotten it.
    #[must_use]
    pub fn phase(&self, work: WorkId) -> Option<Phase> {
        self.state.get(work).map(Work::phase)
    }

    /// How many attempts of `work` have begun.
    #[must_use]
    pub fn attempts(&self, work: WorkId) -> Option<u32> {
        self.state.get(work).map(|entry| entry.attempts)
    }

    /// How often `work` may still be tried again.
    #[must_use]
    pub fn retries_left(&self, work: WorkId) -> Option<u32> {
        self.state.get(work).map(|entry| entry.retries_left)
    }

    /// How often `work` may be tried again in all.
    #[must_use]
    pub fn retries(&self, work: WorkId) -> Option<u32> {
        Some(self.retries_left(work)?.saturating_add(self.state.retries().spent(work)))
    }

    /// Whether `work` has a gate that has not opened.
    #[must_use]
    pub fn is_shut(&self, work: WorkId) -> bool {
        self.state.get(work).is_some_and(Work::is_shut)
    }

    /// The works that have to end before `work`, and how.
    pub fn dependencies(&self, work: WorkId) -> impl Iterator<Item = Dependency> {
        let dependency = |edge: crate::dag::Edge| Dependency {
            work: WorkId::from_index(edge.node),
            kind: edge.kind,
        };
        self.state.dag().sources(work.index()).map(dependency)
    }

    /// The works that wait for the end of `work`; not those that were submitted after its end.
    pub fn dependents(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        self.state.dag().targets(work.index()).map(|edge| WorkId::from_index(edge.node))
    }

    /// What `work` takes while it runs.
    ///
    /// # Panics
    ///
    /// If this engine never gave it out, or has forgotten it.
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

    /// All works that are not forgotten, in the order in which they were submitted.
    pub fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        self.state.works().map(|(work, _)| work)
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(self.state.counts(), self.admission.counts())
    }

    /// How the children of `work` fare; all zero if it has none.
    #[must_use]
    pub fn children(&self, work: WorkId) -> Children {
        self.state.families().counts(work)
    }

    /// All descendants of `work` that are not forgotten, parents before their children.
    #[must_use]
    pub fn descendants(&self, work: WorkId) -> Vec<WorkId> {
        self.state.families().descendants(work)
    }

    /// The work that `work` is a child of.
    #[must_use]
    pub fn parent(&self, work: WorkId) -> Option<WorkId> {
        self.state.families().parent(work)
    }

    /// A fingerprint of everything that the facts decide: phases, attempts, retries left, the
    /// order of the queue, what is in use, timers. Grants that have not begun and refusals are
    /// rebuilt and do not count.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.state.digest()
    }

    /// Whether the time makes any difference, as long as no work starts: something comes due, or works
    /// age.
    #[must_use]
    pub fn minds_the_time(&self) -> bool {
        self.config.ageing != Ageing::NONE || self.next_wakeup().is_some()
    }

    /// The client as which this engine takes from its capacity.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.admission.client()
    }

    /// Whether every work has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let open = [WorkState::Pending, WorkState::Running];
        open.into_iter().all(|state| self.state.counts().count(state) == 0)
    }
}
