//! Counters, gauges and histograms for the `metrics` facade.
//!
//! The meter follows transitions under the scheduler's lock. Its measurements are recorded after the lock is
//! released, because a recorder is the user's code.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use windlass_core::{Phase, Timestamp, Transition, WorkId, WorkState};

use crate::effects::Effects;

#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Since when each work is in the queue.
    ready: HashMap<WorkId, Timestamp>,
    /// Since when each work has an attempt under way.
    running: HashMap<WorkId, Timestamp>,
}

/// A measurement that has yet to be recorded.
#[derive(Debug)]
pub(crate) enum Measurement {
    Started { queued: Option<Duration> },
    Stopped { took: Duration },
    Retried,
    Ended { state: &'static str },
}

impl Meter {
    pub(crate) fn follow(&mut self, transition: &Transition, effects: &mut Effects) {
        let Transition { at, work, from, to, .. } = *transition;
        let was_running = from == Some(WorkState::Running);
        let is_running = to.state() == WorkState::Running;
        if was_running && !is_running {
            let took = self.running.remove(&work).map_or(Duration::ZERO, |since| at.since(since));
            effects.measure(Measurement::Stopped { took });
        }
        if is_running && !was_running {
            self.running.insert(work, at);
            let queued = self.ready.remove(&work).map(|since| at.since(since));
            effects.measure(Measurement::Started { queued });
        }
        match to {
            Phase::Ready => _ = self.ready.insert(work, at),
            Phase::Delayed { .. } => effects.measure(Measurement::Retried),
            end if end.state().is_terminal() => {
                self.ready.remove(&work);
                effects.measure(Measurement::Ended { state: state(end) });
            }
            _ => {}
        }
    }
}

/// The label of an end.
fn state(end: Phase) -> &'static str {
    match end {
        Phase::Success => "success",
        Phase::Skipped => "skipped",
        Phase::Failed => "failed",
        Phase::Blocked => "blocked",
        _ => "cancelled",
    }
}

impl Measurement {
    /// Gives the measurement to the recorder. The caller holds no lock.
    pub(crate) fn record(self) {
        match self {
            Self::Started { queued } => {
                counter!("windlass_attempts_started").increment(1);
                gauge!("windlass_works_running").increment(1);
                if let Some(queued) = queued {
                    histogram!("windlass_queue_seconds").record(queued);
                }
            }
            Self::Stopped { took } => {
                gauge!("windlass_works_running").decrement(1);
                histogram!("windlass_attempt_seconds").record(took);
            }
            Self::Retried => counter!("windlass_retries").increment(1),
            Self::Ended { state } => {
                counter!("windlass_works_ended", "state" => state).increment(1);
            }
        }
    }
}
