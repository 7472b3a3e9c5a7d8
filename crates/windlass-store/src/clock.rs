//! The clock that leases are measured by: time since boot, independent of the wall clock.
//!
//! It also runs while the machine is suspended. Two readings can be compared only within one boot.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use windlass_core::Timestamp;

use crate::error::StoreError;
use crate::process::{Liveness, Process};

/// A reading of a [`Clock`], on which all processes of a machine agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time since the boot.
    pub at: Timestamp,
    /// The id of the boot.
    pub boot: String,
    /// The wall clock in milliseconds since the Unix epoch, for display only.
    pub wall_ms: i64,
}

/// The clock of a machine. A simulated machine also knows which of its processes live.
pub trait Clock: Send + Sync {
    /// Reads the clock.
    fn now(&self) -> ClockReading;

    /// Returns what can be told about a process of the machine.
    fn liveness(&self, process: &Process) -> Liveness {
        process.liveness()
    }
}

/// The clock of this machine.
#[derive(Clone, Debug)]
pub struct BootClock {
    boot: String,
}

impl BootClock {
    /// Creates a clock for the present boot.
    pub fn start() -> Result<Self, StoreError> {
        let unknown = |source| StoreError::SystemQuery { what: "the id of this boot", source };
        Ok(Self { boot: boot_id().map_err(unknown)? })
    }
}

impl Clock for BootClock {
    fn now(&self) -> ClockReading {
        let time = clock_gettime(ClockId::Boottime);
        let since = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
        let at = Timestamp::ZERO.after(since);
        ClockReading { at, boot: self.boot.clone(), wall_ms: wall_ms() }
    }
}

/// A clock for tests, which stands still until a test moves it.
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
    /// Advances the time since boot.
    pub fn advance(&self, span: Duration) {
        let mut reading = self.reading();
        reading.at = reading.at.after(span);
    }

    /// Sets the wall clock, and nothing else.
    pub fn set_wall(&self, wall_ms: i64) {
        self.reading().wall_ms = wall_ms;
    }

    /// Starts another boot: the time since boot begins again at zero.
    pub fn reboot(&self, boot: &str) {
        let mut reading = self.reading();
        (reading.at, reading.boot) = (Timestamp::ZERO, boot.to_owned());
    }

    fn reading(&self) -> MutexGuard<'_, ClockReading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ClockReading {
        self.reading().clone()
    }
}

pub(crate) fn boot_id() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
