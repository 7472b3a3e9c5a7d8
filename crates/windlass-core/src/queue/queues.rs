//! Two queues: attempts that resume come before works that start.

use super::{Candidate, CounterKey, Listing, ReadyQueue, Seq, Unwatched, Waiting, WatchState};
use crate::ageing::Ageing;
use crate::{Amount, CostId, Timestamp, WorkId};

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// An attempt under way waits to resume.
    Resuming,
    /// A work waits to start.
    Starting,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    resuming: ReadyQueue,
    starting: ReadyQueue,
}

impl Queues {
    pub(crate) fn new(ageing: Ageing) -> Self {
        Self { resuming: ReadyQueue::new(ageing), starting: ReadyQueue::new(ageing) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.resuming.len() + self.starting.len()
    }

    #[inline]
    pub(crate) fn insert(
        &mut self,
        queue: QueueKind,
        listing: Listing,
        waiting: Waiting,
        now: Timestamp,
    ) {
        self.of(queue).insert(listing, waiting, now);
    }

    #[inline]
    pub(crate) fn remove(&mut self, queue: QueueKind, listing: Listing, seq: Seq, now: Timestamp) {
        self.of(queue).remove(listing, seq, now);
    }

    /// As [`ReadyQueue::vacate`], for both queues.
    pub(crate) fn vacate(&mut self, cost: CostId) {
        self.resuming.vacate(cost);
        self.starting.vacate(cost);
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.resuming.advance(now);
        self.starting.advance(now);
    }

    /// Returns the first work of all, blocked or not, and its queue.
    #[inline]
    pub(crate) fn first(&self, now: Timestamp) -> Option<(QueueKind, Candidate)> {
        let queue = if self.resuming.len == 0 { QueueKind::Starting } else { QueueKind::Resuming };
        Some((queue, self.at(queue).first(now)?))
    }

    /// Returns the first work that is not blocked, or that may fit by now, and its queue. `room`
    /// returns the room of a counter for a work of a queue.
    pub(crate) fn first_open(
        &mut self,
        now: Timestamp,
        room: impl Fn(QueueKind, CounterKey) -> i128,
    ) -> Option<(QueueKind, Candidate)> {
        let mut open = |queue| {
            let first = self.of(queue).first_open(now, |counter| room(queue, counter))?;
            Some((queue, first))
        };
        open(QueueKind::Resuming).or_else(|| open(QueueKind::Starting))
    }

    /// Returns whether a blocked candidate may fit by now.
    pub(crate) fn may_fit(
        &self,
        queue: QueueKind,
        refused: Candidate,
        room: impl Fn(CounterKey) -> i128,
    ) -> bool {
        let queue = self.at(queue);
        refused.blocked_by.is_none_or(|blocked_by| queue.may_fit(blocked_by, room))
    }

    pub(crate) fn block(
        &mut self,
        queue: QueueKind,
        refused: Candidate,
        counter: CounterKey,
        wanted: Amount,
    ) {
        self.of(queue).block(refused.cost, counter, wanted);
    }

    pub(crate) fn unblock_at(&mut self, counter: CounterKey, watch: WatchState) {
        self.resuming.unblock_at(counter, watch);
        self.starting.unblock_at(counter, watch);
    }

    pub(crate) fn unblock_all(&mut self, watch: WatchState) {
        self.resuming.unblock_all(watch);
        self.starting.unblock_all(watch);
    }

    /// As [`ReadyQueue::watch_blocked`], for both queues.
    pub(crate) fn watch_blocked(
        &mut self,
        which: Unwatched,
        mut watch: impl FnMut(CounterKey, WatchState, Amount) -> Option<Timestamp>,
    ) {
        self.resuming.watch_blocked(which, &mut watch);
        self.starting.watch_blocked(which, &mut watch);
    }

    #[inline]
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.resuming.next_wakeup(now), self.starting.next_wakeup(now)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns whether all queued works have the queue and the cost of this one, so that what
    /// refuses it refuses them all.
    pub(crate) fn are_all_like(&self, queue: QueueKind, candidate: Candidate) -> bool {
        let own = self.at(queue);
        own.len() == self.len() && own.is_all_of(candidate.cost)
    }

    /// As [`ReadyQueue::awaited_by_all`], for the only queue that has works.
    pub(crate) fn awaited_by_all(&self) -> Option<(QueueKind, CounterKey, Amount)> {
        let queue = match (self.resuming.len(), self.starting.len()) {
            (0, _) => QueueKind::Starting,
            (_, 0) => QueueKind::Resuming,
            _ => return None,
        };
        let (counter, wanted) = self.at(queue).awaited_by_all()?;
        Some((queue, counter, wanted))
    }

    /// Returns the counter that refused a candidate, and how much it wants.
    pub(crate) fn refused_by(
        &self,
        queue: QueueKind,
        refused: Candidate,
    ) -> Option<(CounterKey, Amount)> {
        let blocked_by = refused.blocked_by?;
        Some((self.at(queue).counter(blocked_by), blocked_by.wanted))
    }

    /// Iterates over all works of both queues.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.resuming.iter().chain(self.starting.iter())
    }

    /// Returns the first work at `now`, even if the queues have not been advanced to `now`.
    pub(crate) fn foremost(&self, now: Timestamp) -> Option<WorkId> {
        self.resuming.foremost(now).or_else(|| self.starting.foremost(now))
    }

    /// Returns how many works are before the one with this sequence number.
    pub(crate) fn ahead(
        &self,
        queue: QueueKind,
        listing: Listing,
        of: Waiting,
        now: Timestamp,
    ) -> usize {
        let before = match queue {
            QueueKind::Resuming => 0,
            QueueKind::Starting => self.resuming.len(),
        };
        before + self.at(queue).ahead(listing, of, now)
    }

    #[inline]
    fn at(&self, queue: QueueKind) -> &ReadyQueue {
        match queue {
            QueueKind::Resuming => &self.resuming,
            QueueKind::Starting => &self.starting,
        }
    }

    #[inline]
    fn of(&mut self, queue: QueueKind) -> &mut ReadyQueue {
        match queue {
            QueueKind::Resuming => &mut self.resuming,
            QueueKind::Starting => &mut self.starting,
        }
    }
}
