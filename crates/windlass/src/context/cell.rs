//! What the driver and an attempt have in common: whether it may go on, and who waits inside it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures::task::AtomicWaker;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::{Timestamp, WorkId};

use crate::computing::OnPool;
use crate::shared::Shared;

/// What the driver and an attempt have in common.
pub(crate) struct AttemptCell {
    /// The scheduler.
    pub(super) shared: Arc<Shared>,
    /// When it began, on the scheduler's clock.
    began_at_ns: AtomicU64,
    /// Whether it was asked to stop.
    stopped: AtomicBool,
    /// The same for those who wait for it; most attempts never do.
    token: OnceLock<CancellationToken>,
    /// Whether it has its slot and resources: not while it waits.
    holds: AtomicBool,
    /// How many waits it is in.
    pub(super) waits: AtomicUsize,
    /// How many waits are over and in line to go on.
    pub(super) in_line: AtomicUsize,
    /// Whether it ever had a child.
    pub(crate) has_children: AtomicBool,
    /// Of the task that runs the body; rung when it may go on.
    pub(crate) runner: AtomicWaker,
    /// What few attempts ever need.
    rare: OnceLock<Box<Rare>>,
}

#[derive(Default)]
pub(super) struct Rare {
    /// The token that bodies are given: if they trigger it themselves, nobody else is misled.
    token: OnceLock<CancellationToken>,
    /// Rung for everybody inside the body when it may go on, or one of its children has ended.
    bell: Notify,
    /// Rung from outside, for [`WorkContext::woken`](super::WorkContext::woken).
    pub(super) alarm: Notify,
    /// Children that have ended, for those who let go of them one by one.
    ended_children: Mutex<Vec<WorkId>>,
    /// Why it asks to be tried again.
    pub(super) reason: Mutex<Option<String>>,
    /// Whether it computes on the CPU pool.
    on_pool: OnPool,
}

impl AttemptCell {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            began_at_ns: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            token: OnceLock::new(),
            holds: AtomicBool::new(true),
            waits: AtomicUsize::new(0),
            in_line: AtomicUsize::new(0),
            has_children: AtomicBool::new(false),
            runner: AtomicWaker::new(),
            rare: OnceLock::new(),
        }
    }

    /// Whether it can be used for another attempt as it is: its runner has it and the state, or what
    /// the state had, and nobody else; and nothing has happened to it. To be asked under whatever
    /// keeps others from the state.
    pub(crate) fn is_quiet(self: &Arc<Self>) -> bool {
        if Arc::strong_count(self) != 2 {
            return false;
        }
        // With the release of whoever had it last.
        fence(Ordering::Acquire);
        let moved = self.waits.load(Ordering::Relaxed) + self.in_line.load(Ordering::Relaxed) > 0;
        let marked = self.stopped.load(Ordering::Relaxed)
            || self.has_children.load(Ordering::Relaxed)
            || !self.holds.load(Ordering::Relaxed);
        !moved && !marked && self.token.get().is_none() && self.rare.get().is_none()
    }

    /// Relaxed, here and in `began_at`: both are called under the scheduler's lock.
    pub(crate) fn begin(&self, now: Timestamp) {
        self.began_at_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn began_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.began_at_ns.load(Ordering::Relaxed))
    }

    pub(super) fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// The attempt is over, and nobody has to wait for its slot any more; whether somebody may.
    pub(crate) fn release(&self) -> bool {
        self.set_holds(true);
        // With the fence in `until`, as in `ring`.
        fence(Ordering::SeqCst);
        self.rare.get().is_some()
    }

    /// Rings for the runner, and for everybody inside the body who listens.
    pub(crate) fn ring(&self) {
        // With the fence in `until`: either we see who listens, or they see what has happened.
        fence(Ordering::SeqCst);
        if let Some(rare) = self.rare.get() {
            rare.bell.notify_waiters();
        }
        self.runner.wake();
    }

    /// Ends the wait of whoever waits to be woken from outside, now or next.
    pub(crate) fn wake(&self) {
        self.rare().alarm.notify_one();
    }

    pub(crate) fn note_end_of(&self, child: WorkId) {
        self.ended_children().push(child);
    }

    pub(super) fn ended_children(&self) -> MutexGuard<'_, Vec<WorkId>> {
        self.rare().ended_children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the body may be polled: it has what it needs, waits, or has been asked to stop.
    pub(crate) fn may_go_on(&self) -> bool {
        // Acquire, with the release in `set_holds`.
        self.holds.load(Ordering::Acquire)
            || self.waits.load(Ordering::Acquire) > 0
            || self.is_stopped()
    }

    /// Whether it is in a wait, and none that is over has yet to go on. To be relied on under the
    /// scheduler's lock: a wait that ends after it wants to go on.
    pub(crate) fn only_waits(&self) -> bool {
        // Acquire, with the release of one that has gone on: it is in neither.
        self.in_line.load(Ordering::Acquire) == 0 && self.waits.load(Ordering::Acquire) > 0
    }

    pub(crate) fn has_resumed(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// Asks the attempt to stop.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // With the fence in `token`: either we see the token, or whoever makes it sees the flag.
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    /// Acquire, with the release in `stop`.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        self.token.get().unwrap_or_else(|| {
            let token = self.token.get_or_init(CancellationToken::new);
            // With the fence in `stop`.
            fence(Ordering::SeqCst);
            if self.is_stopped() {
                token.cancel();
            }
            token
        })
    }

    pub(crate) fn on_pool(&self) -> &OnPool {
        &self.rare().on_pool
    }

    /// Whether it computes on the CPU pool, and so cannot be dropped.
    pub(crate) fn is_on_pool(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.on_pool.is_busy())
    }

    /// Leaves its end to what it computes on the CPU pool; false if it does not.
    pub(crate) fn leave_to_pool(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.on_pool.leave())
    }

    pub(super) fn bodys_token(&self) -> &CancellationToken {
        self.rare().token.get_or_init(|| self.token().child_token())
    }

    /// Release, for whoever sees it in `may_go_on`.
    pub(crate) fn set_holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Release);
    }

    pub(crate) fn take_reason(&self) -> Option<String> {
        self.rare.get()?.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until `is_so` says so; it is asked whenever the bell rings.
    pub(super) async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let rung = self.rare().bell.notified();
            tokio::pin!(rung);
            // Listening before asking: what happens in between rings.
            rung.as_mut().enable();
            fence(Ordering::SeqCst);
            if is_so() {
                return;
            }
            rung.await;
        }
    }
}
