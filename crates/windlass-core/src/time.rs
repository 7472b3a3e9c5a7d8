//! Points in time, as numbers that a driver passes in.
//!
//! The engine never reads a clock: the driver chooses the origin, and time must not go back.

use std::fmt;
use std::time::Duration;

/// A point in time: nanoseconds since an origin that the driver chose.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Timestamp;
///
/// let start = Timestamp::from_millis(250);
/// assert_eq!(start.after(Duration::from_secs(1)), Timestamp::from_millis(1250));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Packed, because there is one in every work and every fact.
#[repr(Rust, packed)]
pub struct Timestamp(u64);

const _: () = assert!(size_of::<Option<Timestamp>>() == 9);

impl Timestamp {
    /// The origin.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The latest time: 584 years after the origin.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time `millis` milliseconds after the origin, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
