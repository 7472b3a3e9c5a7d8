//! What an attempt shares with its driver: whether it may go on, and the tasks that wait inside it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use futures::task::AtomicWaker;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::{Timestamp, WorkId};

use crate::computing::OnPool;
use crate::entry::Origin;
use crate::error::{KeptError, SharedError};
use crate::shared::Shared;

pub(crate) struct AttemptShared {
    /// The scheduler.
    pub(super) scheduler: Arc<Shared>,
    pub(crate) began_at: Timestamp,
    /// Whether it was asked to stop.
    stopped: AtomicBool,
    /// Whether it has exceeded its timeout or its work's deadline, also if it was cancelled since.
    out_of_time: AtomicBool,
    /// Whether it has its slot and resources: not while it waits.
    holds: AtomicBool,
    /// Whether it ever had a child.
    has_children: AtomicBool,
    /// Of the task that runs it, once its body has waited.
    runner: AtomicWaker,
    /// What few attempts need.
    extras: OnceLock<Box<Extras>>,
}

const _: () = assert!(size_of::<AttemptShared>() <= 64);

#[derive(Default)]
pub(super) struct Extras {
    /// How many waits it is in.
    pub(super) waits: AtomicU32,
    /// How many waits are over and queued to go on.
    pub(super) resuming: AtomicU32,
    /// Cancelled when the attempt is asked to stop.
    token: OnceLock<CancellationToken>,
    /// The token that bodies are given: a body that cancels it misleads nothing else.
    body_token: OnceLock<CancellationToken>,
    /// Notified for the tasks inside the body when it may go on, or one of its children has ended.
    news: Notify,
    /// Notified from outside, for [`WorkContext::woken`](super::WorkContext::woken).
    pub(super) alarm: Notify,
    /// Children that have ended and were not let go of yet.
    ended_children: Mutex<Vec<WorkId>>,
    /// Why it asks to be tried again.
    pub(super) retry_reason: Mutex<Option<String>>,
    /// The latest error that a closure returned.
    error: Mutex<Option<KeptError>>,
    on_pool: OnPool,
}

impl AttemptShared {
    pub(crate) fn new(scheduler: Arc<Shared>, began_at: Timestamp) -> Self {
        Self {
            scheduler,
            began_at,
            stopped: AtomicBool::new(false),
            out_of_time: AtomicBool::new(false),
            holds: AtomicBool::new(true),
            has_children: AtomicBool::new(false),
            runner: AtomicWaker::new(),
            extras: OnceLock::new(),
        }
    }

    /// Replaces this by what the next attempt of the same runner shares. The memory is used again unless a
    /// clone of the context has outlived its attempt.
    pub(crate) fn renew(this: &mut Arc<Self>, began_at: Timestamp) {
        let Some(own) = Arc::get_mut(this) else {
            *this = Arc::new(Self::new(Arc::clone(&this.scheduler), began_at));
            return;
        };
        own.began_at = began_at;
        *own.stopped.get_mut() = false;
        *own.out_of_time.get_mut() = false;
        *own.holds.get_mut() = true;
        *own.has_children.get_mut() = false;
        // The waker stays: it is that of the same task.
        own.extras.take();
    }

    pub(super) fn extras(&self) -> &Extras {
        self.extras.get_or_init(Box::default)
    }

    /// Has the task that runs the attempt woken from now on, until it is once. What was changed before is to
    /// be looked at after this.
    pub(crate) fn register(&self, runner: &Waker) {
        self.runner.register(runner);
    }

    /// Wakes the task that runs the attempt.
    pub(crate) fn wake_runner(&self) {
        self.runner.wake();
    }

    /// Wakes the task that runs the attempt, and the tasks inside the body that wait for news.
    pub(crate) fn wake_all(&self) {
        // With the fence in `until`: either this thread sees the extras, or the waiter sees the news.
        fence(Ordering::SeqCst);
        if let Some(extras) = self.extras.get() {
            extras.news.notify_waiters();
        }
        self.runner.wake();
    }

    /// Ends the wait of a body that waits to be woken from outside, now or next.
    pub(crate) fn notify_woken(&self) {
        self.extras().alarm.notify_one();
    }

    /// The attempt is over, so nothing in it waits for its slot any more. Returns whether something may have
    /// waited.
    pub(crate) fn release(&self) -> bool {
        self.set_holds(true);
        // With the fence in `until`, as in `wake_all`.
        fence(Ordering::SeqCst);
        self.extras.get().is_some()
    }

    pub(crate) fn note_end_of(&self, child: WorkId) {
        self.ended_children().push(child);
    }

