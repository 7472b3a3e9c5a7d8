//! The stacks of all workers of a pool, where each finds those of the others.

use std::{
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Header, Stack};

type StackRef = Arc<Stack<Header>>;

/// One stack per worker, and one per relief worker that exists.
pub(crate) struct Stacks {
    workers: Box<[StackRef]>,
    reliefs: Mutex<Vec<StackRef>>,
    /// How many relief workers there are; with none, no thread locks the list.
    relief_count: AtomicUsize,
}

impl Stacks {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::new(Stack::new())).collect(),
            reliefs: Mutex::default(),
            relief_count: AtomicUsize::new(0),
        }
    }

    /// Returns the stack of worker `index`, for its own thread.
    pub(crate) fn of_worker(&self, index: usize) -> StackRef {
        Arc::clone(&self.workers[index])
    }

    /// Makes a stack for a relief worker.
    pub(crate) fn add_relief(&self) -> StackRef {
        let stack = Arc::new(Stack::new());
        let mut reliefs = self.lock_reliefs();
        reliefs.push(Arc::clone(&stack));
        // Relaxed: a thief that misses it looks again later, as for a side that was just noted.
        self.relief_count.store(reliefs.len(), Relaxed);
        stack
    }

    /// Forgets the stack of a relief worker, which is empty.
    pub(crate) fn remove_relief(&self, stack: &StackRef) {
        let mut reliefs = self.lock_reliefs();
        reliefs.retain(|other| !Arc::ptr_eq(other, stack));
        self.relief_count.store(reliefs.len(), Relaxed);
    }

    /// Whether there seems to be a side to take from a stack other than `own`.
    pub(crate) fn have_some(&self, own: Option<&Stack<Header>>) -> bool {
        let has_some = |stack: &StackRef| !is_same(stack, own) && stack.has_some();
        self.workers.iter().any(has_some)
            || self.has_reliefs() && self.lock_reliefs().iter().any(has_some)
    }

    /// Calls `f` with all stacks but `own` until it finds something, beginning with worker `first`.
    /// Returns it with the index of the worker, if it is not a relief worker.
    pub(crate) fn find<R>(
        &self,
        own: &Stack<Header>,
        first: usize,
        f: impl Fn(&Stack<Header>) -> Option<R>,
    ) -> Option<(Option<usize>, R)> {
        let look = |stack: &StackRef| if is_same(stack, Some(own)) { None } else { f(stack) };
        let count = self.workers.len();
        let indices = (0..count).map(|step| (first + step) % count);
        let of_worker = |index: usize| Some((Some(index), look(&self.workers[index])?));
        indices.into_iter().find_map(of_worker).or_else(|| {
            let of_relief = || self.lock_reliefs().iter().find_map(look);
            Some((None, self.has_reliefs().then(of_relief)??))
        })
    }

    fn has_reliefs(&self) -> bool {
        self.relief_count.load(Relaxed) > 0
    }

    fn lock_reliefs(&self) -> MutexGuard<'_, Vec<StackRef>> {
        self.reliefs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same(stack: &StackRef, own: Option<&Stack<Header>>) -> bool {
    own.is_some_and(|own| ptr::eq(&raw const **stack, own))
}
