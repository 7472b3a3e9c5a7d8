//! The fork deques of all workers of a pool, where thieves find them.

use std::{
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{ForkDeque, ForkHeader};

type ForkDequeRef = Arc<ForkDeque<ForkHeader>>;

/// One fork deque per worker, and one per spare worker that exists.
pub(crate) struct ForkDeques {
    workers: Box<[ForkDequeRef]>,
    spares: Mutex<Vec<ForkDequeRef>>,
    /// How many spare workers there are. If there are none, no thread locks the list.
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

    /// Returns the fork deque of worker `index`, for its own thread.
    pub(crate) fn of_worker(&self, index: usize) -> ForkDequeRef {
        Arc::clone(&self.workers[index])
    }

    /// Creates the fork deque of a spare worker.
    pub(crate) fn add_spare(&self) -> ForkDequeRef {
        let deque = Arc::new(ForkDeque::new());
        let mut spares = self.lock_spares();
        spares.push(Arc::clone(&deque));
        // Relaxed: a thief that misses it checks again later, as for a fork that was just pushed.
        self.spare_count.store(spares.len(), Relaxed);
        deque
    }

    /// Removes the fork deque of a spare worker, which must be empty.
    pub(crate) fn remove_spare(&self, deque: &ForkDequeRef) {
        let mut spares = self.lock_spares();
        spares.retain(|other| !Arc::ptr_eq(other, deque));
        // Relaxed: as in `add_spare`.
        self.spare_count.store(spares.len(), Relaxed);
    }

    /// Returns whether there is a fork to take from a deque other than `own`. A hint.
    pub(crate) fn have_some(&self, own: Option<&ForkDeque<ForkHeader>>) -> bool {
        let has_some = |deque: &ForkDequeRef| !is_same(deque, own) && deque.has_some();
        self.workers.iter().any(has_some)
            || self.has_spares() && self.lock_spares().iter().any(has_some)
    }

    /// Calls `f` with each deque other than `own`, beginning with that of worker `first`, until it
    /// returns a value. Returns the value with the index of the worker, which a spare worker does not
    /// have.
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
        // Relaxed: as in `add_spare`.
        self.spare_count.load(Relaxed) > 0
    }

    fn lock_spares(&self) -> MutexGuard<'_, Vec<ForkDequeRef>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same(deque: &ForkDequeRef, own: Option<&ForkDeque<ForkHeader>>) -> bool {
    own.is_some_and(|own| ptr::eq(&raw const **deque, own))
}