    pub(super) fn ended_children(&self) -> MutexGuard<'_, Vec<WorkId>> {
        self.extras().ended_children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempt is about to have a child. Release, with the acquire in `has_children`.
    pub(super) fn become_parent(&self) {
        self.has_children.store(true, Ordering::Release);
    }

    pub(crate) fn has_children(&self) -> bool {
        self.has_children.load(Ordering::Acquire)
    }

    /// Returns whether the body may be polled: it has what it needs, waits, or was asked to stop.
    pub(crate) fn may_go_on(&self) -> bool {
        // Acquire, with the release in `set_holds`.
        self.has_resumed() || self.waits() || self.is_stopped()
    }

    /// Returns whether it is in a wait.
    fn waits(&self) -> bool {
        self.extras.get().is_some_and(|extras| extras.waits.load(Ordering::Acquire) > 0)
    }

    /// Returns whether it is in a wait, and no wait that is over has yet to go on. Reliable under the
    /// scheduler's lock only: a wait that ends after this queues to go on.
    pub(crate) fn only_waits(&self) -> bool {
        let Some(extras) = self.extras.get() else { return false };
        // Acquire, with the release of a wait that has gone on: it is in neither.
        extras.resuming.load(Ordering::Acquire) == 0 && extras.waits.load(Ordering::Acquire) > 0
    }

    pub(crate) fn has_resumed(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// Release, with the acquire in `may_go_on`.
    pub(crate) fn set_holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Release);
    }

    /// Asks the attempt to stop.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // With the fence in `token`: either this thread sees the token, or its maker sees the flag.
        fence(Ordering::SeqCst);
        if let Some(token) = self.extras.get().and_then(|extras| extras.token.get()) {
            token.cancel();
        }
        self.runner.wake();
    }

    /// To be called under the scheduler's lock, as [`is_out_of_time`](Self::is_out_of_time).
    pub(crate) fn note_out_of_time(&self) {
        self.out_of_time.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    /// Acquire, with the release in `stop`.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        let token = &self.extras().token;
        token.get().unwrap_or_else(|| {
            let token = token.get_or_init(CancellationToken::new);
            // With the fence in `stop`.
            fence(Ordering::SeqCst);
            if self.is_stopped() {
                token.cancel();
            }
            token
        })
    }

    pub(super) fn body_token(&self) -> &CancellationToken {
        self.extras().body_token.get_or_init(|| self.token().child_token())
    }

    pub(crate) fn on_pool(&self) -> &OnPool {
        &self.extras().on_pool
    }

    /// Returns whether it computes on the CPU pool, and so cannot be dropped.
    pub(crate) fn is_on_pool(&self) -> bool {
        self.extras.get().is_some_and(|extras| extras.on_pool.is_busy())
    }

    /// Leaves its end to what it computes on the CPU pool. Returns false if it does not compute.
    pub(crate) fn leave_to_pool(&self) -> bool {
        self.extras.get().is_some_and(|extras| extras.on_pool.leave())
    }

    pub(crate) fn take_retry_reason(&self) -> Option<String> {
        let reason = &self.extras.get()?.retry_reason;
        reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps an error that a closure has returned. The caller holds no lock.
    pub(crate) fn keep_error(&self, error: KeptError) {
        let before = Self::error_of(self.extras()).replace(error);
        drop(before);
    }

    /// Returns the error with this text that a closure has returned, and the failure of another work that has
    /// caused it.
    pub(crate) fn error(&self, text: &str) -> (Option<SharedError>, Option<Arc<Origin>>) {
        let Some(extras) = self.extras.get() else { return (None, None) };
        let kept = Self::error_of(extras);
        let kept = kept.as_ref().filter(|kept| kept.text == text);
        kept.map_or((None, None), |kept| (kept.source.clone(), kept.origin.clone()))
    }

    /// Returns the error that was kept, so that it can be dropped without a lock.
    pub(crate) fn take_error(&self) -> Option<KeptError> {
        Self::error_of(self.extras.get()?).take()
    }

    fn error_of(extras: &Extras) -> MutexGuard<'_, Option<KeptError>> {
        extras.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `condition` holds. It is checked whenever there is news.
    pub(super) async fn until(&self, condition: impl Fn() -> bool) {
        loop {
            let news = self.extras().news.notified();
            tokio::pin!(news);
            // Registered before looking, so that nothing in between is missed.
            news.as_mut().enable();
            fence(Ordering::SeqCst);
            if condition() {
                return;
            }
            news.await;
        }
    }
}
