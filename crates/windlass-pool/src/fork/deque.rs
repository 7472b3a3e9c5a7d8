//! The right sides of the joins that a worker is in the middle of, outermost first.
//!
//! The owner pushes and pops at the inner end, at every join. Thieves, and the owner when it shares
//! a side, take from the outer end, one at a time under a lock. This is the THE protocol of Cilk,
//! with an asymmetric fence, so that a pop costs a few plain instructions.
//!
//! `tail` counts the sides on the stack, and only the owner writes to it. `head` counts those that
//! were taken, from the outermost on, and only the holder of the lock writes to it. To pop side `i`
//! the owner lowers `tail` to `i`, passes the light fence, and reads `head`. To take side `i` a
//! thief raises `head` to `i + 1`, passes the heavy fence, and reads `tail`.
//!
//! No side goes to both. Of the two fences one comes first. If the owner's does, the thief reads
//! the lowered `tail`, lowers `head` again and leaves. If the thief's does, the owner reads the
//! raised `head` and asks for the lock; then the thief has decided, and `head` tells how. Reading
//! no more than `i` in `head`, the owner has the side for itself: every thief that raises it later
//! reads the lowered `tail`, or a side that was pushed there since.
//!
//! No side stays out of reach: from its push to its pop, `head <= i < tail` unless it was taken, and
//! a thief takes the outermost of those. The owner does not have to do anything for that.

use std::{array, ptr::NonNull};

use crate::{
    asymmetric,
    sync::{Acquire, AtomicPtr, AtomicUsize, Mutex, Relaxed, Release, lock},
};

/// How many joins may be nested before the inner ones share their right side at once.
const CAPACITY: usize = if cfg!(windlass_loom) { 2 } else { 1024 };

/// What became of a side that its owner popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Popped {
    /// It is the owner's to run.
    Untouched,
    /// A thief, or the owner itself, took it before.
    Taken,
}

/// A stack of pointers, of which one thread, the owner, calls [`ForkDeque::push`], [`ForkDeque::pop`] and
/// [`ForkDeque::share`].
pub(crate) struct ForkDeque<T> {
    tail: AtomicUsize,
    head: AtomicUsize,
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

    /// Puts a side on top. Returns false if there is no room.
    #[inline]
    pub(crate) fn push(&self, side: NonNull<T>) -> bool {
        // Relaxed, here and in `pop`: only the owner writes to it.
        let tail = self.tail.load(Relaxed);
        let Some(slot) = self.slots.get(tail) else { return false };
        // Relaxed: published by the next store.
        slot.store(side.as_ptr(), Relaxed);
        // Release: pairs with the Acquire in `steal`.
        self.tail.store(tail + 1, Release);
        true
    }

    /// Takes the side on top off.
    #[inline]
    pub(crate) fn pop(&self) -> Popped {
        let tail = self.tail.load(Relaxed) - 1;
        // Release: a thief that reads this value sees the sides below, as after `push`.
        self.tail.store(tail, Release);
        // Pairs with the heavy fence in `steal`.
        asymmetric::light();
        // Relaxed: ordered by the fence.
        if self.head.load(Relaxed) <= tail { Popped::Untouched } else { self.pop_contended(tail) }
    }

    #[cold]
    fn pop_contended(&self, tail: usize) -> Popped {
        let _taking = lock(&self.take_lock);
        // Relaxed, here and in `share` and `steal`: written under the lock only.
        if self.head.load(Relaxed) <= tail {
            return Popped::Untouched;
        }
        self.head.store(tail, Relaxed);
        Popped::Taken
    }

    /// Takes the outermost side, on the owner's thread.
    pub(crate) fn share(&self) -> Option<NonNull<T>> {
        let _taking = lock(&self.take_lock);
        let head = self.head.load(Relaxed);
        // No fence: the owner is not popping.
        if head >= self.tail.load(Relaxed) {
            return None;
        }
        self.head.store(head + 1, Relaxed);
        self.at(head)
    }

    /// Takes the outermost side, on any other thread.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        if !self.has_some() {
            return None;
        }
        let _taking = lock(&self.take_lock);
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

    /// Whether there seems to be a side to take.
    pub(crate) fn has_some(&self) -> bool {
        // Relaxed: a hint.
        self.head.load(Relaxed) < self.tail.load(Relaxed)
    }

    fn at(&self, slot: usize) -> Option<NonNull<T>> {
        // Relaxed: the owner stored it itself, or a load of `tail` has published it.
        NonNull::new(self.slots[slot].load(Relaxed))
    }
}
