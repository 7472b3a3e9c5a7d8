//! What time it is for leases: steady since boot, blind to the wall clock, counting suspend.
//!
//! Two moments can be compared only within one boot; whoever lived in another one is dead.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use windlass_core::Timestamp;

use crate::error::StoreError;

/// A point in time that all processes of a machine agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Since the boot.
    pub at: Timestamp,
    /// Which boot.
    pub boot: String,
    /// Milliseconds since 1970, for display only.
    pub wall_ms: i64,
}

/// Tells what time it is.
pub trait Clock: Send + Sync {
    /// The present reading.
    fn now(&self) -> ClockReading;
}

/// The clock of this machine.
#[derive(Clone, Debug)]
pub struct BootClock {
    boot: String,
}

impl BootClock {
    /// Finds out which boot this is.
    pub fn start() -> Result<Self, StoreError> {
        let boot =
            boot_id().map_err(|source| StoreError::SystemQuery { what: "its boot", source })?;
        Ok(Self { boot })
    }
}

impl Clock for BootClock {
    fn now(&self) -> ClockReading {
        let time = clock_gettime(ClockId::Boottime);
        let since = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
        ClockReading {
            at: Timestamp::ZERO.after(since),
            boot: self.boot.clone(),
            wall_ms: wall_ms(),
        }
    }
}

/// A clock that stands still until it is moved: for tests.
///
/// ```
/// use std::time::Duration;
/// use windlass_store::{Clock, ManualClock};
///
/// let clock = ManualClock::default();
/// let before = clock.now().at;
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now().at.since(before), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    reading: Arc<Mutex<ClockReading>>,
}

impl Default for ManualClock {
    fn default() -> Self {
        let boot = boot_id().unwrap_or_else(|_| "a boot".to_owned());
        let reading = ClockReading { at: Timestamp::from_millis(1_000), boot, wall_ms: 0 };
        Self { reading: Arc::new(Mutex::new(reading)) }
    }
}

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.at = reading.at.after(span);
    }

    /// Sets the wall clock, and nothing else.
    pub fn set_wall(&self, wall_ms: i64) {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).wall_ms = wall_ms;
    }

    /// Boots the machine again: time begins anew.
    pub fn reboot(&self, boot: &str) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        (reading.at, reading.boot) = (Timestamp::ZERO, boot.to_owned());
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ClockReading {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) fn boot_id() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
