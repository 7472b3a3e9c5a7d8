//! The sleep protocol: which workers are awake, which search, and which is woken for work.
//!
//! One word counts the workers that are *awake*, those of them that are *searching* (awake with
//! nothing to run), and those that are *asleep* and can be woken for work. A worker that sleeps in a
//! wait and cannot be woken for work is in none of the counts.
//!
//! A thread that queues work calls [`Sleep::notify`]. It wakes a sleeper only if no worker searches,
//! so a busy queue does not cause a storm of wake-ups. A searcher that finds work and was the last
//! searcher notifies again. So the pool still gets all its workers awake, one wake-up after another.
//!
//! No wake-up is lost. The notifier queues the work, passes a SeqCst fence and reads the word. A
//! worker that stops searching or falls asleep changes the word, passes a SeqCst fence and checks all
//! queues once more. One of the two fences comes first. Either the notifier sees the changed word;
//! then it wakes a sleeper, unless another searcher remains, for which the same holds. Or the worker
//! sees the work. A woken worker counts as searching from the moment it is chosen, so it too must
//! find the work or notify again.
//!
//! Nor do all workers wait while work is queued. If no worker is awake and none can be woken, the
//! call of [`Sleep::notify`] by the last worker to fall asleep, or by the thread that queues the next
//! task, returns [`Notified::NeedsSpare`], and the caller starts a spare worker.
//!
//! *Urgent* work has to start even while all workers are busy. Its notifier calls
//! [`Sleep::notify_urgent`], which wakes a sleeper if no worker searches, and requests a spare worker
//! if none sleeps either. Each worker that stops searching checks for urgent work afterwards, behind
//! the same fence, and notifies if there is some. So while urgent work is queued, a worker searches
//! or is about to. A waiting worker that may not run the urgent work queues it again and stops
//! searching.
//!
//! Workers and spare workers count as searching from their start.
//!
//! Knows nothing of the queues themselves.

use crate::{
    parker::Parker,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Relaxed, SeqCst, fence, lock},
};

/// How many workers a pool may have. The rest of what fits into a count is for spare workers.
pub(crate) const MAX_WORKERS: usize = 0x7fff;

const SEARCHING: u64 = 1;
const ASLEEP: u64 = 1 << 16;
const AWAKE: u64 = 1 << 32;
/// The bits of one count.
const FIELD: u64 = 0xffff;
/// The searching and the sleeping workers: those that would take work.
const WITHOUT_WORK: u64 = (SEARCHING * FIELD) | (ASLEEP * FIELD);

/// Why a worker sleeps. Idle workers are woken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SleepReason {
    /// It has nothing to do.
    Idle,
    /// It waits for a node, and can help meanwhile.
    Waiting,
}

/// What the caller of [`Sleep::notify`] has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Notified {
    /// Nothing: a worker will find the work.
    Handled,
    /// Start a spare worker, since no worker can run the work. The spare worker already counts as
    /// awake and searching.
    NeedsSpare,
}

/// Whether work has to start even if all workers are busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Urgency {
    None,
    Urgent,
}

struct Sleeper {
    parker: Arc<Parker>,
    reason: SleepReason,
}

/// The state of the sleep protocol of a pool.
pub(crate) struct Sleep {
    /// The three counts: see `SEARCHING`, `ASLEEP` and `AWAKE`.
    counts: AtomicU64,
    sleepers: Mutex<Vec<Sleeper>>,
    closed: AtomicBool,
}

