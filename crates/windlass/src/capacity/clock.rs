//! The time of a tree or of a source: nanoseconds since its first reading, on the runtime's clock.
//!
//! Under paused time it is paused with the runtime. It never goes back, also not where some callers read it
//! inside a runtime with paused time and others outside.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use windlass_core::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    origin: OnceLock<Instant>,
    latest: AtomicU64,
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        let now = Instant::now();
        let origin = *self.origin.get_or_init(|| now);
        let elapsed = now.saturating_duration_since(origin);
        let seconds = elapsed.as_secs().saturating_mul(1_000_000_000);
        let elapsed = seconds.saturating_add(u64::from(elapsed.subsec_nanos()));
        // Relaxed: only this number matters, nothing is published with it.
        let latest = self.latest.fetch_max(elapsed, Ordering::Relaxed);
        Timestamp::from_nanos(latest.max(elapsed))
    }

    /// The time at the last look: for what has to be in order, but need not be exact.
    pub(crate) fn last(&self) -> Timestamp {
        // Relaxed: only this number matters.
        Timestamp::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// When `at` is on the runtime's clock; none if that is beyond it.
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        let origin = *self.origin.get_or_init(Instant::now);
        origin.checked_add(at.since(Timestamp::ZERO))
    }
}
