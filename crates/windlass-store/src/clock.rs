//! The clock that leases are measured by, independent of the wall clock of this machine.
//!
//! A store of one machine goes by the time since its boot, which also runs while the machine is suspended. A
//! store in a database goes by the clock of the server, which all machines share. Times can be compared only
//! within one [`Frame`].

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use windlass_core::Timestamp;

use crate::error::StoreError;
use crate::process::{Liveness, Process};

/// How the id of a frame begins that is a database.
const DATABASE: &str = "database ";

/// Within what the times of leases can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A boot of one machine, whose processes alone use the store. None of them survives it.
    Boot(String),
    /// A database, which the processes of any machine use.
    Database {
        /// What tells it apart from others, and from copies of it.
        system: String,
        /// Its history, which changes when a standby or a backup takes its place.
        timeline: String,
    },
}

impl Frame {
    /// Returns the frame of a database.
    #[must_use]
    pub fn of_database(system: &str, timeline: &str) -> Self {
        Frame::Database { system: format!("{DATABASE}{system}"), timeline: timeline.to_owned() }
    }

    /// Returns what is stored with leases and waiters: those of another frame are over.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Frame::Boot(id) | Frame::Database { system: id, .. } => id,
        }
    }

    /// Returns the era of tokens. Those of a new era are larger than all before, including those that a loss
    /// of power or a fail-over has undone.
    #[must_use]
    pub fn era(&self) -> String {
        match self {
            Frame::Boot(id) => id.clone(),
            Frame::Database { system, timeline } => format!("{system}/{timeline}"),
        }
    }

    /// Returns whether holders may be on other machines, where only their heartbeats can be seen.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Frame::Database { .. })
    }

    /// Returns whether the frame with this id is a boot of this machine that is over.
    pub(crate) fn is_over(id: &str) -> bool {
        !id.starts_with(DATABASE) && boot_id().is_ok_and(|now| now != id)
    }
}

/// A reading of a [`Clock`], on which all processes that use a store agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time, from a beginning that the frame sets.
    pub at: Timestamp,
    /// The time since the boot of this machine, read at the same moment or shortly before.
    pub here: Timestamp,
    /// Within what `at` can be compared.
    pub frame: Frame,
    /// The wall clock in milliseconds since the Unix epoch, for display only.
    pub wall_ms: i64,
}

/// A reading of the clock of a server, within a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// The time, which never goes back.
    pub at: Timestamp,
    /// The wall clock of the server in milliseconds since the Unix epoch.
    pub wall_ms: i64,
    /// The time since the boot of this machine, read before the server was asked.
    pub asked: Timestamp,
    /// The database.
    pub frame: Frame,
}

/// The clock of a store. A simulated machine also knows which of its processes live.
pub trait Clock: Send + Sync {
    /// Reads the clock.
    fn now(&self) -> ClockReading;

    /// Reads the clock for a transaction, for which a server may have read its own.
    fn within(&self, _: Option<&ServerTime>) -> ClockReading {
        self.now()
    }

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
        let at = since_boot();
        ClockReading { at, here: at, frame: Frame::Boot(self.boot.clone()), wall_ms: wall_ms() }
    }
}

/// The clock of a store in a database: that of the server. Between transactions this machine's time since
/// boot continues it, so nothing depends on the wall clock of this machine.
#[derive(Debug)]
pub struct DatabaseClock {
    last: Mutex<ServerTime>,
}

impl DatabaseClock {
    /// Creates a clock that has been read once.
    #[must_use]
    pub fn start(first: ServerTime) -> Self {
        Self { last: Mutex::new(first) }
    }

    fn last(&self) -> MutexGuard<'_, ServerTime> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> ClockReading {
        let here = since_boot();
        let ServerTime { at, wall_ms, asked, frame } = self.last().clone();
        let since = here.since(asked);
        let passed_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        ClockReading {
            at: at.after(since),
            here,
            frame,
            wall_ms: wall_ms.saturating_add(passed_ms),
        }
    }

    fn within(&self, server: Option<&ServerTime>) -> ClockReading {
        let Some(server) = server else { return self.now() };
        let ServerTime { at, wall_ms, asked, frame } = server.clone();
        *self.last() = server.clone();
        ClockReading { at, here: asked, frame, wall_ms }
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
        Self::of(Frame::Boot(boot))
    }
}

impl ManualClock {
    /// Creates a clock that stands still in a frame.
    #[must_use]
    pub fn of(frame: Frame) -> Self {
        let at = Timestamp::from_millis(1_000);
        let reading = ClockReading { at, here: at, frame, wall_ms: 0 };
        Self { reading: Arc::new(Mutex::new(reading)) }
    }

    /// Advances the time.
    pub fn advance(&self, span: Duration) {
        let mut reading = self.reading();
        reading.at = reading.at.after(span);
        reading.here = reading.here.after(span);
    }

    /// Sets the wall clock, and nothing else.
    pub fn set_wall(&self, wall_ms: i64) {
        self.reading().wall_ms = wall_ms;
    }

    /// Starts another boot: the time since boot begins again at zero.
    pub fn reboot(&self, boot: &str) {
        let mut reading = self.reading();
        (reading.at, reading.here) = (Timestamp::ZERO, Timestamp::ZERO);
        reading.frame = Frame::Boot(boot.to_owned());
    }

    /// Goes on in another frame, as when a standby takes the place of a database.
    pub fn change_frame(&self, frame: Frame) {
        self.reading().frame = frame;
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

/// Returns the time since the boot of this machine, which also runs while the machine is suspended.
pub(crate) fn since_boot() -> Timestamp {
    let time = clock_gettime(ClockId::Boottime);
    Timestamp::ZERO.after(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
}

pub(crate) fn boot_id() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
