//! A gate at which a number of futures wait until the last of them has arrived.
//!
//! Its futures are small, so that bodies which never use it stay small, too; Tokio's `Barrier` and `Notify`
//! would add about a hundred bytes to each body.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

pub(crate) struct Gate {
    expected: usize,
    open: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Gate {
    /// Makes a gate that opens when `expected` futures have arrived.
    pub(crate) fn new(expected: usize) -> Self {
        let waiting = Mutex::new(Vec::with_capacity(expected));
        Self { expected, open: AtomicBool::new(false), waiting }
    }

    pub(crate) fn pass(&self) -> Pass<'_> {
        Pass { gate: self, place: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the gate opens.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    /// Where this future's waker is kept, once it has arrived.
    place: Option<usize>,
}

impl Future for Pass<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Acquire: pairs with the release below; what came before the opening is seen after it.
        if self.gate.open.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waiting = self.gate.waiting();
        if let Some(place) = self.place {
            // The gate may have opened since the load; then the wakers are gone, and a wake-up is on its way.
            if let Some(waker) = waiting.get_mut(place) {
                waker.clone_from(cx.waker());
            }
            return Poll::Pending;
        }
        if waiting.len() + 1 < self.gate.expected {
            self.place = Some(waiting.len());
            waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.gate.open.store(true, Ordering::Release);
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
    fn the_last_arrival_opens_the_gate_for_all() {
        let gate = Gate::new(2);
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut first, mut last) = (pin!(gate.pass()), pin!(gate.pass()));
        assert_eq!([first.as_mut().poll(cx), first.as_mut().poll(cx)], [Poll::Pending; 2]);
        assert_eq!(last.as_mut().poll(cx), Poll::Ready(()));
        assert_eq!(first.as_mut().poll(cx), Poll::Ready(()));
    }
}
