//! Dropping a scheduler, and tasks that belong to no scope.

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, SchedulerConfig, TaskError, TaskState, cancelled, with_scope};

use crate::support::{PATIENCE, Signal, hush_panics, must_end};

#[test]
fn dropping_a_scheduler_cancels_what_runs_and_waits_for_it() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let (begun, ended) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let (seen, over) = (Arc::clone(&begun), Arc::clone(&ended));
        drop(scheduler.spawn(move || {
            seen.raise();
            while !cancelled() {}
            over.raise();
        }));
        begun.wait();
        drop(scheduler);
        assert!(ended.is_raised());
    });
}

#[test]
fn no_awaiter_is_left_hanging_when_the_scheduler_goes() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let running = scheduler.spawn(|| while !cancelled() {});
        let waiting = scheduler.spawn(|| ());
        let awaiter = thread::spawn(move || {
            (running.await_result().is_ok(), waiting.await_result().is_err())
        });
        drop(scheduler);
        let (running, waiting) = awaiter.join().unwrap();
        // The first was running or had not begun; the second cannot have run before it.
        assert!(running || waiting);
    });
}

#[test]
fn workers_that_never_sleep_end_with_their_scheduler() {
    must_end(|| {
        let config =
            SchedulerConfig { worker_count: 2, spin_count: u32::MAX, ..Default::default() };
        let scheduler = Scheduler::with_config(config);
        assert_eq!(scheduler.run(|| 42), 42);
        drop(scheduler);
    });
}

#[test]
fn a_scheduler_may_be_dropped_by_one_of_its_own_tasks() {
    must_end(|| {
        let scheduler = Arc::new(Scheduler::new(2));
        let (done, was_done) = mpsc::channel();
        let own = Arc::clone(&scheduler);
        let (handed, received) = mpsc::channel::<Arc<Scheduler>>();
        drop(scheduler.spawn(move || {
            drop(own);
            drop(received.recv().unwrap());
            done.send(()).unwrap();
        }));
        handed.send(scheduler).unwrap();
        was_done.recv_timeout(PATIENCE).unwrap();
    });
}

#[test]
fn a_task_of_the_scheduler_gives_its_value_or_its_panic() {
    hush_panics();
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
fn a_task_of_the_scheduler_can_be_awaited_for_a_while() {
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
        assert_eq!(task.await_timeout(PATIENCE).unwrap().unwrap(), 3);
        assert!(task.await_timeout(Duration::MAX).is_none(), "a result is given once");

        // On a worker of the same scheduler, a task that has not begun is run right there.
        let begun = scheduler.spawn(|| 4);
        let (task, result) = mpsc::channel();
        task.send(begun).unwrap();
        let value = scheduler.run(move || result.recv().unwrap().await_timeout(PATIENCE));
        assert_eq!(value.unwrap().unwrap(), 4);
    });
}

#[test]
fn a_task_of_the_scheduler_is_not_cancelled_with_its_spawner() {
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

/// Counts wake-ups by sending them.
struct Woken(mpsc::Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_task_of_the_scheduler_is_a_future_that_wakes_its_last_poller_once() {
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
        last_woken.recv_timeout(PATIENCE).unwrap();
        assert!(first_woken.try_recv().is_err());
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => assert_eq!(result.unwrap(), 9),
            Poll::Pending => panic!("it was woken"),
        }
    });
}

#[test]
fn a_dropped_future_lets_its_task_go_on_and_wakes_nobody() {
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
fn a_cancelled_task_of_the_scheduler_says_so() {
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
