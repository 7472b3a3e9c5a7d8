//! The time of a run: the wall clock when its process began, and steadily on from there.
//!
//! Setting the wall clock does not change the time of a process. A resumed run continues at the time of
//! its last fact if the wall clock is earlier, because the engine's time never goes back.
//!
//! The clock pauses while other processes keep the run from writing: a step that ends in time then must not
//! have timed out when the run learns of its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Timestamp;

/// Milliseconds since 1970, of a run's clock.
pub(crate) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

#[derive(Clone)]
pub(crate) struct Clock {
    source: Source,
    /// What the clock showed when its source began.
    began: Duration,
    /// How many nanoseconds it has paused. Shared by all clocks of a run, and only its own thread changes
    /// or reads it.
    paused: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Source {
    /// The monotonic clock of this machine, from this instant on.
    Steady(Instant),
    /// Nanoseconds that a test advances.
    #[cfg(test)]
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Starts a clock at the time of the wall clock.
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { source: Source::Steady(Instant::now()), began: wall, paused: Arc::default() }
    }

    /// Starts a clock at zero that moves only when a test adds to `nanos`.
    #[cfg(test)]
    pub(crate) fn manual(nanos: &Arc<AtomicU64>) -> Self {
        let source = Source::Manual(Arc::clone(nanos));
        Self { source, began: Duration::ZERO, paused: Arc::default() }
    }

    /// Starts another clock on the same source.
    pub(crate) fn start_again(&self) -> Self {
        match &self.source {
            Source::Steady(_) => Self::start(),
            #[cfg(test)]
            Source::Manual(nanos) => Self::manual(nanos),
        }
    }

    /// Returns the time of the run.
    pub(crate) fn now(&self) -> Timestamp {
        let paused = Duration::from_nanos(self.paused.load(Ordering::Relaxed));
        Timestamp::ZERO.after(self.with_pauses().since(Timestamp::ZERO).saturating_sub(paused))
    }

    /// Has the clock show a time that it has shown before.
    pub(crate) fn pause(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.paused.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the time that the clock would show if it had never paused.
    pub(crate) fn with_pauses(&self) -> Timestamp {
        let elapsed = match &self.source {
            Source::Steady(began) => began.elapsed(),
            // Only the test's own thread advances it.
            #[cfg(test)]
            Source::Manual(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
        };
        Timestamp::ZERO.after(self.began + elapsed)
    }

    /// Sets the clock to `time`, unless it shows a later time already.
    pub(crate) fn catch_up(&mut self, time: Timestamp) {
        self.began += time.since(self.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_catches_up_and_never_goes_back() {
        let mut clock = Clock::start();
        let tomorrow = clock.now().after(Duration::from_secs(86_400));
        clock.catch_up(tomorrow);
        assert!(clock.now() >= tomorrow);
        clock.catch_up(Timestamp::ZERO);
        assert!(clock.now() >= tomorrow);
        assert!(clock.now().since(tomorrow) < Duration::from_secs(3_600), "it goes on as before");
    }
}
