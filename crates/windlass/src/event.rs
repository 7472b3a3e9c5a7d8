//! The events of a scheduler for its subscribers: every change, numbered, in order.

use std::sync::Arc;

use futures::Stream;
use tokio::sync::mpsc;
use windlass_core::{Phase, Timestamp, Transition, WorkState};

use crate::changes::{Changes, Read, Reader};
use crate::id::{Issuer, WorkId};
use crate::name::Name;
use crate::work_name::WorkName;

/// A work changed its state.
///
/// ```
/// # use windlass::works::{WorkEvent, WorkSchedulerConfig};
/// # use windlass::{WorkScheduler, work_fn};
/// # use tokio::sync::mpsc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (event_tx, mut event_rx) = mpsc::channel::<WorkEvent>(256);
///
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig {
///     event_tx: Some(event_tx),
///     ..Default::default()
/// });
///
/// // Process events in a separate task
/// # let reader =
/// tokio::spawn(async move {
/// #   let mut events = 0;
///     while let Some(event) = event_rx.recv().await {
///         println!("[{}] {} -> {:?}", event.id, event.name, event.state);
/// #       events += 1;
///     }
/// #   events
/// });
/// # scheduler.submit(work_fn("one", |_| async { Ok(()) }))?;
/// # scheduler.run_until_done().await;
/// # drop(scheduler);
/// # assert_eq!(reader.await?, 2, "Running and Success");
/// # Ok(())
/// # }
/// ```
///
/// A work that begins to wait makes no event, but a [`WorkChange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkEvent {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: WorkName,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Counts all changes of a scheduler, so that all are in one order; of phases, too.
    pub number: u64,
    /// When, since the scheduler first looked at the clock.
    pub at: Timestamp,
}

/// A work changed its phase, as a [`Subscription`] reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkChange {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: WorkName,
    /// The phase it is in now, which says more than its state.
    pub phase: Phase,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Counts all changes of a scheduler.
    pub number: u64,
    /// When, since the scheduler first looked at the clock.
    pub at: Timestamp,
}

/// What a [`Subscription`] receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A work changed its phase.
    Change(WorkChange),
    /// So many changes came and went before the subscriber looked.
    Missed(u64),
}

/// Receives every change of phase, or the number of changes that were missed: a slow reader delays neither the
/// scheduler nor other readers, and learns that it was slow.
///
/// ```
/// use windlass::works::{Notice, Phase};
/// use windlass::{WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let mut changes = scheduler.subscribe();
/// scheduler.submit(work_fn("one", |_| async { Ok(()) }))?;
/// scheduler.run_until_done().await;
/// drop(scheduler);
///
/// let mut phases = Vec::new();
/// while let Some(notice) = changes.recv().await {
///     match notice {
///         Notice::Change(change) => phases.push(change.phase),
///         Notice::Missed(count) => println!("{count} changes went by"),
///     }
/// }
/// assert_eq!(phases, [Phase::Ready, Phase::Running, Phase::Success]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription(Reader<WorkChange>);

impl Subscription {
    /// Waits for the next change; none once the scheduler is gone.
    pub async fn recv(&mut self) -> Option<Notice> {
        Some(match self.0.next().await? {
            Read::Change(change) => Notice::Change(change),
            Read::Missed(missed) => Notice::Missed(missed),
        })
    }

    /// Returns the same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Notice> {
        futures::stream::unfold(self, |mut own| async move { Some((own.recv().await?, own)) })
    }
}

/// The subscribers of a scheduler, and the changes of the session under way.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    pub(crate) event_tx: Option<mpsc::Sender<WorkEvent>>,
    pub(crate) events_dropped: u64,
    changes: Option<Arc<Changes<WorkChange>>>,
    /// To be appended at the end of the session.
    unsent: Vec<WorkChange>,
    /// How many changes there were.
    count: u64,
    is_closed: bool,
}

impl Watchers {
    pub(crate) fn new(event_tx: Option<mpsc::Sender<WorkEvent>>) -> Self {
        Self { event_tx, ..Self::default() }
    }

    pub(crate) fn subscribe(&mut self) -> Subscription {
        let changes = self.changes.get_or_insert_with(Changes::new);
        if self.is_closed {
            changes.close();
        }
        Subscription(changes.reader())
    }

    /// Ends all subscriptions once they have read everything. Returns whom to wake after the session.
    pub(crate) fn close(&mut self) -> Option<Arc<Changes<WorkChange>>> {
        self.is_closed = true;
        self.event_tx = None;
        self.send();
        self.changes.take().inspect(|changes| changes.close())
    }

    /// Takes note of a change. The name of the work is asked for only where there are subscribers; it is none
    /// if the work is forgotten already.
    #[inline]
    pub(crate) fn note<'a>(
        &mut self,
        issuer: Issuer,
        transition: &Transition,
        name: impl FnOnce() -> Option<&'a mut Name>,
    ) {
        self.count += 1;
        if (self.changes.is_some() || self.event_tx.is_some())
            && let Some(name) = name()
        {
            self.note_for_watchers(issuer, transition, name);
        }
    }

    fn note_for_watchers(&mut self, issuer: Issuer, transition: &Transition, name: &mut Name) {
        let Transition { at, work, attempt, from, to: phase } = *transition;
        let id = issuer.id(work);
        let number = self.count;
        if self.changes.is_some() {
            let name = name.share().into();
            self.unsent.push(WorkChange { id, name, phase, attempt, number, at });
        }
        let state = phase.state();
        let is_new_and_waits = from.is_none() && !state.is_terminal();
        if let Some(event_tx) = &self.event_tx
            && from != Some(state)
            && !is_new_and_waits
        {
            let event = WorkEvent { id, name: name.share().into(), state, attempt, number, at };
            self.events_dropped += u64::from(event_tx.try_send(event).is_err());
        }
    }

    /// Appends the session's changes, while its lock keeps them in order. Returns whom to wake after it.
    #[inline]
    pub(crate) fn send(&mut self) -> Option<Arc<Changes<WorkChange>>> {
        if self.unsent.is_empty() { None } else { self.append() }
    }

    fn append(&mut self) -> Option<Arc<Changes<WorkChange>>> {
        let changes = self.changes.as_ref()?;
        changes.append(&mut self.unsent).then(|| Arc::clone(changes))
    }
}
