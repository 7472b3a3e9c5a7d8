//! Where the future of a task is while it runs, and the room that one leaves to the next.
//!
//! Most tasks of a runner are made alike, and many are over at their first poll. So a future that is
//! over leaves its box behind, and the next one of the same type moves in.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::TaskResult;

/// A future of unknown type, in a box that may be used again.
pub(crate) struct TaskFuture<O, E>(Pin<Box<dyn Place<O, E>>>);

/// A box that the last future has left, if there is one.
pub(crate) struct Room<O, E>(Option<TaskFuture<O, E>>);

/// Where a future of one type may be.
trait Place<O, E>: Send {
    /// Whether the future, an `Option` of one, was of the right type, and has moved in.
    fn take_in(self: Pin<&mut Self>, future: &mut dyn Any) -> bool;

    /// Once the future is over it is gone.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TaskResult<O, E>>;

    /// Drops the future, if it is there.
    fn clear(self: Pin<&mut Self>);
}

impl<O, E, F> Place<O, E> for Option<F>
where
    F: Future<Output = TaskResult<O, E>> + Send + 'static,
{
    #[inline]
    fn take_in(mut self: Pin<&mut Self>, future: &mut dyn Any) -> bool {
        let Some(future) = future.downcast_mut::<Self>() else { return false };
        self.set(future.take());
        true
    }

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TaskResult<O, E>> {
        let future = self.as_mut().as_pin_mut().expect("it is not polled after it is over");
        let polled = future.poll(context);
        if polled.is_ready() {
            self.set(None);
        }
        polled
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.set(None);
    }
}

impl<O, E> TaskFuture<O, E> {
    pub(crate) fn of(
        future: impl Future<Output = TaskResult<O, E>> + Send + 'static,
    ) -> TaskFuture<O, E> {
        Self(Box::pin(Some(future)))
    }

    /// Not to be called after it was ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TaskResult<O, E>> {
        self.0.as_mut().poll(context)
    }
}

impl<O, E> Drop for TaskFuture<O, E> {
    /// What is dropped before it is over has been stopped: nobody wants to know whether it panics.
    fn drop(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().clear()));
    }
}

impl<O, E> Room<O, E> {
    /// No box at all.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// A future moves in, and is polled for the first time. If it is not over by then it is still
    /// here, to be taken.
    #[inline]
    pub(crate) fn enter<F>(
        &mut self,
        future: F,
        context: &mut Context<'_>,
    ) -> Poll<TaskResult<O, E>>
    where
        F: Future<Output = TaskResult<O, E>> + Send + 'static,
    {
        let mut future = Some(future);
        if let Some(TaskFuture(place)) = &mut self.0
            && place.as_mut().take_in(&mut future)
        {
            return place.as_mut().poll(context);
        }
        self.0.insert(TaskFuture(Box::pin(future))).poll(context)
    }

    /// The future that has entered and is not over.
    pub(crate) fn take(&mut self) -> Option<TaskFuture<O, E>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;

    type Number = TaskResult<u32, ()>;

    fn enter(
        room: &mut Room<u32, ()>,
        future: impl Future<Output = Number> + Send + 'static,
    ) -> Poll<Number> {
        room.enter(future, &mut Context::from_waker(Waker::noop()))
    }

    fn place(room: &Room<u32, ()>) -> Option<*const ()> {
        room.0.as_ref().map(|future| (&raw const *future.0).cast())
    }

    #[test]
    fn a_future_moves_in_where_one_of_its_type_was() {
        let mut room = Room::none();
        assert_eq!(enter(&mut room, ready(Ok(1))), Poll::Ready(Ok(1)));
        let first = place(&room);
        assert_eq!(enter(&mut room, ready(Ok(2))), Poll::Ready(Ok(2)));
        assert!(first.is_some() && place(&room) == first);
    }

    #[test]
    fn a_future_of_another_type_gets_a_room_of_its_own() {
        let mut room = Room::none();
        assert_eq!(enter(&mut room, ready(Ok(1))), Poll::Ready(Ok(1)));
        assert_eq!(enter(&mut room, async { Ok(2) }), Poll::Ready(Ok(2)));
        assert_eq!(enter(&mut room, ready(Ok(3))), Poll::Ready(Ok(3)));
    }

    #[test]
    fn one_that_is_not_over_takes_its_room_along() {
        let mut room = Room::none();
        assert_eq!(enter(&mut room, pending()), Poll::Pending);
        let mut under_way = room.take().expect("it is not over");
        assert_eq!(place(&room), None);
        assert_eq!(enter(&mut room, ready(Ok(1))), Poll::Ready(Ok(1)));
        assert_eq!(under_way.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    }

    #[test]
    fn what_a_future_held_is_dropped_when_it_is_over() {
        let held = Arc::new(());
        let kept = Arc::clone(&held);
        let mut room = Room::none();
        // Unlike an async block, this one drops nothing by itself.
        let future =
            poll_fn(move |_| Poll::Ready(Ok(u32::try_from(Arc::strong_count(&kept)).unwrap())));
        assert_eq!(enter(&mut room, future), Poll::Ready(Ok(2)));
        assert!(place(&room).is_some(), "the room is still there");
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn one_that_panics_is_followed_by_the_next() {
        let number = |n: u32| async move { Ok(u32::checked_sub(n, 1).expect("not 0")) };
        let mut room = Room::none();
        assert_eq!(enter(&mut room, number(1)), Poll::Ready(Ok(0)));
        assert!(catch_unwind(AssertUnwindSafe(|| enter(&mut room, number(0)))).is_err());
        assert_eq!(enter(&mut room, number(2)), Poll::Ready(Ok(1)));
    }
}
