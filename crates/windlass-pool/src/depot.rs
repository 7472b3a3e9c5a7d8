//! Memory for tasks and bodies, used again and again.
//!
//! A few sizes of block; each thread keeps a few free ones of each at hand, and exchanges whole
//! batches with a shared depot, so that a thread that only spawns gets back what threads that only
//! run have freed. What the depot cannot hold goes back to the allocator. Knows nothing of what a
//! block holds.

use std::{
    alloc::Layout,
    cell::RefCell,
    mem::MaybeUninit,
    sync::{Mutex, PoisonError},
};

/// How many blocks move between a thread and the depot at a time.
const BATCH: usize = 64;
/// How many bytes the depot keeps of a size.
const DEPOT_BYTES: usize = 8 << 20;

/// Memory for one small task.
#[repr(C, align(16))]
pub(crate) struct Small(MaybeUninit<[u8; 64]>);

/// Memory for one task of middling size.
#[repr(C, align(16))]
pub(crate) struct Medium(MaybeUninit<[u8; 128]>);

/// Memory for the future of a body.
#[repr(C, align(16))]
pub(crate) struct Large(MaybeUninit<[u8; 256]>);

/// Memory for a future that does much.
#[repr(C, align(16))]
pub(crate) struct Huge(MaybeUninit<[u8; 512]>);

/// A size of block.
pub(crate) trait Block: Sized + 'static {
    /// A block with nothing in it.
    fn blank() -> Box<Self>;
    /// This thread's free blocks of this size.
    fn with_shelf<R>(f: impl FnOnce(&mut Vec<Box<Self>>) -> R) -> Option<R>;
    /// Everybody's free blocks of this size.
    fn depot() -> &'static Mutex<Vec<Vec<Box<Self>>>>;

    /// Whether a value of this layout fits.
    fn fits(layout: Layout) -> bool {
        let own = Layout::new::<Self>();
        layout.size() <= own.size() && layout.align() <= own.align()
    }

    /// A free block, or a new one.
    #[inline]
    fn take() -> Box<Self> {
        Self::with_shelf(|shelf| shelf.pop().or_else(|| restock(shelf)))
            .flatten()
            .unwrap_or_else(Self::blank)
    }

    /// Gives a block back.
    #[inline]
    fn give(block: Box<Self>) {
        Self::with_shelf(|shelf| {
            shelf.push(block);
            if shelf.len() >= 2 * BATCH {
                hand_in(shelf);
            }
        });
    }
}

#[cold]
fn restock<B: Block>(shelf: &mut Vec<Box<B>>) -> Option<Box<B>> {
    let batch = B::depot().lock().unwrap_or_else(PoisonError::into_inner).pop()?;
    *shelf = batch;
    shelf.pop()
}

#[cold]
fn hand_in<B: Block>(shelf: &mut Vec<Box<B>>) {
    let batch = shelf.split_off(BATCH);
    let mut depot = B::depot().lock().unwrap_or_else(PoisonError::into_inner);
    if depot.len() * BATCH * size_of::<B>() < DEPOT_BYTES {
        depot.push(batch);
    }
}

macro_rules! block {
    ($block:ident) => {
        impl Block for $block {
            fn blank() -> Box<Self> {
                Box::new(Self(MaybeUninit::uninit()))
            }

            #[inline]
            fn with_shelf<R>(f: impl FnOnce(&mut Vec<Box<Self>>) -> R) -> Option<R> {
                thread_local! {
                    static SHELF: RefCell<Vec<Box<$block>>> = const { RefCell::new(Vec::new()) };
                }
                SHELF.try_with(|shelf| f(&mut shelf.borrow_mut())).ok()
            }

            fn depot() -> &'static Mutex<Vec<Vec<Box<Self>>>> {
                static DEPOT: Mutex<Vec<Vec<Box<$block>>>> = Mutex::new(Vec::new());
                &DEPOT
            }
        }
    };
}

block!(Small);
block!(Medium);
block!(Large);
block!(Huge);
