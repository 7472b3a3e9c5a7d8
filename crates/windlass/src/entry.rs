//! What the driver keeps beside the engine for each work: its name, its body, its past.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windlass_core::Timestamp;

use crate::context::AttemptCell;
use crate::gate::Gate;
use crate::reference::End;
use crate::work::Work;

pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    /// Absent while an attempt is under way.
    pub(crate) body: Option<Box<dyn Work>>,
    /// The attempt under way.
    pub(crate) attempt: Option<Arc<AttemptCell>>,
    /// Until somebody watches it.
    pub(crate) gate: Option<Gate>,
    /// Whoever watches the gate.
    pub(crate) watcher: Option<AbortHandle>,
    /// How often it may be tried again in all.
    pub(crate) retries: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    pub(crate) last_duration: Option<Duration>,
    pub(crate) total_duration: Duration,
    /// The attempt is gone, and ends as soon as its children have.
    pub(crate) abandoned: bool,
    /// Tells whoever waits for its end.
    pub(crate) end: Option<oneshot::Sender<End>>,
}

impl Entry {
    /// An attempt begins.
    pub(crate) fn start(&mut self, now: Timestamp) -> (Arc<AttemptCell>, Box<dyn Work>) {
        let cell = Arc::new(AttemptCell::new());
        self.attempt = Some(Arc::clone(&cell));
        self.started_at = Some(now);
        (cell, self.body.take().expect("a body is there between attempts"))
    }

    /// An attempt has returned, or was lost together with its body.
    pub(crate) fn stop(
        &mut self,
        body: Option<Box<dyn Work>>,
        now: Timestamp,
    ) -> Option<Arc<AttemptCell>> {
        self.body = body;
        self.abandoned = false;
        if let Some(started_at) = self.started_at.take() {
            let took = now.since(started_at);
            self.last_duration = Some(took);
            self.total_duration += took;
        }
        self.attempt.take()
    }
}
