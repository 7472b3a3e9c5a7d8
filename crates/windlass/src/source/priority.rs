//! A queue by priority, in which waiting makes more urgent.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::poll_fn;
use windlass_core as core;
use windlass_core::{Ageing, Grant, Input, Outcome, World};

use super::Listener;
use super::error::{ReportError, SourceClosed};
use super::queue::{Pulled, Queue};
use super::state::{Closing, Hands, Memory, State};
use crate::id::WorkId;

/// A queue of items by priority: the largest first, then the one that was added first.
///
/// As a stream, it yields the items, and ends when it is closed and empty. [`PrioritySource::pull`] returns
/// an item with its key, and the caller reports its end. Clones share one queue.
///
/// ```
/// use futures::StreamExt;
/// use windlass::streams::PrioritySource;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut source = PrioritySource::new();
/// source.enqueue("low-priority-task", 1)?;
/// source.enqueue("high-priority-task", 10)?;
/// source.enqueue("medium-priority-task", 5)?;
///
/// assert_eq!(source.next().await, Some("high-priority-task"));
/// assert_eq!(source.next().await, Some("medium-priority-task"));
/// source.close();
/// assert_eq!(source.next().await, Some("low-priority-task"));
/// assert_eq!(source.next().await, None);
/// # Ok(())
/// # }
/// ```
///
/// With ageing, waiting items become more urgent. The effective priority is priority + min(rate × age, cap),
/// at every instant.
///
/// ```
/// use std::time::Duration;
/// use windlass::works::Ageing;
/// use windlass::streams::PrioritySource;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 0.01 per millisecond, 5 at most.
/// let source = PrioritySource::with_ageing(Ageing::new("0.01".parse()?, Some(5.into()))?);
/// source.enqueue("background", 1)?;
/// tokio::time::advance(Duration::from_millis(500)).await;
/// source.enqueue("fresh", 5)?;
/// assert_eq!(source.peek(), Some("background"), "1 + min(0.01 × 500, 5) = 6");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct PrioritySource<T> {
    pub(crate) queue: Queue<T>,
    /// While it is polled as a stream and has no item.
    listener: Option<Box<Listener<T>>>,
}

impl<T> PrioritySource<T> {
    /// Creates an empty source without ageing.
    pub fn new() -> Self {
        Self::with_ageing(Ageing::NONE)
    }

    /// Creates an empty source in which waiting makes items more urgent.
    pub fn with_ageing(ageing: Ageing) -> Self {
        Self::over(Queue::new(ageing, Closing::Open, Memory::Forget))
    }

    fn over(queue: Queue<T>) -> Self {
        Self { queue, listener: None }
    }

    /// Adds an item; larger priorities come first. Returns its key.
    pub fn enqueue(&self, item: T, priority: i64) -> Result<WorkId, SourceClosed> {
        let (added, effects) = self.queue.add(item, priority, &[]);
        self.queue.tell_all();
        effects.carry_out();
        added.map(|work| self.queue.issuer().id(work)).map_err(|_| SourceClosed)
    }

    /// Adds an item with priority 0, as `enqueue(item, 0)` does.
    ///
    /// ```
    /// use windlass::streams::PrioritySource;
    ///
    /// let source = PrioritySource::new();
    /// source.push("plain")?;
    /// source.enqueue("urgent", 1)?;
    /// source.enqueue("whenever", -1)?;
    /// assert_eq!(source.peek(), Some("urgent"));
    /// # Ok::<(), windlass::SourceClosed>(())
    /// ```
    pub fn push(&self, item: T) -> Result<WorkId, SourceClosed> {
        self.enqueue(item, 0)
    }

    /// Returns the next item, if one is queued.
    #[must_use]
    pub fn peek(&self) -> Option<T>
    where
        T: Clone,
    {
        self.queue.peek(|_, item| item.clone())
    }

    /// Returns the key of the next item, if one is queued.
    #[must_use]
    pub fn peek_key(&self) -> Option<WorkId> {
        self.queue.peek(|work, _| self.queue.issuer().id(work))
    }

