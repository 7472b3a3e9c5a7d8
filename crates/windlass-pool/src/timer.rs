//! The timer of a pool, which serves all its deadlines.
//!
//! Its thread, started with the first deadline, sleeps until the earliest deadline and then cancels
//! that entry's node. An entry holds a guard of its node, so the node is alive when it is due. No
//! entry is due early. Knows nothing of what a cancel does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Instant,
};

use crate::node::PendingGuard;

/// Distinguishes entries for the same instant.
type Serial = u64;

#[derive(Default)]
struct Entries {
    pending: BTreeMap<(Instant, Serial), PendingGuard>,
    next_serial: Serial,
    thread: Option<JoinHandle<()>>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    entries: Mutex<Entries>,
    changed: Condvar,
}

/// A pool's timer.
#[derive(Default)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

/// A scheduled cancel. Dropping it removes it from the timer.
#[must_use]
pub(crate) struct TimerEntry<'a> {
    timer: &'a Timer,
    key: (Instant, Serial),
}

impl Timer {
    /// Schedules a cancel of the node of `guard` at the instant `at`.
    ///
    /// # Panics
    /// If the timer's thread has to start and cannot.
    pub(crate) fn schedule(&self, at: Instant, guard: PendingGuard) -> TimerEntry<'_> {
        let mut entries = self.shared.lock();
        // Before the entry is added: if the thread cannot start, no entry may stay behind.
        entries.thread.get_or_insert_with(|| start(Arc::clone(&self.shared)));
        let key = (at, entries.next_serial);
        entries.next_serial += 1;
        entries.pending.insert(key, guard);
        if entries.pending.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.shared.changed.notify_one();
        }
        TimerEntry { timer: self, key }
    }

    /// Ends the thread. No entry is left, since each belongs to a scope of the pool.
    pub(crate) fn close(&self) {
        let thread = {
            let mut entries = self.shared.lock();
            entries.closed = true;
            entries.thread.take()
        };
        self.shared.changed.notify_one();
        if let Some(thread) = thread {
            // The thread does not panic: panics of cancel callbacks are caught.
            let _ = thread.join();
        }
    }
}

impl Drop for TimerEntry<'_> {
    fn drop(&mut self) {
        let guard = self.timer.shared.lock().pending.remove(&self.key);
        // Dropped outside the lock. If there is none, the timer's thread has it and drops it.
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
        .expect("cannot start the timer thread")
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until an entry is due, and removes it. Returns `None` when the timer is closed.
    fn next_due(&self) -> Option<PendingGuard> {
        let mut entries = self.lock();
        while !entries.closed {
            let now = Instant::now();
            entries = match entries.pending.first_entry() {
                Some(first) if first.key().0 <= now => return Some(first.remove()),
                Some(first) => {
                    let rest = first.key().0 - now;
                    let woken = self.changed.wait_timeout(entries, rest);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}
