//! What the store keeps of names: their leases, their waiters and their counters.
//!
//! A lease is stored with its owner, so that any process can tell whether the holder is still alive.
//! Which claim gets a name is decided by `windlass-core`, not here.

use windlass_core::{CoordinationStats, Lease, Name, Timestamp, Token, Waiter};

use crate::clock::ClockReading;
use crate::process::{Liveness, Process, has_ended};

/// What the store keeps of a name while it has no holder, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredName {
    /// The slots of a semaphore, or the steps of the amount of a limit; none for a lock, and for a limit that
    /// was removed.
    pub capacity: Option<u64>,
    /// The largest fencing token given out so far.
    pub token: Token,
    /// The largest arrival number of a waiter for it so far.
    pub arrivals: u64,
    /// Counters of acquisitions, releases and refusals.
    pub stats: CoordinationStats,
}

/// The process, user and boot behind a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The [`Frame`](crate::Frame) of the lease's times.
    pub frame: String,
    /// The machine of the holder, in a store that several machines use.
    pub host: Option<String>,
    /// The process that holds the lease; the lease ends with it.
    pub process: Option<Process>,
    /// The processes that work under the lease, besides that one.
    pub tree: Option<ProcessTree>,
    /// The user who acquired the lease; none if an older version stored it.
    pub uid: Option<u32>,
    /// When the lease began, in milliseconds since the Unix epoch, for display.
    pub since_ms: i64,
}

impl Owner {
    /// Returns whether the owner has certainly ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.frame, self.process.as_ref())
    }
}

/// The processes that work under a lease, described so that another process can find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTree {
    /// The tag that each of them carries in its environment, as `VARIABLE=tag`.
    pub tag: String,
    /// The process group in which they started.
    pub group: Option<ProcessGroup>,
}

/// A process group, with the start time that tells it from a later group of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessGroup {
    /// The pid of the group's leader, which is the number of the group.
    pub leader: u32,
    /// When the leader started, in clock ticks of the kernel since the boot.
    pub started: u64,
    /// The session of the group.
    pub session: u32,
}

/// A lease on a name, with its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLease {
    /// The name that is held.
    pub name: Name,
    /// The holder, its fencing token and its heartbeats.
    pub lease: Lease,
    /// The process behind the holder.
    pub owner: Owner,
    /// The items that the holder has, of a limit with items.
    pub items: Vec<String>,
    /// Heartbeats were missed once already. The lease has got the same time again, because the clock of a
    /// server may jump, and holders may have been cut off from it like everyone else.
    pub doubted: bool,
}

/// The items of a limit, such as the numbers of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitItems {
    /// Their names.
    pub names: Vec<String>,
    /// The name of the environment variable in which a holder finds its items.
    pub variable_name: String,
}

impl LimitItems {
    /// Returns the variable that tells a holder its items.
    #[must_use]
    pub fn variable(&self) -> (String, String) {
        (self.variable_name.clone(), self.names.join(","))
    }
}

/// Whether a lease is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The holder has the name.
    Held,
    /// The holder missed its heartbeats or exceeded the longest hold it is allowed.
    Stale,
    /// The holder's process has certainly ended.
    Gone,
}

impl StoredLease {
    /// Returns the state of the lease at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> HoldState {
        if self.owner.is_gone() {
            HoldState::Gone
        } else if self.lease.is_stale(now) && !self.is_vouched_for(now) {
            HoldState::Stale
        } else {
            HoldState::Held
        }
    }

    /// Returns whether the holder may still use the lease: no one has found it stale. Where holders may be on
    /// other machines, one whose heartbeats have only been late has not lost it.
    pub(crate) fn is_valid(&self, now: &ClockReading) -> bool {
        let late = now.frame.is_shared() && self.lease.is_only_silent(now.at);
        self.owner.frame == now.frame.id() && (late || !self.lease.is_stale(now.at))
    }

    /// Returns whether the lease has ended as far as can be seen, by the end of its holder or for want of
    /// heartbeats.
    #[must_use]
    pub fn is_over(&self, now: &ClockReading) -> bool {
        let unseen = now.frame.is_shared() && self.lease.is_stale(now.at);
        self.owner.is_gone() || self.owner.frame != now.frame.id() || unseen
    }

    /// Returns whether the holder's process, seen alive, stands in for missing heartbeats.
    ///
    /// That holds only where the caller named a process and nothing else works under the lease. The
    /// leader of a run and a command under a lock send heartbeats of their own; without them, they hang.
    pub(crate) fn is_vouched_for(&self, now: Timestamp) -> bool {
        let by_users = matches!(self.name, Name::Lock(_) | Name::Semaphore(_) | Name::Limit(_));
        let named = self.owner.tree.is_none() && by_users;
        let is_alive = |process: &Process| process.liveness() == Liveness::Alive;
        named && self.lease.is_only_silent(now) && self.owner.process.as_ref().is_some_and(is_alive)
    }
}

/// A waiter in the queue for names, with the process behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWaiter {
    /// The waiter and its place in the queue.
    pub waiter: Waiter,
    /// The [`Frame`](crate::Frame) of its times.
    pub frame: String,
    /// The machine of the process, in a store that several machines use.
    pub host: Option<String>,
    /// The process that waits; the waiter leaves the queue when it ends.
    pub process: Option<Process>,
    /// The [`Wakeup`](crate::Wakeup) to notify when its turn comes.
    pub wakeup: Option<String>,
    /// When it began to wait, in milliseconds since the Unix epoch, for display.
    pub since_ms: i64,
}

impl StoredWaiter {
    /// Returns whether the process that waits has certainly ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.frame, self.process.as_ref())
    }
}
