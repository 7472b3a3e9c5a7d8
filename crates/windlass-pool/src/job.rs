//! A *job*: the memory of one task, with its node, its outcome and its body.
//!
//! Small jobs lie in recycled blocks, so a spawn usually allocates nothing. The type of the body is
//! erased as soon as the job is written. Three kinds of reference lead to the job, each of which
//! keeps it alive:
//!
//! * [`QueuedTask`], one per task: its place in a queue;
//! * [`ClaimedTask`], at most one at a time: the right and the duty to run or discard the body;
//! * [`TaskHandle`], one per task: the right to the outcome.
//!
//! A body that borrows is run or discarded before its borrows end, because its scope waits for its
//! root; the contract of [`make`] makes its caller responsible for that. Knows nothing of workers
//! and scopes.

#![allow(unsafe_code)]

use std::{
    alloc::Layout,
    cell::UnsafeCell,
    mem::{self, ManuallyDrop},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use crate::{
    block_cache::{Block, Medium, Small},
    checkpoint::CancelUnwind,
    node::{Disposition, NeedsDrop, Node, PendingGuard, ScopeRoot, TaskEnd, TaskVTable},
};

mod references;

pub(crate) use references::{ClaimedTask, QueuedTask, TaskHandle};

/// How a body ended, and its value.
enum Outcome<T> {
    Pending,
    Value(T),
    Cancelled,
    Panicked,
    Taken,
}

/// The part of a job that does not depend on its body's type.
#[repr(C)]
struct Header<T> {
    node: Node,
    outcome: UnsafeCell<Outcome<T>>,
}

/// The memory of one task.
#[repr(C)]
struct Job<F, T> {
    header: Header<T>,
    body: UnsafeCell<ManuallyDrop<F>>,
}

/// Whether a task runs that was cancelled before it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfCancelled {
    Discard,
    Run,
}

/// Creates a task in the scope of `root`. `guard` is its count in its parent.
///
/// # Safety
/// What `F` and `T` borrow, and `root`, must stay valid until the task is complete and its handle has
/// been dropped.
#[inline]
pub(crate) unsafe fn make<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    if_cancelled: IfCancelled,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let vtable = match if_cancelled {
        IfCancelled::Discard => Job::<F, T>::VTABLE,
        IfCancelled::Run => Job::<F, T>::VTABLE_THAT_ALWAYS_RUNS,
    };
    let job = Job {
        header: Header {
            node: Node::task(guard, root, vtable),
            outcome: UnsafeCell::new(Outcome::Pending),
        },
        body: UnsafeCell::new(ManuallyDrop::new(body)),
    };
    // SAFETY: the job is new, and its header is a `Header<T>`.
    unsafe { references::of_new_job(job.into_memory()) }
}

