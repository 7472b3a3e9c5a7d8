//! Orders that wait for room: as many files are open, or as many processes run, as the system allows.
//!
//! They are retried, in their order, whenever a process of the run has ended, and after a pause, because
//! the kernel does not report when another program releases room. An order fails for lack of room only if
//! no process of its run is left to wait for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long until a start is tried again though no process of the run has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an order waits for room while no process of the run runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The orders that wait for room, the first one first.
pub(super) struct RoomQueue<T> {
    queue: VecDeque<T>,
    /// When the first of them was tried last.
    tried: Option<Instant>,
    /// Since when no process of the run has been running while they waited.
    alone_since: Option<Instant>,
}

impl<T> Default for RoomQueue<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), tried: None, alone_since: None }
    }
}

impl<T> RoomQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds the first order, which was tried just now.
    pub(super) fn begin(&mut self, order: T) {
        self.queue.push_back(order);
        (self.tried, self.alone_since) = (Some(Instant::now()), None);
    }

    /// Adds an order behind those that wait.
    pub(super) fn push(&mut self, order: T) {
        self.queue.push_back(order);
    }

    /// Returns an order that was tried in vain to its place.
    pub(super) fn push_front(&mut self, order: T) {
        self.queue.push_front(order);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.queue.pop_front()
    }

    /// Removes the order that `is_it` accepts.
    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.queue.iter().position(is_it)?;
        self.queue.remove(place)
    }

    /// Returns how long until the orders are tried again; none if none waits.
    pub(super) fn until_try(&self) -> Option<Duration> {
        let tried = self.tried.filter(|_| !self.is_empty())?;
        Some(PAUSE.saturating_sub(tried.elapsed()))
    }

    /// Returns whether the orders are to be tried again; `ended` if a process has ended.
    pub(super) fn is_due(&self, ended: bool) -> bool {
        !self.is_empty() && (ended || self.until_try().is_some_and(|left| left.is_zero()))
    }

    pub(super) fn note_try(&mut self) {
        self.tried = Some(Instant::now());
    }

    /// Returns whether a process of the run may still give room, or the time for other programs to do
    /// so is not over. `alone` if no process of the run runs.
    pub(super) fn has_patience(&mut self, alone: bool) -> bool {
        if !alone {
            self.alone_since = None;
            return true;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        since.elapsed() < PATIENCE
    }
}
