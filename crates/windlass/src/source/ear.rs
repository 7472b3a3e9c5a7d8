//! One who waits for something new in a source: a task, room for it, its time, or the end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep, sleep_until};

use super::queue::Queue;

/// Listens to a source. What happens between its making, or the last time it heard something, and
/// its being polled is heard, too: so look after that, then poll.
pub(crate) struct Ear<T> {
    queue: Queue<T>,
    changed: Pin<Box<OwnedNotified>>,
    bell: Pin<Box<OwnedNotified>>,
    bell_of: Arc<Notify>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> Ear<T> {
    pub(crate) fn new(queue: &Queue<T>) -> Self {
        queue.count_ears(1);
        let (changed, bell_of) = queue.bells();
        Self {
            queue: queue.clone(),
            changed: Box::pin(changed.notified_owned()),
            bell: Box::pin(Arc::clone(&bell_of).notified_owned()),
            bell_of,
            timer: None,
        }
    }

    /// Ready when one should look again.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        if self.changed.as_mut().poll(context).is_ready() {
            self.listen_anew();
            return Poll::Ready(());
        }
        if self.bell.as_mut().poll(context).is_ready() {
            self.bell = Box::pin(Arc::clone(&self.bell_of).notified_owned());
            self.queue.look_again();
            return Poll::Ready(());
        }
        self.poll_timer(context, due)
    }

    /// The source may take from another capacity by now.
    fn listen_anew(&mut self) {
        let (changed, bell_of) = self.queue.bells();
        self.changed = Box::pin(changed.notified_owned());
        if !Arc::ptr_eq(&bell_of, &self.bell_of) {
            self.bell = Box::pin(Arc::clone(&bell_of).notified_owned());
            self.bell_of = bell_of;
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        let rung = timer.as_mut().poll(context);
        if rung.is_ready() {
            self.timer = None;
        }
        rung
    }
}

impl<T> Drop for Ear<T> {
    fn drop(&mut self) {
        self.queue.count_ears(-1);
    }
}
