//! What a session leaves to be done once the scheduler's lock is free: nothing of the user's runs, is woken
//! or is dropped under it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::ClientId;

use crate::body::Body;
use crate::changes::Changes;
use crate::context::AttemptShared;
use crate::entry::Entry;
use crate::event::WorkChange;
use crate::gate::Gate;
use crate::reference::End;
use crate::report::Report;

#[derive(Default)]
pub(crate) struct Effects {
    /// Attempts that are asked to stop.
    pub(crate) stopped: Vec<Arc<AttemptShared>>,
    /// Attempts for which something has changed: they go on, or a child has ended.
    pub(crate) woken: Vec<Arc<AttemptShared>>,
    /// Ends of works, and those who wait for them.
    pub(crate) ends: Vec<(oneshot::Sender<End>, End)>,
    /// The `tracing` events about what has happened.
    pub(crate) reports: Vec<Report>,
    pub(crate) drops: Vec<DeferredDrop>,
    /// Subscribers that wait for a change.
    pub(crate) readers: Option<Arc<Changes<WorkChange>>>,
    /// Other clients of the capacity that should look again.
    pub(crate) clients: Vec<ClientId>,
    /// Whether a work has ended.
    pub(crate) has_ended: bool,
}

/// A value of the user's, whose destructor may do anything.
#[expect(dead_code, reason = "they are kept only to be dropped")]
pub(crate) enum DeferredDrop {
    Gate(Gate),
    Body(Box<dyn Body>),
    Entry(Box<Entry>),
}

impl Effects {
    pub(crate) fn drop_later(&mut self, value: DeferredDrop) {
        self.drops.push(value);
    }

    /// An attempt is over: nothing inside it has to wait for its slot any more.
    pub(crate) fn release(&mut self, attempt: Option<Arc<AttemptShared>>) {
        self.woken.extend(attempt.filter(|attempt| attempt.release()));
    }

    /// Tells attempts, waiters and subscribers. Values to be dropped are left, because a destructor may do
    /// anything.
    pub(crate) fn tell(&mut self) {
        // Before the wake-ups, so that a run does not return before its events are emitted.
        self.reports.drain(..).for_each(Report::emit);
        self.stopped.drain(..).for_each(|attempt| attempt.stop());
        self.woken.drain(..).for_each(|attempt| attempt.wake_all());
        // A receiver may be gone.
        self.ends.drain(..).for_each(|(waiter, end)| _ = waiter.send(end));
        if let Some(readers) = self.readers.take() {
            readers.wake();
        }
    }
}

impl DeferredDrop {
    /// Drops the value. A panic of its destructor was reported by the panic hook and concerns no other value.
    pub(crate) fn drop_now(self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }
}
