//! The time of a run: the wall clock when its process began, and steadily on from there.
//!
//! Setting the wall clock does not disturb a process; a resumed run goes on at the time of its last
//! fact if the wall clock stands before it, because the engine's time never goes back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Timestamp;

/// Milliseconds since 1970, of a run's clock.
pub(crate) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

pub(crate) struct Clock {
    began: Instant,
    wall: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), wall }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.wall + self.began.elapsed())
    }

    /// Goes on from `time`, unless it stands behind that already.
    pub(crate) fn catch_up(&mut self, time: Timestamp) {
        self.wall += time.since(self.now());
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
