//! Waits for a change of a source: a new task, capacity for it, the time of a retry, or the end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep, sleep_until};

use super::queue::Queue;

/// Listens to a source. It also notices what happens between its creation, or the last time it was ready, and
/// the next poll: so look at the source first, then poll.
pub(crate) struct Listener<T> {
    queue: Queue<T>,
    changed: Pin<Box<OwnedNotified>>,
    wakeup: Pin<Box<OwnedNotified>>,
    wakeup_of: Arc<Notify>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> Listener<T> {
    pub(crate) fn new(queue: &Queue<T>) -> Self {
        queue.count_listeners(1);
        let (changed, wakeup_of) = queue.wakeups();
        Self {
            queue: queue.clone(),
            changed: Box::pin(changed.notified_owned()),
            wakeup: Box::pin(Arc::clone(&wakeup_of).notified_owned()),
            wakeup_of,
            timer: None,
        }
    }

    /// Ready when the caller should look at the source again.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        if self.changed.as_mut().poll(context).is_ready() {
            self.listen_anew();
            return Poll::Ready(());
        }
        if self.wakeup.as_mut().poll(context).is_ready() {
            self.wakeup = Box::pin(Arc::clone(&self.wakeup_of).notified_owned());
            self.queue.look_again();
            return Poll::Ready(());
        }
        self.poll_timer(context, due)
    }

    /// Registers again. The source may use another capacity by now.
    fn listen_anew(&mut self) {
        let (changed, wakeup_of) = self.queue.wakeups();
        self.changed = Box::pin(changed.notified_owned());
        if !Arc::ptr_eq(&wakeup_of, &self.wakeup_of) {
            self.wakeup = Box::pin(Arc::clone(&wakeup_of).notified_owned());
            self.wakeup_of = wakeup_of;
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        let notified = timer.as_mut().poll(context);
        if notified.is_ready() {
            self.timer = None;
        }
        notified
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        self.queue.count_listeners(-1);
    }
}
