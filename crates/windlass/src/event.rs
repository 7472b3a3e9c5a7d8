//! What a scheduler tells those who watch it: every change, numbered, in order.

use std::iter;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::mpsc;
use windlass_core::{Phase, Timestamp, Transition, WorkId, WorkState};

use crate::board::{Board, Reader, Told};
use crate::name::{Label, Name};
use crate::work_name::WorkName;

/// A work changed its state.
///
/// ```
/// # use windlass::{WorkEvent, WorkScheduler, WorkSchedulerConfig, work_fn};
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
/// A work that begins to wait makes no event; its [`WorkChange`]s tell of that, too.
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

/// A work changed its phase, as a [`Subscription`] tells it.
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

/// What a [`Subscription`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A work changed its phase.
    Change(WorkChange),
    /// So many changes came and went before the subscriber looked.
    Missed(u64),
}

/// Someone who is told of every change of phase, or how many were missed: a slow reader holds nobody
/// up, and knows that it was slow.
///
/// ```
/// use windlass::{Notice, Phase, WorkScheduler, WorkSchedulerConfig, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
pub struct Subscription {
    changes: Reader<Change>,
    /// The work of which it was told last, and its name: changes of one work often follow each other.
    last: Option<(WorkId, WorkName)>,
}

/// A change on its way to a subscriber. Its name is no shared one yet if it is short: whoever hears of the
/// changes is elsewhere, and to count together who has a name would hold up both sides.
#[derive(Clone, Debug)]
struct Change {
    id: WorkId,
    name: Label,
    phase: Phase,
    attempt: u32,
    number: u64,
    at: Timestamp,
}

impl Subscription {
    /// The next change; none once the scheduler is gone.
    pub async fn recv(&mut self) -> Option<Notice> {
        Some(match self.changes.next().await? {
            Told::One(change) => Notice::Change(self.named(change)),
            Told::Missed(missed) => Notice::Missed(missed),
        })
    }

    fn named(&mut self, change: Change) -> WorkChange {
        let Change { id, name, phase, attempt, number, at } = change;
        let name = match &self.last {
            Some((last, known)) if *last == id => known.clone(),
            _ => {
                let name = WorkName::from(Name::from(name).to_shared());
                self.last = Some((id, name.clone()));
                name
            }
        };
        WorkChange { id, name, phase, attempt, number, at }
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Notice> {
        futures::stream::unfold(self, |mut own| async move { Some((own.recv().await?, own)) })
    }
}

/// Everybody who watches a scheduler.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    pub(crate) event_tx: Option<mpsc::Sender<WorkEvent>>,
    pub(crate) events_dropped: u64,
    changes: Option<Arc<Board<Change>>>,
    /// What is to be posted there when the visit is over.
    unposted: Vec<Change>,
    closed: bool,
}

impl Watchers {
    pub(crate) fn new(event_tx: Option<mpsc::Sender<WorkEvent>>) -> Self {
        Self { event_tx, ..Self::default() }
    }

    pub(crate) fn subscribe(&mut self) -> Subscription {
        let board = self.changes.get_or_insert_with(Board::new);
        if self.closed {
            board.close();
        }
        Subscription { changes: board.read(), last: None }
    }

    /// There is nothing to be told any more: whoever listens hears the end.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.event_tx = None;
        self.post();
        if let Some(board) = self.changes.take() {
            board.close();
        }
    }

    /// Whether anybody is told anything.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.changes.is_some() || self.event_tx.is_some()
    }

    /// Tells of the change with this number.
    pub(crate) fn tell(&mut self, transition: &Transition, number: u64, name: &mut Name) {
        self.tell_subscribers(transition, number, name);
        let Some(event_tx) = &self.event_tx else { return };
        let state = transition.to.state();
        let first_seen_waiting = transition.from.is_none() && !state.is_terminal();
        if transition.from == Some(state) || first_seen_waiting {
            return;
        }
        let Transition { at, work: id, attempt, .. } = *transition;
        let name = Arc::clone(name.shared()).into();
        let event = WorkEvent { id, name, state, attempt, number, at };
        if event_tx.try_send(event).is_err() {
            self.events_dropped += 1;
        }
    }

    /// Posts what subscribers have to be told, in one go.
    #[inline]
    pub(crate) fn post(&mut self) {
        if let Some(board) = &self.changes
            && !self.unposted.is_empty()
        {
            board.post(&mut self.unposted);
        }
    }

    fn tell_subscribers(&mut self, transition: &Transition, number: u64, name: &Name) {
        if self.changes.is_none() {
            return;
        }
        let Transition { at, work: id, attempt, to: phase, .. } = *transition;
        let change = || Change { id, name: name.label(), phase, attempt, number, at };
        // Made where it stands, once there is room for it.
        self.unposted.extend(iter::once_with(change));
    }
}
