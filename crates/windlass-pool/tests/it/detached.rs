//! Detached tasks, which belong to no scope, and their futures.

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use windlass_pool::{Scheduler, TaskError, TaskState, cancelled, with_scope};

use crate::support::{Signal, TIMEOUT, must_end, silence_expected_panics};

#[test]
fn a_detached_task_returns_its_value_or_its_panic() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    assert_eq!(scheduler.spawn(|| 5).await_result().unwrap(), 5);
    let panicked = scheduler.spawn(|| -> u32 { panic!("on purpose: detached") });
    match panicked.await_result() {
        Err(TaskError::Panicked(panic)) => {
            assert_eq!(panic.to_string(), "on purpose: detached");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_waker_that_panics_harms_neither_its_task_nor_the_pool() {
    struct Broken;
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            panic!("on purpose: waker");
        }
    }
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let go = Arc::new(Signal::default());
        let gone = Arc::clone(&go);
        let mut task = scheduler.spawn(move || {
            gone.wait();
            3
        });
        let waker = Waker::from(Arc::new(Broken));
        assert!(pin!(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        go.raise();
        assert_eq!(task.await_result().unwrap(), 3);
        assert_eq!(scheduler.run(|| 4), 4, "the worker goes on");
    });
}

#[test]
fn a_detached_task_can_be_awaited_with_a_timeout() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let go = Arc::new(Signal::default());
        let gone = Arc::clone(&go);
        let mut task = scheduler.spawn(move || {
            gone.wait();
            3
        });
        assert!(task.await_timeout(Duration::ZERO).is_none());
        assert!(task.await_timeout(Duration::from_millis(1)).is_none());
        go.raise();
        assert_eq!(task.await_timeout(TIMEOUT).unwrap().unwrap(), 3);
        assert!(task.await_timeout(Duration::MAX).is_none(), "a result is taken once");

        // A worker of the same scheduler runs an unstarted task itself.
        let started = scheduler.spawn(|| 4);
        let (task, result) = mpsc::channel();
        task.send(started).unwrap();
        let value = scheduler.run(move || result.recv().unwrap().await_timeout(TIMEOUT));
        assert_eq!(value.unwrap().unwrap(), 4);
    });
}

#[test]
fn a_detached_task_is_not_cancelled_with_its_spawner() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let inner = with_scope(&scheduler, |scope| {
            let scheduler = &scheduler;
            let spawner = scope.spawn(move || scheduler.spawn(cancelled));
            let inner = spawner.await_result().unwrap();
            scope.cancel();
            inner
        });
        assert!(!inner.await_result().unwrap());
    });
}

/// Sends a message for each wake-up.
struct Woken(mpsc::Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_detached_task_wakes_the_waker_of_the_last_poll_once() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let go = Arc::new(Signal::default());
        let gone = Arc::clone(&go);
        let mut task = pin!(scheduler.spawn(move || {
            gone.wait();
            9
        }));
        let (first, first_woken) = mpsc::channel();
        let (last, last_woken) = mpsc::channel();
        for sender in [first, last] {
            let waker = Waker::from(Arc::new(Woken(sender)));
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        go.raise();
        last_woken.recv_timeout(TIMEOUT).unwrap();
        assert!(first_woken.try_recv().is_err());
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => assert_eq!(result.unwrap(), 9),
            Poll::Pending => panic!("it was woken"),
        }
    });
}

#[test]
fn dropping_the_future_of_a_detached_task_neither_stops_it_nor_leaks_the_waker() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (go, ended) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let (gone, over) = (Arc::clone(&go), Arc::clone(&ended));
        let mut task = Box::pin(scheduler.spawn(move || {
            gone.wait();
            over.raise();
        }));
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Woken(sender)));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop((task, waker));
        go.raise();
        ended.wait();
        assert!(woken.recv().is_err(), "the waker is gone");
    });
}

#[test]
fn a_cancelled_detached_task_returns_the_error_cancelled() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let go = Arc::new(Signal::default());
        let gone = Arc::clone(&go);
        let first = scheduler.spawn(move || gone.wait());
        let mut second = scheduler.spawn(|| ());
        assert!(second.try_result().is_none());
        second.cancel();
        assert_eq!(second.state(), TaskState::Cancelling);
        go.raise();
        first.await_result().unwrap();
        assert!(matches!(second.await_result(), Err(TaskError::Cancelled)));
    });
}
