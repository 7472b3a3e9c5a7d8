//! Two lines, one before the other: works that go on, then works that start.

use super::{Candidate, Cell, Listing, ReadyQueue, Ticket, Waiting, Watch};
use crate::ageing::Ageing;
use crate::{Amount, Timestamp, WorkId};

/// Which line a work stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Its attempt is under way and wants to go on.
    Resuming,
    /// Its attempt is yet to begin.
    Starting,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    resuming: ReadyQueue,
    starting: ReadyQueue,
}

impl Lines {
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
        line: Line,
        listing: Listing,
        waiting: Waiting,
        now: Timestamp,
    ) {
        self.of(line).insert(listing, waiting, now);
    }

    #[inline]
    pub(crate) fn remove(&mut self, line: Line, listing: Listing, ticket: Ticket, now: Timestamp) {
        self.of(line).remove(listing, ticket, now);
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.resuming.advance(now);
        self.starting.advance(now);
    }

    /// The first of all, refused or not, and its line.
    #[inline]
    pub(crate) fn first(&self, now: Timestamp) -> Option<(Line, Candidate)> {
        let line = if self.resuming.len == 0 { Line::Starting } else { Line::Resuming };
        Some((line, self.at(line).first(now)?))
    }

    /// The first that was not refused, or that may fit by now, and its line. `room` tells how much
    /// there is of a cell for one in a line.
    pub(crate) fn first_open(
        &self,
        now: Timestamp,
        room: impl Fn(Line, Cell) -> i128,
    ) -> Option<(Line, Candidate)> {
        let open = |line| {
            let first = self.at(line).first_open(now, |cell| room(line, cell))?;
            Some((line, first))
        };
        open(Line::Resuming).or_else(|| open(Line::Starting))
    }

    /// Whether one that was refused may fit by now.
    pub(crate) fn may_fit(
        &self,
        line: Line,
        refused: Candidate,
        room: impl Fn(Cell) -> i128,
    ) -> bool {
        let line = self.at(line);
        refused.parked.is_none_or(|parked| line.may_fit(parked, room))
    }

    pub(crate) fn park(&mut self, line: Line, refused: Candidate, cell: Cell, wanted: Amount) {
        self.of(line).park(refused.cost, cell, wanted);
    }

    pub(crate) fn open_lots(&mut self, watch: Watch) {
        self.resuming.open_lots(watch);
        self.starting.open_lots(watch);
    }

    /// Whether works wait for something that is not watched.
    pub(crate) fn has_unwatched(&self) -> bool {
        self.starting.has_unwatched() || self.resuming.has_unwatched()
    }

    /// As [`ReadyQueue::close_lots`], for both lines.
    pub(crate) fn close_lots(&mut self, mut watch: impl FnMut(Cell, Amount) -> Option<Timestamp>) {
        self.resuming.close_lots(&mut watch);
        self.starting.close_lots(&mut watch);
    }

    #[inline]
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.resuming.next_wakeup(now), self.starting.next_wakeup(now)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether everybody in line is of the kind of this one: what refuses it refuses them all.
    pub(crate) fn are_all_like(&self, line: Line, candidate: Candidate) -> bool {
        let own = self.at(line);
        own.len() == self.len() && own.is_all_of(candidate.cost)
    }

    /// The cell that refused one, and how much it wants of it.
    pub(crate) fn refused_by(&self, line: Line, refused: Candidate) -> Option<(Cell, Amount)> {
        let parked = refused.parked?;
        Some((self.at(line).cell(parked), parked.wanted))
    }

    /// All works in line.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.resuming.iter().chain(self.starting.iter())
    }

    /// Returns the first work of all at `now`, also if the lines have not been advanced to it.
    pub(crate) fn foremost(&self, now: Timestamp) -> Option<WorkId> {
        self.resuming.foremost(now).or_else(|| self.starting.foremost(now))
    }

    /// How many stand before the one with this ticket.
    pub(crate) fn ahead(&self, line: Line, listing: Listing, of: Waiting, now: Timestamp) -> usize {
        let before = match line {
            Line::Resuming => 0,
            Line::Starting => self.resuming.len(),
        };
        before + self.at(line).ahead(listing, of, now)
    }

    #[inline]
    fn at(&self, line: Line) -> &ReadyQueue {
        match line {
            Line::Resuming => &self.resuming,
            Line::Starting => &self.starting,
        }
    }

    #[inline]
    fn of(&mut self, line: Line) -> &mut ReadyQueue {
        match line {
            Line::Resuming => &mut self.resuming,
            Line::Starting => &mut self.starting,
        }
    }
}