impl Sleep {
    /// Creates the state for `workers` that are awake and searching.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = u64::try_from(workers).expect("a count of threads");
        Self {
            counts: AtomicU64::new(workers * (AWAKE + SEARCHING)),
            sleepers: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns whether a worker has nothing to run. A hint, for workers that could share a fork.
    #[inline]
    pub(crate) fn has_idle_worker(&self) -> bool {
        // Relaxed: a stale value only delays sharing.
        self.counts.load(Relaxed) & WITHOUT_WORK != 0
    }

    /// Returns whether a worker is awake and not searching.
    pub(crate) fn has_busy_worker(&self) -> bool {
        // Relaxed: a worker that stops searching after the caller fell asleep sees that it sleeps.
        let counts = self.counts.load(Relaxed);
        counts / AWAKE > counts & FIELD
    }

    /// Returns how many workers are awake.
    pub(crate) fn awake(&self) -> u64 {
        // Relaxed: a hint.
        self.counts.load(Relaxed) / AWAKE
    }

    /// Ensures that a worker finds the work that was queued before this call.
    #[inline]
    pub(crate) fn notify(&self) -> Notified {
        // SeqCst: pairs with the fences in `stop_search`, `fall_asleep` and `block`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        let counts = self.counts.load(Relaxed);
        let all_busy = counts & WITHOUT_WORK == 0 && counts >= AWAKE;
        if all_busy || counts & FIELD != 0 {
            return Notified::Handled;
        }
        self.wake_one(Urgency::None)
    }

    /// Ensures that the urgent work that was queued before this call starts, even if all workers are
    /// busy.
    pub(crate) fn notify_urgent(&self) -> Notified {
        // SeqCst: pairs with the fences in `stop_search`, `fall_asleep` and `block`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        let counts = self.counts.load(Relaxed);
        if counts & FIELD != 0 { Notified::Handled } else { self.wake_one(Urgency::Urgent) }
    }

    #[cold]
    fn wake_one(&self, urgency: Urgency) -> Notified {
        let mut sleepers = lock(&self.sleepers);
        let idle = sleepers.iter().rposition(|sleeper| sleeper.reason == SleepReason::Idle);
        if let Some(index) = idle.or(sleepers.len().checked_sub(1)) {
            let sleeper = sleepers.swap_remove(index);
            // Relaxed: the counts are read behind fences; the parker orders the reason.
            self.counts.fetch_add(AWAKE + SEARCHING - ASLEEP, Relaxed);
            drop(sleepers);
            sleeper.parker.unpark();
            return Notified::Handled;
        }
        drop(sleepers);
        self.request_spare(urgency)
    }

    fn request_spare(&self, urgency: Urgency) -> Notified {
        let is_due = |counts: u64| match urgency {
            Urgency::None => counts < AWAKE && counts & WITHOUT_WORK == 0,
            Urgency::Urgent => counts & WITHOUT_WORK == 0,
        };
        let with_spare = |counts| is_due(counts).then_some(counts + AWAKE + SEARCHING);
        // Relaxed: the counts are read behind fences. Only one of several callers gets from "no
        // worker searches" to one.
        match self.counts.fetch_update(Relaxed, Relaxed, with_spare) {
            Ok(_) => Notified::NeedsSpare,
            Err(_) => Notified::Handled,
        }
    }

    /// Counts an awake worker as searching.
    pub(crate) fn start_search(&self) {
        // Relaxed, here and below: the counts are read behind fences.
        self.counts.fetch_add(SEARCHING, Relaxed);
    }

    /// Counts a searching worker as busy, because it found work or need not search any more.
    ///
    /// Returns whether it was the last searcher. If so, the caller has to check all queues
    /// afterwards, and to call [`Sleep::notify`] if there is work.
    pub(crate) fn stop_search(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
        before & FIELD == 1
    }

    /// Counts a searching worker as asleep. The caller has to check all queues afterwards, and may
    /// then park. In either case it has to call [`Sleep::wake_up`] in the end.
    pub(crate) fn fall_asleep(&self, parker: &Arc<Parker>, reason: SleepReason) {
        let mut sleepers = lock(&self.sleepers);
        sleepers.push(Sleeper { parker: Arc::clone(parker), reason });
        self.counts.fetch_sub(AWAKE + SEARCHING - ASLEEP, Relaxed);
        drop(sleepers);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// Counts the worker of `parker` as awake and searching, whether another thread woke it or not.
    pub(crate) fn wake_up(&self, parker: &Arc<Parker>) {
        let mut sleepers = lock(&self.sleepers);
        let own = sleepers.iter().position(|sleeper| Arc::ptr_eq(&sleeper.parker, parker));
        // If it is not in the list, a notifier has removed it and counted it as awake.
        if let Some(index) = own {
            sleepers.swap_remove(index);
            self.counts.fetch_add(AWAKE + SEARCHING - ASLEEP, Relaxed);
        }
    }

    /// Stops counting a busy worker, which is about to wait and cannot be woken for work. The caller
    /// has to check all queues afterwards, and to call [`Sleep::notify`] if there is work.
    pub(crate) fn block(&self) {
        self.counts.fetch_sub(AWAKE, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// Counts a blocked worker as awake.
    pub(crate) fn unblock(&self) {
        self.counts.fetch_add(AWAKE, Relaxed);
    }

    /// Stops counting a searching spare worker, which is about to end. The caller has to check all
    /// queues afterwards, and to call [`Sleep::notify`] if there is work.
    pub(crate) fn leave_spare(&self) {
        self.counts.fetch_sub(AWAKE + SEARCHING, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// Closes the pool, and wakes all workers.
    pub(crate) fn close(&self) {
        // SeqCst: pairs with the fence in `fall_asleep`. A worker that falls asleep is in the list
        // below, or sees this store.
        self.closed.store(true, SeqCst);
        fence(SeqCst);
        let mut sleepers = lock(&self.sleepers);
        for sleeper in sleepers.drain(..) {
            self.counts.fetch_add(AWAKE + SEARCHING - ASLEEP, Relaxed);
            sleeper.parker.unpark();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // SeqCst: pairs with the store in `close`.
        self.closed.load(SeqCst)
    }
}
