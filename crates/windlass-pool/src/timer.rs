//! One clock for all deadlines of a pool.
//!
//! A thread, started with the first deadline, sleeps until the earliest one and cancels what it was
//! set for. An alarm holds a guard of its node, so that node is there when the alarm goes off. Never
//! goes off early. Knows nothing of what a cancel does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Instant,
};

use crate::node::PendingGuard;

/// Distinguishes alarms that are set for the same moment.
type Serial = u64;

#[derive(Default)]
struct Alarms {
    pending: BTreeMap<(Instant, Serial), PendingGuard>,
    next_serial: Serial,
    thread: Option<JoinHandle<()>>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

/// A pool's timer.
#[derive(Default)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

/// An alarm that has been set; dropping it calls it off.
#[must_use]
pub(crate) struct Alarm<'a> {
    timer: &'a Timer,
    key: (Instant, Serial),
}

impl Timer {
    /// Has the node of `guard` cancelled at `moment`.
    pub(crate) fn set(&self, moment: Instant, guard: PendingGuard) -> Alarm<'_> {
        let mut alarms = self.shared.lock();
        let key = (moment, alarms.next_serial);
        alarms.next_serial += 1;
        alarms.pending.insert(key, guard);
        if alarms.thread.is_none() {
            alarms.thread = Some(start(Arc::clone(&self.shared)));
        } else if alarms.pending.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.shared.changed.notify_one();
        }
        Alarm { timer: self, key }
    }

    /// Ends the thread. No alarm is pending any more: each belongs to a scope of the pool.
    pub(crate) fn close(&self) {
        let thread = {
            let mut alarms = self.shared.lock();
            alarms.closed = true;
            alarms.thread.take()
        };
        self.shared.changed.notify_one();
        if let Some(thread) = thread {
            // A callback's panic is caught, so there is no error to see here.
            let _ = thread.join();
        }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let guard = self.timer.shared.lock().pending.remove(&self.key);
        // Given back outside the lock; if there is none, the alarm is going off and gives it back.
        drop(guard);
    }
}

fn start(shared: Arc<Shared>) -> JoinHandle<()> {
    thread::Builder::new()
        .name("windlass-timer".to_owned())
        .spawn(move || {
            while let Some(guard) = shared.next_due() {
                guard.cancel();
            }
        })
        .expect("the system has room for one more thread")
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until an alarm is due; `None` when the timer is closed.
    fn next_due(&self) -> Option<PendingGuard> {
        let mut alarms = self.lock();
        while !alarms.closed {
            let now = Instant::now();
            alarms = match alarms.pending.first_entry() {
                Some(first) if first.key().0 <= now => return Some(first.remove()),
                Some(first) => {
                    let rest = first.key().0 - now;
                    let woken = self.changed.wait_timeout(alarms, rest);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(alarms).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}