    /// Waits for the next item and returns it with its key; `None` at the end of the source. The caller has to
    /// report its end: [`PrioritySource::complete`], [`PrioritySource::fail`] or [`PrioritySource::abort`].
    pub async fn pull(&self) -> Option<(WorkId, T)>
    where
        T: Clone,
    {
        let mut listener = Listener::new(&self.queue);
        let pulled = poll_fn(|context| self.poll_pull(context, &mut listener, State::hand_out));
        pulled.await.map(|(work, item)| (self.queue.issuer().id(work), item))
    }

    /// Reports that a pulled item is done.
    pub fn complete(&self, key: WorkId) -> Result<(), ReportError<WorkId>> {
        self.report(key, Outcome::Success)
    }

    /// Reports that a pulled item has to be done again: it is queued again, behind those of its priority.
    pub fn fail(&self, key: WorkId) -> Result<(), ReportError<WorkId>> {
        self.report(key, Outcome::Interrupted)
    }

    /// Aborts an item, queued or pulled. Returns its key.
    pub fn abort(&self, key: WorkId) -> Result<Vec<WorkId>, ReportError<WorkId>> {
        let aborted = self.queue.abort(self.own(key)?).map_err(|error| error.about(key))?;
        Ok(self.queue.issuer().ids(aborted))
    }

    /// Closes the source for new items; queued items can still be pulled.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Returns whether the source refuses new items.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Returns how many items are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn report(&self, key: WorkId, outcome: Outcome) -> Result<(), ReportError<WorkId>> {
        self.queue.report(self.own(key)?, outcome).map_err(|error| error.about(key))
    }

    fn own(&self, key: WorkId) -> Result<core::WorkId, ReportError<WorkId>> {
        self.queue.issuer().own(key).ok_or(ReportError::OtherSource { key })
    }

    fn poll_pull<P>(
        &self,
        context: &mut Context<'_>,
        listener: &mut Listener<T>,
        hand_out: impl Fn(&mut State<T>, &mut World<'_>, Grant) -> P,
    ) -> Poll<Option<P>> {
        loop {
            match self.queue.pull(&hand_out) {
                Pulled::Task(pulled) => return Poll::Ready(Some(pulled)),
                Pulled::Ended => return Poll::Ready(None),
                Pulled::Nothing { due } => futures::ready!(listener.poll(context, due)),
            }
        }
    }
}

impl<T> State<T> {
    /// Returns a copy of the task for a caller that pulls by hand and will report its end.
    pub(super) fn hand_out(&mut self, _world: &mut World<'_>, grant: Grant) -> (core::WorkId, T)
    where
        T: Clone,
    {
        let entry =
            self.entries.get_mut(grant.work.index()).expect("a work that starts has a task");
        entry.hands = Hands::Puller(grant);
        let task = entry.task.clone().expect("a queued task is in its entry");
        (grant.work, task)
    }

    /// Notes that a caller has pulled the task.
    pub(super) fn note_as_pulled(&mut self, _world: &mut World<'_>, grant: Grant) {
        let entry =
            self.entries.get_mut(grant.work.index()).expect("a work that starts has a task");
        entry.hands = Hands::Puller(grant);
    }

    /// Returns the task itself, for a caller that will not report its end.
    fn give_away(&mut self, world: &mut World<'_>, grant: Grant) -> T {
        let entry =
            self.entries.get_mut(grant.work.index()).expect("a work that starts has a task");
        let task = entry.task.take().expect("a queued task is in its entry");
        let finished = Input::Finished { grant, outcome: Outcome::Success };
        self.engine.apply(world, finished).expect("it has just begun");
        task
    }
}

impl<T> Stream for PrioritySource<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let source = &mut *self;
        let mut listener =
            source.listener.take().unwrap_or_else(|| Box::new(Listener::new(&source.queue)));
        let polled = source.poll_pull(context, &mut listener, State::give_away);
        source.listener = polled.is_pending().then_some(listener);
        polled
    }
}

impl<T> Unpin for PrioritySource<T> {}

impl<T> Clone for PrioritySource<T> {
    fn clone(&self) -> Self {
        Self::over(self.queue.clone())
    }
}

impl<T> Default for PrioritySource<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for PrioritySource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrioritySource").field("len", &self.len()).finish_non_exhaustive()
    }
}
