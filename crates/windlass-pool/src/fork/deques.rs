//! The stacks of all workers of a pool, where each finds those of the others.

use std::{
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{ForkDeque, ForkHeader};

type ForkDequeRef = Arc<ForkDeque<ForkHeader>>;

/// One deque per worker, and one per spare worker that exists.
pub(crate) struct ForkDeques {
    workers: Box<[ForkDequeRef]>,
    spares: Mutex<Vec<ForkDequeRef>>,
    /// How many spare workers there are; with none, no thread locks the list.
    spare_count: AtomicUsize,
}

impl ForkDeques {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::new(ForkDeque::new())).collect(),
            spares: Mutex::default(),
            spare_count: AtomicUsize::new(0),
        }
    }

    /// Returns the deque of worker `index`, for its own thread.
    pub(crate) fn of_worker(&self, index: usize) -> ForkDequeRef {
        Arc::clone(&self.workers[index])
    }

    /// Makes a deque for a spare worker.
    pub(crate) fn add_spare(&self) -> ForkDequeRef {
        let deque = Arc::new(ForkDeque::new());
        let mut spares = self.lock_spares();
        spares.push(Arc::clone(&deque));
        // Relaxed: a thief that misses it looks again later, as for a side that was just noted.
        self.spare_count.store(spares.len(), Relaxed);
        deque
    }

    /// Forgets the deque of a spare worker, which is empty.
    pub(crate) fn remove_spare(&self, deque: &ForkDequeRef) {
        let mut spares = self.lock_spares();
        spares.retain(|other| !Arc::ptr_eq(other, deque));
        self.spare_count.store(spares.len(), Relaxed);
    }

    /// Whether there seems to be a side to take from a deque other than `own`.
    pub(crate) fn have_some(&self, own: Option<&ForkDeque<ForkHeader>>) -> bool {
        let has_some = |deque: &ForkDequeRef| !is_same(deque, own) && deque.has_some();
        self.workers.iter().any(has_some)
            || self.has_spares() && self.lock_spares().iter().any(has_some)
    }

    /// Calls `f` with all stacks but `own` until it finds something, beginning with worker `first`.
    /// Returns it with the index of the worker, if it is not a spare worker.
    pub(crate) fn find<R>(
        &self,
        own: &ForkDeque<ForkHeader>,
        first: usize,
        f: impl Fn(&ForkDeque<ForkHeader>) -> Option<R>,
    ) -> Option<(Option<usize>, R)> {
        let look = |deque: &ForkDequeRef| if is_same(deque, Some(own)) { None } else { f(deque) };
        let count = self.workers.len();
        let indices = (0..count).map(|step| (first + step) % count);
        let of_worker = |index: usize| Some((Some(index), look(&self.workers[index])?));
        indices.into_iter().find_map(of_worker).or_else(|| {
            let of_spare = || self.lock_spares().iter().find_map(look);
            Some((None, self.has_spares().then(of_spare)??))
        })
    }

    fn has_spares(&self) -> bool {
        self.spare_count.load(Relaxed) > 0
    }

    fn lock_spares(&self) -> MutexGuard<'_, Vec<ForkDequeRef>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same(deque: &ForkDequeRef, own: Option<&ForkDeque<ForkHeader>>) -> bool {
    own.is_some_and(|own| ptr::eq(&raw const **deque, own))
}