/// Creates a task whose body borrows nothing, as [`make`] does.
pub(crate) fn make_static<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: there are no borrows that could end. A root without a scope belongs to a pool, which
    // waits for its tasks and which its handles keep alive.
    unsafe { make(guard, root, IfCancelled::Discard, body) }
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    const VTABLE: &'static TaskVTable = &TaskVTable {
        run_or_discard: Self::run_or_discard,
        drop_outcome: drop_outcome::<T>,
        free: Self::free,
    };

    const VTABLE_THAT_ALWAYS_RUNS: &'static TaskVTable =
        &TaskVTable { run_or_discard: Self::run_always, ..*Self::VTABLE };

    // Always inline, as `into_block`: otherwise the job would be built elsewhere and then moved.
    #[inline(always)]
    fn into_memory(self) -> NonNull<Node> {
        let layout = Layout::new::<Self>();
        if Small::fits(layout) {
            self.into_block::<Small>()
        } else if Medium::fits(layout) {
            self.into_block::<Medium>()
        } else {
            NonNull::from(Box::leak(Box::new(self))).cast()
        }
    }

    #[inline(always)]
    fn into_block<B: Block>(self) -> NonNull<Node> {
        let job = NonNull::from(Box::leak(B::allocate())).cast::<Self>();
        // SAFETY: the block is unused, and large and aligned enough; no other thread knows it.
        unsafe { job.write(self) };
        job.cast()
    }

    /// Frees the job's memory.
    ///
    /// # Safety
    /// The contract of `TaskVTable::free`, for a `Job<F, T>`.
    unsafe fn free(task: NonNull<Node>) {
        let layout = Layout::new::<Self>();
        // Nothing in the job needs dropping: the body was moved out to run or discard it, and the
        // outcome was dropped or taken before the last reference was dropped.
        if Small::fits(layout) {
            // SAFETY: `into_memory` put a job of this layout into such a block.
            Small::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else if Medium::fits(layout) {
            // SAFETY: as above.
            Medium::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else {
            // SAFETY: `into_memory` put a job of this layout into a box of its own.
            drop(unsafe { Box::<Self>::from_raw(task.cast().as_ptr()) });
        }
    }

    /// Runs the body, even if the task was cancelled, and stores the outcome.
    ///
    /// # Safety
    /// The contract of `TaskVTable::run_or_discard`, for a `Job<F, T>`.
    unsafe fn run_always(task: NonNull<Node>, _: Disposition) -> (TaskEnd, NeedsDrop) {
        // SAFETY: by the same contract.
        unsafe { Self::run_or_discard(task, Disposition::Run) }
    }

    /// Runs or drops the body and stores the outcome.
    ///
    /// # Safety
    /// The contract of `TaskVTable::run_or_discard`, for a `Job<F, T>`.
    unsafe fn run_or_discard(
        task: NonNull<Node>,
        disposition: Disposition,
    ) -> (TaskEnd, NeedsDrop) {
        let job = task.cast::<Self>().as_ptr();
        // SAFETY: the job is alive, and other threads access only the node's atomics meanwhile.
        let node = unsafe { &(*job).header.node };
        // SAFETY: the caller has the claim and uses it once, so the body is there and no other
        // thread accesses it.
        let body = unsafe { ManuallyDrop::take(&mut *(*job).body.get()) };
        let (end, outcome) =
            match catch_unwind(AssertUnwindSafe(|| run_or_discard(node, body, disposition))) {
                Ok(outcome @ Outcome::Cancelled) => (TaskEnd::Cancelled, outcome),
                Ok(outcome) => (TaskEnd::Completed, outcome),
                Err(payload) if payload.is::<CancelUnwind>() => {
                    (TaskEnd::Cancelled, Outcome::Cancelled)
                }
                Err(payload) => {
                    // SAFETY: the pending count contains the body's bias, so the task is not complete.
                    unsafe { node.root() }.panics().record(node.address(), payload);
                    (TaskEnd::Panicked, Outcome::Panicked)
                }
            };
        let needs_drop = match outcome {
            Outcome::Value(_) | Outcome::Panicked => NeedsDrop::Yes,
            Outcome::Pending | Outcome::Cancelled | Outcome::Taken => NeedsDrop::No,
        };
        // SAFETY: until `end_body`, only the thread with the claim accesses the outcome.
        unsafe { *(*job).header.outcome.get() = outcome };
        (end, needs_drop)
    }
}

/// Runs or drops the body. Drops a value to which no handle leads, so that a panic in that drop
/// counts as a panic of the body.
fn run_or_discard<T>(
    node: &Node,
    body: impl FnOnce() -> T,
    disposition: Disposition,
) -> Outcome<T> {
    if disposition == Disposition::Discard {
        drop(body);
        return Outcome::Cancelled;
    }
    let value = body();
    if node.has_handle() {
        return Outcome::Value(value);
    }
    drop(value);
    Outcome::Taken
}

/// Drops the outcome of a task, if it has not been taken.
///
/// # Safety
/// The contract of `TaskVTable::drop_outcome`, for a job with a `Header<T>`.
unsafe fn drop_outcome<T>(task: NonNull<Node>) {
    let header = task.cast::<Header<T>>().as_ptr();
    // SAFETY: by the contract, no other thread accesses the outcome.
    let outcome = mem::replace(unsafe { &mut *(*header).outcome.get() }, Outcome::Taken);
    if let Outcome::Panicked = outcome {
        // SAFETY: by the same contract the node is alive.
        let node = unsafe { &(*header).node };
        // SAFETY: by the same contract the root is alive.
        unsafe { node.root() }.panics().mark_unobserved(node.address());
    }
}
