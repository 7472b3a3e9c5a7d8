//! Explains why a work is not running. Read-only.

use super::state::{Work, edge_outcome};
use super::{Engine, Order};
use crate::WorkId;
use crate::capacity::{CapacityTree, Place, Short, Shortage};
use crate::phase::Phase;
use crate::reason::Reason;

impl Engine {
    /// Returns every reason why `work` is not running; empty if it runs, has ended, or is unknown.
    ///
    /// If a resource is short, this scans all works for its holders: it is for users, not for
    /// decisions.
    #[must_use]
    pub fn explain(&self, capacity: &CapacityTree, work: WorkId) -> Vec<Reason> {
        let Some(entry) = self.state.get(work) else { return Vec::new() };
        match entry.phase() {
            Phase::Waiting => {
                let mut reasons = self.open_dependencies(work);
                // A work that is not needed will be skipped, whatever its gate and its pauses do.
                reasons.extend((entry.is_shut() && !entry.unneeded).then_some(Reason::Gate));
                reasons.extend(self.pauses(work).filter(|_| !entry.unneeded));
                reasons
            }
            Phase::Gated => [Reason::Gate].into_iter().chain(self.pauses(work)).collect(),
            Phase::Paused => self.pauses(work).collect(),
            Phase::Halted if self.pauses(work).count() == 0 => vec![Reason::Paused],
            Phase::Halted => self.pauses(work).collect(),
            Phase::Delayed { due } => {
                [Reason::Retry { at: due }].into_iter().chain(self.pauses(work)).collect()
            }
            Phase::WaitingOutside => vec![Reason::Outside],
            Phase::Granted => vec![Reason::Granted],
            Phase::Suspended => vec![Reason::Suspended],
            Phase::Joining => vec![Reason::Children { open: self.children(work).open() }],
            Phase::Ready | Phase::Resuming => self.why_not_now(capacity, work, entry),
            _ => Vec::new(),
        }
    }

    fn pauses(&self, work: WorkId) -> impl Iterator<Item = Reason> + use<> {
        let own = self.is_paused(work).then_some(Reason::Paused);
        let all = self.all_paused_since().map(|_| Reason::AllPaused);
        own.into_iter().chain(all)
    }

    /// Returns what refuses a queued work; nothing for any other.
    #[must_use]
    pub fn shortages(&self, capacity: &CapacityTree, work: WorkId) -> Vec<Shortage> {
        match self.state.get(work) {
            Some(entry) if matches!(entry.phase(), Phase::Ready | Phase::Resuming) => {
                let (now, place) = (self.state.now(), self.queue_place(work));
                self.admission.shortages(capacity, now, entry, place)
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a queued work lacks a worker with room for it.
    #[must_use]
    pub fn lacks_worker(&self, capacity: &CapacityTree, work: WorkId) -> bool {
        match self.state.get(work) {
            Some(entry) if matches!(entry.phase(), Phase::Ready | Phase::Resuming) => {
                let place = self.queue_place(work);
                !self.admission.lacking_workers(capacity, work, entry, place).is_empty()
                    || self.admission.has_no_worker(capacity, entry)
            }
            _ => false,
        }
    }

    fn open_dependencies(&self, work: WorkId) -> Vec<Reason> {
        let open = |dependency: &crate::Dependency| {
            let source = self.state.get(dependency.work);
            source.is_some_and(|source| edge_outcome(dependency.kind, source.phase()).is_none())
        };
        self.dependencies(work).filter(open).map(Reason::Dependency).collect()
    }

    /// Returns the shortages of a queued work, and its place in the queue.
    fn why_not_now(&self, capacity: &CapacityTree, work: WorkId, entry: &Work) -> Vec<Reason> {
        let (now, place) = (self.state.now(), self.queue_place(work));
        let short = self.admission.shortages(capacity, now, entry, place).into_iter();
        let mut reasons: Vec<_> = short.map(|short| self.short(capacity, place, short)).collect();
        let kinds = self.admission.lacking_workers(capacity, work, entry, place);
        if !kinds.is_empty() || self.admission.has_no_worker(capacity, entry) {
            let beside = self.state.beside(work).filter(|of| self.worker_of(*of).is_some());
            reasons.push(Reason::Workers { kinds, beside });
        }
        let ahead = self.admission.ahead(now, work, entry);
        let queue = ahead.zip(self.first_in_queue());
        reasons.extend(queue.map(|(ahead, first)| Reason::Queued { ahead, first }));
        reasons
    }

    /// Returns the position from which `work` is tested against the capacity: behind the first work
    /// of the queue if something is reserved for that one. A reservation for a work that is no
    /// longer first does not bind; it ends at the next search.
    #[must_use]
    pub fn queue_place(&self, work: WorkId) -> Place {
        self.admission.place(self.state.now(), work, self.state.work(work).phase())
    }

    fn short(&self, capacity: &CapacityTree, place: Place, shortage: Shortage) -> Reason {
        let Shortage { level, resource, why, .. } = shortage;
        if !matches!(why, Short::Limit { .. }) {
            return Reason::Short { shortage, holders: Vec::new(), reserved_for: None };
        }
        let holds = |(_, entry): &(WorkId, &Work)| {
            let mut demand = self.admission.demand(entry.cost).iter();
            entry.phase().holds() && demand.any(|(needed, _)| needed == resource)
        };
        let holders = self.state.works().filter(holds).map(|(work, _)| work).collect();
        let bound = matches!(place, Place::Later | Place::ResumingLater);
        let ours = capacity.reserved_for(self.client(), level, resource) > 0;
        let reserved_for = self.admission.reserved_for().filter(|_| bound && ours);
        Reason::Short { shortage, holders, reserved_for }
    }

    /// Returns whether works may pass the first of the queue.
    #[must_use]
    pub fn order(&self) -> Order {
        self.config.order
    }
}
