//! The events of a scheduler for its subscribers: every change of phase, numbered, in order.

use std::sync::Arc;

use futures::Stream;
use tokio::sync::mpsc;
use windlass_core::{Phase, Timestamp, Transition, WorkState};

use crate::event_log::{EventLog, Read, Reader};
use crate::id::{Issuer, WorkId};
use crate::name::Name;
use crate::work_name::WorkName;

/// A work changed its phase.
///
/// [`WorkHandle::subscribe`](crate::WorkHandle::subscribe) returns all events, as the example of [`Subscription`]
/// shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkEvent {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: WorkName,
    /// Its state.
    pub state: WorkState,
    /// Its phase, which says more than its state.
    pub phase: Phase,
    /// Its state before; none for a new work.
    pub previous: Option<WorkState>,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Counts all events of a scheduler.
    pub number: u64,
    /// When, since the scheduler first looked at the clock.
    pub at: Timestamp,
}

impl WorkEvent {
    /// Returns whether the work changed its state, not only its phase. A new work that waits did not.
    #[must_use]
    pub fn changes_state(&self) -> bool {
        self.state != self.previous.unwrap_or(WorkState::Pending)
    }
}

/// What a [`Subscription`] receives, as its example shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A work changed its phase.
    Event(WorkEvent),
    /// So many events came and went before the subscriber looked.
    Missed(u64),
}

/// Receives every event, or the number of events that were missed: a slow reader delays neither the scheduler
/// nor other readers, and learns that it was slow.
///
/// ```
/// use windlass::works::{Notice, Phase};
/// use windlass::{WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let mut events = scheduler.subscribe();
/// scheduler.submit(work_fn("one", |_| async { Ok(()) }))?;
/// scheduler.run_until_done().await;
/// drop(scheduler);
///
/// let mut phases = Vec::new();
/// while let Some(notice) = events.recv().await {
///     match notice {
///         Notice::Event(event) => phases.push(event.phase),
///         Notice::Missed(count) => println!("{count} events went by"),
///     }
/// }
/// assert_eq!(phases, [Phase::Ready, Phase::Running, Phase::Success]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription(Reader<WorkEvent>);

impl Subscription {
    /// Waits for the next event; none once the scheduler is gone.
    pub async fn recv(&mut self) -> Option<Notice> {
        Some(match self.0.next().await? {
            Read::Event(event) => Notice::Event(event),
            Read::Missed(missed) => Notice::Missed(missed),
        })
    }

    /// Returns the same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Notice> {
        futures::stream::unfold(self, |mut own| async move { Some((own.recv().await?, own)) })
    }
}

/// Publishes the events of a scheduler to its subscribers.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    log: Option<Arc<EventLog<WorkEvent>>>,
    /// A channel for the events that change a state, as the original design has it.
    event_tx: Option<mpsc::Sender<WorkEvent>>,
    pub(crate) events_dropped: u64,
    /// Events of the session under way, to be published at its end.
    unpublished: Vec<WorkEvent>,
    /// How many events there were.
    count: u64,
    is_closed: bool,
}

impl Publisher {
    pub(crate) fn new(event_tx: Option<mpsc::Sender<WorkEvent>>) -> Self {
        Self { event_tx, ..Self::default() }
    }

    pub(crate) fn subscribe(&mut self) -> Subscription {
        let log = self.log.get_or_insert_with(EventLog::new);
        if self.is_closed {
            log.close();
        }
        Subscription(log.reader())
    }

    /// Ends all subscriptions once they have read everything. Returns whom to wake after the session.
    pub(crate) fn close(&mut self) -> Option<Arc<EventLog<WorkEvent>>> {
        self.publish();
        self.is_closed = true;
        self.event_tx = None;
        self.log.take().inspect(|log| log.close())
    }

    /// Records an event, if there are subscribers. The name of the work is asked for only then; it is none if
    /// the work is forgotten already.
    #[inline]
    pub(crate) fn record<'a>(
        &mut self,
        issuer: Issuer,
        transition: &Transition,
        name: impl FnOnce() -> Option<&'a mut Name>,
    ) {
        self.count += 1;
        if (self.log.is_some() || self.event_tx.is_some())
            && let Some(name) = name()
        {
            self.record_for_subscribers(issuer, transition, name);
        }
    }

    fn record_for_subscribers(&mut self, issuer: Issuer, transition: &Transition, name: &mut Name) {
        let Transition { at, work, attempt, from: previous, to: phase } = *transition;
        self.unpublished.push(WorkEvent {
            id: issuer.id(work),
            name: name.share().into(),
            state: phase.state(),
            phase,
            previous,
            attempt,
            number: self.count,
            at,
        });
    }

    /// Publishes the session's events, while its lock keeps them in order. Returns whom to wake after it.
    #[inline]
    pub(crate) fn publish(&mut self) -> Option<Arc<EventLog<WorkEvent>>> {
        if self.unpublished.is_empty() { None } else { self.append() }
    }

    fn append(&mut self) -> Option<Arc<EventLog<WorkEvent>>> {
        if let Some(event_tx) = &self.event_tx {
            let events = self.unpublished.iter().filter(|event| event.changes_state());
            let sent = events.map(|event| event_tx.try_send(event.clone()));
            self.events_dropped += sent.filter(Result::is_err).count() as u64;
        }
        let Some(log) = &self.log else {
            self.unpublished.clear();
            return None;
        };
        log.append(&mut self.unpublished).then(|| Arc::clone(log))
    }
}
