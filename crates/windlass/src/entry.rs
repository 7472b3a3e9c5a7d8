//! What the driver keeps beside the engine for each work: its name, its body, its past.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::{WorkId, WorkState};

use crate::work::{Work, WorkOutcome};

pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    /// Absent while an attempt is under way.
    pub(crate) body: Option<Box<dyn Work>>,
    /// Asks the attempt under way to stop.
    pub(crate) token: CancellationToken,
    pub(crate) started_at: Option<Instant>,
    pub(crate) last_error: Option<String>,
    pub(crate) last_duration: Option<Duration>,
    pub(crate) total_duration: Duration,
}

/// One work at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkSnapshot {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands.
    pub state: WorkState,
    /// The works that have to succeed before it.
    pub deps: Vec<WorkId>,
    /// How many attempts have begun.
    pub attempts: u32,
    /// How often it may be tried again.
    pub retries_left: u32,
    /// Why the latest attempt that did not succeed did not.
    pub last_error: Option<String>,
    /// How long the latest attempt took.
    pub last_duration: Option<Duration>,
    /// How long all attempts took together.
    pub total_duration: Duration,
}

impl Entry {
    pub(crate) fn new(body: Box<dyn Work>) -> Self {
        Self {
            name: body.name().into(),
            body: Some(body),
            token: CancellationToken::new(),
            started_at: None,
            last_error: None,
            last_duration: None,
            total_duration: Duration::ZERO,
        }
    }

    /// An attempt has returned.
    pub(crate) fn settle(&mut self, outcome: &WorkOutcome, body: Option<Box<dyn Work>>) {
        self.body = body;
        if let WorkOutcome::Failed(error) = outcome {
            self.last_error = Some(error.clone());
        }
        if let Some(started_at) = self.started_at.take() {
            let took = started_at.elapsed();
            self.last_duration = Some(took);
            self.total_duration += took;
        }
    }
}
