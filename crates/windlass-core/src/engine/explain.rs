//! Every reason for a wait, found by looking; nothing here changes anything.

use super::edges::verdict;
use super::step::line;
use super::{Engine, Order};
use crate::WorkId;
use crate::capacity::{CapacityTree, Place, Short, Shortage};
use crate::phase::Phase;
use crate::queue::{Line, Waiting};
use crate::reason::Reason;

impl Engine {
    /// Every reason why `work` is not running; empty if it is, or has ended, or is unknown.
    ///
    /// Where a resource is short, it looks at all works to find the holders, so it is for people, not
    /// for every step.
    #[must_use]
    pub fn explain(&self, capacity: &CapacityTree, work: WorkId) -> Vec<Reason> {
        let Some(entry) = self.works.get(work.index()) else { return Vec::new() };
        match entry.phase {
            Phase::Waiting => {
                let mut reasons = self.open_dependencies(work);
                // One that is not needed will be skipped, whatever its gate does.
                reasons.extend((entry.is_shut() && !entry.unneeded).then_some(Reason::Gate));
                reasons
            }
            Phase::Gated => vec![Reason::Gate],
            Phase::Delayed { due } => vec![Reason::Retry { at: due }],
            Phase::Ticketed => vec![Reason::Outside],
            Phase::Granted => vec![Reason::Granted],
            Phase::Suspended => vec![Reason::Suspended],
            Phase::Joining => vec![Reason::Children { open: self.children(work).open() }],
            Phase::Ready | Phase::Resuming => self.why_not_now(capacity, work),
            _ => Vec::new(),
        }
    }

    fn open_dependencies(&self, work: WorkId) -> Vec<Reason> {
        let open = |dependency: &crate::Dependency| {
            let source = self.works.get(dependency.work.index());
            source.is_some_and(|source| verdict(dependency.kind, source.phase).is_none())
        };
        self.dependencies(work).filter(open).map(Reason::Dependency).collect()
    }

    /// What refuses a work that stands in line, and its place there.
    fn why_not_now(&self, capacity: &CapacityTree, work: WorkId) -> Vec<Reason> {
        let place = self.place_in_line(work);
        let refusal = capacity.shortages(self.client, self.demand(work), place, self.there());
        let short = refusal.shortages.into_iter();
        let mut reasons: Vec<_> = short.map(|short| self.short(capacity, work, short)).collect();
        reasons.extend(self.line_of(work));
        reasons
    }

    /// The place from which `work` is tried: behind the first in line if something is set aside for
    /// that one. What is still set aside for one that was the first before binds nobody; it goes
    /// when the first one is tried.
    #[must_use]
    pub fn place_in_line(&self, work: WorkId) -> Place {
        let first = self.first_in_line();
        let bound = first != Some(work) && first.is_some() && self.standing == first;
        match (line(self.works[work.index()].phase), bound) {
            (Some(Line::Resuming), false) => Place::Resuming,
            (Some(Line::Resuming), true) => Place::ResumingLater,
            (_, false) => Place::First,
            (_, true) => Place::Later,
        }
    }

    fn short(&self, capacity: &CapacityTree, work: WorkId, shortage: Shortage) -> Reason {
        let Shortage { level, resource, why, .. } = shortage;
        if !matches!(why, Short::Limit { .. }) {
            return Reason::Short { shortage, holders: Vec::new(), set_aside_for: None };
        }
        let holds = |&(_, entry): &(usize, &super::Work)| {
            let demand = &self.costs[entry.cost.index()];
            entry.phase.holds() && demand.iter().any(|(needed, _)| needed == resource)
        };
        let holders = self.works.iter().filter(holds);
        let holders = holders.map(|(index, _)| WorkId::from_index(index)).collect();
        let bound = matches!(self.place_in_line(work), Place::Later | Place::ResumingLater);
        let ours = capacity.set_aside_for(self.client, level, resource) > 0;
        let set_aside_for = self.standing.filter(|_| bound && ours);
        Reason::Short { shortage, holders, set_aside_for }
    }

    fn line_of(&self, work: WorkId) -> Option<Reason> {
        let entry = &self.works[work.index()];
        let of = Waiting { work, ticket: entry.ticket, since: entry.ready_since };
        let ahead = self.lines.ahead(line(entry.phase)?, entry.listing(), of, self.now);
        Some(Reason::Line { ahead, first: self.first_in_line()? })
    }

    /// Whether works may pass the first in line.
    #[must_use]
    pub fn order(&self) -> Order {
        self.config.order
    }
}
