//! Until when this process may start others.
//!
//! A worker may start processes only while no other process can take it for dead. Whether it may is decided
//! by the new process itself, after it has set its tag and before it executes its program: the worker could
//! be suspended between its own decision and the start. So a search for the tag that begins after the time is
//! over finds every process that was let through, and each one that it cannot see yet will be refused.
//!
//! A process that is no worker may always start others.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use windlass_core::Timestamp;

/// The error of a process that was not let through.
pub(crate) const REFUSED: Errno = Errno::STALE;

/// Why it was not started, for users.
pub(crate) const REASON: &str = "its worker could not reach the store in time to start it";

/// In nanoseconds since the boot, also while the machine sleeps. A child that shares the memory of this
/// process, or has a copy of it, reads it before it executes its program.
static UNTIL: AtomicU64 = AtomicU64::new(u64::MAX);

/// Lets processes start until a time since the boot.
pub(crate) fn open_until(time: Timestamp) {
    // Only this number is shared, and each value of it is right by itself.
    UNTIL.store(time.as_nanos(), Ordering::Relaxed);
}

/// Lets no process start any more.
pub(crate) fn close() {
    open_until(Timestamp::ZERO);
}

/// Returns whether the time may come at which no process may start any more.
pub(crate) fn is_set() -> bool {
    UNTIL.load(Ordering::Relaxed) != u64::MAX
}

/// Returns whether a process may start now. Neither allocates nor takes locks.
pub(crate) fn is_open() -> bool {
    match UNTIL.load(Ordering::Relaxed) {
        u64::MAX => true,
        until => now().as_nanos() < until,
    }
}

/// Returns whether a process was not started because of this.
pub(crate) fn has_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(REFUSED.raw_os_error())
}

/// Returns the time since the boot, which continues while the machine sleeps.
pub(crate) fn now() -> Timestamp {
    let now = clock_gettime(ClockId::Boottime);
    let nanos = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
    Timestamp::from_nanos(nanos)
}
