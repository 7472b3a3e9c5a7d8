//! A barrier at which a number of futures wait until the last of them has arrived.
//!
//! Its futures are small, so that bodies which never use it stay small, too; Tokio's `Barrier` and `Notify`
//! would add about a hundred bytes to each body.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

pub(crate) struct Barrier {
    expected: usize,
    open: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Barrier {
    /// Creates a barrier that opens when `expected` futures have arrived.
    pub(crate) fn new(expected: usize) -> Self {
        let waiting = Mutex::new(Vec::with_capacity(expected));
        Self { expected, open: AtomicBool::new(false), waiting }
    }

    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait { barrier: self, place: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the barrier opens.
pub(crate) struct Wait<'a> {
    barrier: &'a Barrier,
    /// The index of this future's waker, once it has arrived.
    place: Option<usize>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Acquire: pairs with the release store below, so that what happened before the opening is visible.
        if self.barrier.open.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waiting = self.barrier.waiting();
        if let Some(place) = self.place {
            // The barrier may have opened since the load; then the wakers are gone, and a wake-up is on its way.
            if let Some(waker) = waiting.get_mut(place) {
                waker.clone_from(cx.waker());
            }
            return Poll::Pending;
        }
        if waiting.len() + 1 < self.barrier.expected {
            self.place = Some(waiting.len());
            waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.barrier.open.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn the_last_arrival_opens_the_barrier_for_all() {
        let barrier = Barrier::new(2);
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut first, mut last) = (pin!(barrier.wait()), pin!(barrier.wait()));
        assert_eq!([first.as_mut().poll(cx), first.as_mut().poll(cx)], [Poll::Pending; 2]);
        assert_eq!(last.as_mut().poll(cx), Poll::Ready(()));
        assert_eq!(first.as_mut().poll(cx), Poll::Ready(()));
    }
}
