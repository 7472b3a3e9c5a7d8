//! What an engine tells about itself and its works; nothing here changes anything.

use super::{Engine, Work};
use crate::capacity::Demand;
use crate::input::Dependency;
use crate::metrics::Metrics;
use crate::phase::{Phase, WorkState};
use crate::{Ageing, ClientId, WorkId};

impl Engine {
    /// Where `work` stands; none if this engine never gave it out, or has forgotten it.
    #[must_use]
    pub fn phase(&self, work: WorkId) -> Option<Phase> {
        self.works.get(work.index()).map(|entry| entry.phase)
    }

    /// How many attempts of `work` have begun.
    #[must_use]
    pub fn attempts(&self, work: WorkId) -> Option<u32> {
        self.works.get(work.index()).map(|entry| entry.attempts)
    }

    /// How often `work` may still be tried again.
    #[must_use]
    pub fn retries_left(&self, work: WorkId) -> Option<u32> {
        self.works.get(work.index()).map(|entry| entry.retries_left)
    }

    /// How often `work` may be tried again in all.
    #[must_use]
    pub fn retries(&self, work: WorkId) -> Option<u32> {
        let spent = self.spent.get(&work).copied().unwrap_or(0);
        Some(self.retries_left(work)?.saturating_add(spent))
    }

    /// Whether `work` has a gate that has not opened.
    #[must_use]
    pub fn is_shut(&self, work: WorkId) -> bool {
        self.works.get(work.index()).is_some_and(Work::is_shut)
    }

    /// The works that have to end before `work`, and how.
    pub fn dependencies(&self, work: WorkId) -> impl Iterator<Item = Dependency> {
        let dependency = |edge: crate::dag::Edge| Dependency {
            work: WorkId::from_index(edge.node),
            kind: edge.kind,
        };
        self.dag.sources(work.index()).map(dependency)
    }

    /// The works that wait for the end of `work`; not those that were submitted after its end.
    pub fn dependents(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        self.dag.targets(work.index()).map(|edge| WorkId::from_index(edge.node))
    }

    /// What `work` takes while it runs.
    ///
    /// # Panics
    ///
    /// If this engine never gave it out, or has forgotten it.
    #[must_use]
    pub fn demand(&self, work: WorkId) -> &Demand {
        &self.costs[self.works[work.index()].cost.index()]
    }

    /// Returns the first work of the queue, whether it fits or not. After [`Input::Tick`] the cost is
    /// logarithmic in the length of the queue.
    ///
    /// [`Input::Tick`]: crate::Input::Tick
    #[must_use]
    pub fn first_in_line(&self) -> Option<WorkId> {
        self.lines.foremost(self.now)
    }

    /// All works that are not forgotten, in the order in which they were submitted.
    pub fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        self.works.iter().map(|(index, _)| WorkId::from_index(index))
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
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
        self.client
    }

    /// Whether every work has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let open = [WorkState::Pending, WorkState::Running];
        open.into_iter().all(|state| self.metrics.count(state) == 0)
    }
}
