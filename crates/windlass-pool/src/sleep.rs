//! Who is awake, who looks for work, and who is woken when there is some.
//!
//! One word counts the workers that are *awake*, those of them that are *searching* (awake with
//! nothing to run) and those that are *asleep* but want to be woken for work. A worker that sleeps
//! in a wait and cannot run anything else is in none of the counts.
//!
//! Whoever queues work calls [`Sleep::notify`]. It wakes a sleeper only if nobody searches, so a
//! busy queue does not cause a storm of wake-ups; a searcher that finds something and was the last
//! one notifies again, so the pool still comes up to full strength, one wake-up leading to the
//! next.
//!
//! No wake-up is lost. The notifier puts the work in its queue, then a SeqCst fence, then reads the
//! word. A worker that stops searching or falls asleep changes the word, then a SeqCst fence, then
//! looks at all queues once more. Of two fences one comes first: either the notifier sees the
//! changed word, and then it wakes a sleeper unless another searcher remains, for whom the same
//! holds; or the worker sees the work. A woken worker counts as searching from the moment it is
//! chosen, so it too must find the work or notify again.
//!
//! Nor can all workers wait while work is queued: when none is awake and none can be woken, the last
//! to fall asleep, or the thread that queues the next task, is told to start a [`Notified::NeedsSpare`]
//! worker.
//!
//! *Urgent* work has to begin even while all workers are busy. Its notifier calls
//! [`Sleep::notify_urgent`], which wakes a sleeper if no worker searches, and asks for a spare
//! worker if none sleeps either. Each worker that stops searching looks for urgent work afterwards,
//! behind the same fence, and if there is some does what a notifier does. So while urgent work is
//! queued, some worker searches, or is on its way. A worker that waits and may not run it puts it
//! back and stops searching.
//!
//! Workers and spare workers count as searching from their start on.
//!
//! Knows nothing of the queues themselves.

use crate::{
    parker::Parker,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Relaxed, SeqCst, fence, lock},
};

const SEARCHING: u64 = 1;
const ASLEEP: u64 = 1 << 16;
const AWAKE: u64 = 1 << 32;
const FIELD: u64 = 0xffff;
/// Somebody would take work if there were some.
const WITHOUT_WORK: u64 = (SEARCHING * FIELD) | (ASLEEP * FIELD);

/// Why a worker sleeps; idle ones are woken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SleepReason {
    /// It has nothing to do.
    Idle,
    /// It waits for a node, and would help meanwhile.
    Waiting,
}

/// What the caller of [`Sleep::notify`] has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Notified {
    /// Nothing: somebody sees to the work.
    Handled,
    /// No worker can run the work: start one more. It already counts as awake and searching.
    NeedsSpare,
}

/// Whether work has to begin even if all workers are busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Urgency {
    None,
    Urgent,
}

struct Sleeper {
    parker: Arc<Parker>,
    reason: SleepReason,
}

/// The workers' sleep.
pub(crate) struct Sleep {
    counts: AtomicU64,
    sleepers: Mutex<Vec<Sleeper>>,
    closed: AtomicBool,
}

impl Sleep {
    /// All `workers` are awake, and about to search.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = u64::try_from(workers).expect("a count of threads");
        Self {
            counts: AtomicU64::new(workers * (AWAKE + SEARCHING)),
            sleepers: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether a worker has nothing to run; a hint, for those who could share some of theirs.
    #[inline]
    pub(crate) fn has_idle_worker(&self) -> bool {
        // Relaxed: a stale answer delays sharing, nothing else.
        self.counts.load(Relaxed) & WITHOUT_WORK != 0
    }

    /// Whether a worker is awake and not searching.
    pub(crate) fn has_busy_worker(&self) -> bool {
        // Relaxed: a worker that stops searching after the caller has fallen asleep sees it asleep.
        let counts = self.counts.load(Relaxed);
        counts / AWAKE > counts & FIELD
    }

    /// How many workers are awake.
    pub(crate) fn awake(&self) -> u64 {
        // Relaxed: a hint.
        self.counts.load(Relaxed) / AWAKE
    }

    /// Sees to it that work queued before this call will be found.
    #[inline]
    pub(crate) fn notify(&self) -> Notified {
        // SeqCst: pairs with the fences in `stop_search`, `fall_asleep` and `block`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        let counts = self.counts.load(Relaxed);
        let everyone_busy = counts & WITHOUT_WORK == 0 && counts >= AWAKE;
        if everyone_busy || counts & FIELD != 0 {
            return Notified::Handled;
        }
        self.wake_one(Urgency::None)
    }

    /// Sees to it that urgent work queued before this call begins, also if all workers are busy.
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

    /// An awake worker begins to search.
    pub(crate) fn start_search(&self) {
        self.counts.fetch_add(SEARCHING, Relaxed);
    }

    /// A searching worker stops, because it found work or need not search any more. The caller
    /// looks at all queues afterwards, and notifies if this says so and it sees work.
    pub(crate) fn stop_search(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
        before & FIELD == 1
    }

    /// A searching worker falls asleep. The caller looks at all queues afterwards, and only then
    /// parks; either way it calls [`Sleep::wake_up`] in the end.
    pub(crate) fn fall_asleep(&self, parker: &Arc<Parker>, reason: SleepReason) {
        let mut sleepers = lock(&self.sleepers);
        sleepers.push(Sleeper { parker: Arc::clone(parker), reason });
        self.counts.fetch_sub(AWAKE + SEARCHING - ASLEEP, Relaxed);
        drop(sleepers);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// The worker of `parker` is awake again, and searching, whether it was woken or not.
    pub(crate) fn wake_up(&self, parker: &Arc<Parker>) {
        let mut sleepers = lock(&self.sleepers);
        let own = sleepers.iter().position(|sleeper| Arc::ptr_eq(&sleeper.parker, parker));
        // Not in the list: a notifier took it out and counted it as awake.
        if let Some(index) = own {
            sleepers.swap_remove(index);
            self.counts.fetch_add(AWAKE + SEARCHING - ASLEEP, Relaxed);
        }
    }

    /// An awake worker that is not searching goes to wait and cannot be woken for work. The caller
    /// looks at all queues afterwards, and calls [`Sleep::notify`] if it sees work.
    pub(crate) fn block(&self) {
        self.counts.fetch_sub(AWAKE, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// A blocked worker is awake again.
    pub(crate) fn unblock(&self) {
        self.counts.fetch_add(AWAKE, Relaxed);
    }

    /// A searching spare worker ends. The caller looks at all queues afterwards, and calls
    /// [`Sleep::notify`] if it sees work.
    pub(crate) fn leave_spare(&self) {
        self.counts.fetch_sub(AWAKE + SEARCHING, Relaxed);
        // SeqCst: pairs with the fence in `notify`.
        fence(SeqCst);
    }

    /// Ends the pool: everybody is woken and told so.
    pub(crate) fn close(&self) {
        // SeqCst, and the fence in `fall_asleep`: a worker is either in the list below, or sees this.
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
