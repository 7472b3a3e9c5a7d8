//! The forks of the joins that a worker is running, outermost first.
//!
//! The owner pushes and pops at the tail, at every join. Thieves, and the owner when it shares a
//! fork, take from the head, one at a time under a lock. This is the THE protocol of Cilk with an
//! asymmetric fence, so that a pop takes a few plain instructions.
//!
//! `tail` counts the forks in the deque; only the owner writes it. `head` counts those that were
//! taken; only the holder of the lock writes it. To pop fork `i`, the owner lowers `tail` to `i`,
//! passes the light fence and reads `head`. To take fork `i`, a thief raises `head` to `i + 1`,
//! passes the heavy fence and reads `tail`.
//!
//! No fork goes to both. One of the two fences comes first. If it is the owner's, the thief reads
//! the lowered `tail`, lowers `head` again and leaves. If it is the thief's, the owner reads the
//! raised `head` and acquires the lock; by then the thief has decided, and `head` shows how. If the
//! owner reads at most `i` in `head`, the fork is its own: a thief that raises `head` later reads the
//! lowered `tail`, or takes a fork that was pushed to the same slot since.
//!
//! No fork stays out of reach: from its push to its pop, `head <= i < tail` unless it was taken, and
//! a thief takes the outermost such fork. The owner need not do anything for that. Knows nothing of
//! what a fork is.

use std::{array, ptr::NonNull};

use crate::{
    asymmetric,
    sync::{Acquire, AtomicPtr, AtomicUsize, Mutex, Relaxed, Release, lock},
};

/// How many joins may be nested before the forks of the inner ones become tasks at once.
const CAPACITY: usize = if cfg!(windlass_loom) { 2 } else { 1024 };

/// Whether a popped fork had been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Popped {
    /// It had not been taken; the owner runs it.
    Untouched,
    /// A thief, or the owner itself, had taken it.
    Taken,
}

/// A deque of pointers to forks. Only its owner's thread may call [`ForkDeque::push`],
/// [`ForkDeque::pop`] and [`ForkDeque::share`].
pub(crate) struct ForkDeque<T> {
    tail: AtomicUsize,
    head: AtomicUsize,
    /// Held by the thread that takes a fork.
    take_lock: Mutex<()>,
    slots: [AtomicPtr<T>; CAPACITY],
}

impl<T> ForkDeque<T> {
    pub(crate) fn new() -> Self {
        Self {
            tail: AtomicUsize::new(0),
            head: AtomicUsize::new(0),
            take_lock: Mutex::new(()),
            slots: array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// Pushes a fork. Returns false if the deque is full.
    #[inline]
    pub(crate) fn push(&self, fork: NonNull<T>) -> bool {
        // Relaxed, here and in `pop`: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        let Some(slot) = self.slots.get(tail) else { return false };
        // Relaxed: the next store publishes it.
        slot.store(fork.as_ptr(), Relaxed);
        // Release: pairs with the Acquire in `steal`.
        self.tail.store(tail + 1, Release);
        true
    }

    /// Pops the innermost fork.
    #[inline]
    pub(crate) fn pop(&self) -> Popped {
        let tail = self.tail.load(Relaxed) - 1;
        // Release: a thief that reads this value sees the outer forks, as after `push`.
        self.tail.store(tail, Release);
        // Pairs with the heavy fence in `steal`.
        asymmetric::light();
        // Relaxed: ordered by the fence.
        if self.head.load(Relaxed) <= tail { Popped::Untouched } else { self.pop_contended(tail) }
    }

    #[cold]
    fn pop_contended(&self, tail: usize) -> Popped {
        let _guard = lock(&self.take_lock);
        // Relaxed, here and in `share` and `steal`: written only under the lock.
        if self.head.load(Relaxed) <= tail {
            return Popped::Untouched;
        }
        self.head.store(tail, Relaxed);
        Popped::Taken
    }

    /// Takes the outermost fork, on the owner's thread.
    pub(crate) fn share(&self) -> Option<NonNull<T>> {
        let _guard = lock(&self.take_lock);
        let head = self.head.load(Relaxed);
        // Relaxed, and no fence: the owner is not popping.
        if head >= self.tail.load(Relaxed) {
            return None;
        }
        self.head.store(head + 1, Relaxed);
        self.at(head)
    }

    /// Takes the outermost fork, on any other thread.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        if !self.has_some() {
            return None;
        }
        let _guard = lock(&self.take_lock);
        let head = self.head.load(Relaxed);
        self.head.store(head + 1, Relaxed);
        // Pairs with the light fence in `pop`.
        let fenced = asymmetric::heavy();
        // Acquire: pairs with the Release in `push` and `pop`.
        if fenced && head < self.tail.load(Acquire) {
            return self.at(head);
        }
        self.head.store(head, Relaxed);
        None
    }

    /// Returns whether there is a fork to take. A hint.
    pub(crate) fn has_some(&self) -> bool {
        // Relaxed: a hint.
        self.head.load(Relaxed) < self.tail.load(Relaxed)
    }

    /// Returns the fork in a slot.
    fn at(&self, slot: usize) -> Option<NonNull<T>> {
        // Relaxed: the calling thread is the owner, or has synchronised with the owner's store of
        // `tail`.
        NonNull::new(self.slots[slot].load(Relaxed))
    }
}
