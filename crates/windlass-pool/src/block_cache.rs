//! Recycles the memory of tasks.
//!
//! Blocks have one of two sizes. Each thread has a *magazine* of free blocks per size, and exchanges
//! whole batches with a shared *depot*, so that a thread that only spawns gets the blocks that other
//! threads have freed. What exceeds the depot's limit goes back to the allocator. Knows nothing of
//! what a block holds.

use std::{
    alloc::Layout,
    array,
    cell::Cell,
    mem::{self, MaybeUninit},
    sync::{Mutex, PoisonError},
};

/// How many blocks move between a thread and the depot at a time.
const BATCH: usize = 64;
/// How many bytes the depot keeps per size.
const DEPOT_BYTES: usize = 8 << 20;

/// Memory for one small task.
#[repr(C, align(16))]
pub(crate) struct Small(MaybeUninit<[u8; 64]>);

/// Memory for one task of medium size.
#[repr(C, align(16))]
pub(crate) struct Medium(MaybeUninit<[u8; 128]>);

/// A size of block.
pub(crate) trait Block: Sized + 'static {
    /// Allocates an uninitialised block.
    fn new_uninit() -> Box<Self>;
    /// Writes to an unused block, so that its cache lines are fetched.
    fn prefault(&mut self);
    /// Calls `f` with this thread's magazine, unless its thread-locals have been destroyed.
    fn with_magazine<R>(f: impl FnOnce(&Magazine<Self>) -> R) -> Option<R>;
    /// Returns the shared depot of this size.
    fn depot() -> &'static Mutex<Vec<Batch<Self>>>;

    /// Returns whether a value of this layout fits.
    fn fits(layout: Layout) -> bool {
        let own = Layout::new::<Self>();
        layout.size() <= own.size() && layout.align() <= own.align()
    }

    /// Returns a recycled block, or a new one.
    #[inline]
    fn allocate() -> Box<Self> {
        Self::with_magazine(Magazine::take).flatten().unwrap_or_else(Self::new_uninit)
    }

    /// Makes an unused block available again.
    #[inline]
    fn recycle(block: Box<Self>) {
        Self::with_magazine(|magazine| magazine.put(block));
    }
}

/// A thread's free blocks of one size.
pub(crate) struct Magazine<B> {
    /// The first `len` are filled.
    slots: [Cell<Option<Box<B>>>; 2 * BATCH],
    len: Cell<usize>,
}

impl<B: Block> Magazine<B> {
    const fn new() -> Self {
        Self { slots: [const { Cell::new(None) }; 2 * BATCH], len: Cell::new(0) }
    }

    #[inline]
    fn take(&self) -> Option<Box<B>> {
        match self.len.get().checked_sub(1) {
            Some(last) => self.take_last(last),
            None => self.refill(),
        }
    }

    #[inline]
    fn take_last(&self, last: usize) -> Option<Box<B>> {
        self.len.set(last);
        self.slots[last].take()
    }

    #[inline]
    fn put(&self, block: Box<B>) {
        if self.len.get() == self.slots.len() {
            self.flush_batch();
        }
        let len = self.len.get();
        // The slot is empty; without the `forget`, the compiler would emit a drop.
        mem::forget(self.slots[len].replace(Some(block)));
        self.len.set(len + 1);
    }

    /// Takes a batch from the depot.
    ///
    /// Another core was the last to write to these blocks. Writing to all of them now fetches their
    /// cache lines in parallel, instead of one by one when they are needed.
    #[cold]
    fn refill(&self) -> Option<Box<B>> {
        let batch = B::depot().lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        for (slot, mut block) in self.slots.iter().zip(*batch) {
            block.iter_mut().for_each(|block| block.prefault());
            slot.set(block);
        }
        self.take_last(BATCH - 1)
    }

    /// Moves a batch to the depot, or frees it if the depot is full.
    #[cold]
    fn flush_batch(&self) {
        let rest = self.len.get() - BATCH;
        let batch = Box::new(array::from_fn(|index| self.slots[rest + index].take()));
        self.len.set(rest);
        let mut depot = B::depot().lock().unwrap_or_else(PoisonError::into_inner);
        if depot.len() * BATCH * size_of::<B>() < DEPOT_BYTES {
            depot.push(batch);
        }
    }
}

/// The blocks that move between a magazine and the depot at a time.
type Batch<B> = Box<[Option<Box<B>>; BATCH]>;

macro_rules! block {
    ($block:ident) => {
        impl Block for $block {
            fn new_uninit() -> Box<Self> {
                Box::new(Self(MaybeUninit::uninit()))
            }

            fn prefault(&mut self) {
                self.0 = MaybeUninit::zeroed();
            }

            #[inline]
            fn with_magazine<R>(f: impl FnOnce(&Magazine<Self>) -> R) -> Option<R> {
                thread_local! {
                    static MAGAZINE: Magazine<$block> = const { Magazine::new() };
                }
                MAGAZINE.try_with(f).ok()
            }

            fn depot() -> &'static Mutex<Vec<Batch<Self>>> {
                static DEPOT: Mutex<Vec<Batch<$block>>> = Mutex::new(Vec::new());
                &DEPOT
            }
        }
    };
}

block!(Small);
block!(Medium);
