//! Dropping a scheduler.

use std::{
    cell::RefCell,
    sync::{Arc, Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, SchedulerConfig, cancelled, race, with_deadline};

use crate::support::{Signal, TIMEOUT, must_end};

#[test]
fn dropping_a_scheduler_cancels_running_tasks_and_waits_for_them() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let (started, ended) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let (seen, over) = (Arc::clone(&started), Arc::clone(&ended));
        drop(scheduler.spawn(move || {
            seen.raise();
            while !cancelled() {}
            over.raise();
        }));
        started.wait();
        drop(scheduler);
        assert!(ended.is_raised());
    });
}

#[test]
fn awaits_return_when_the_scheduler_is_dropped() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let running = scheduler.spawn(|| while !cancelled() {});
        let waiting = scheduler.spawn(|| ());
        let awaiter = thread::spawn(move || {
            (running.await_result().is_ok(), waiting.await_result().is_err())
        });
        drop(scheduler);
        let (running, waiting) = awaiter.join().unwrap();
        // If the first task never ran, neither did the second.
        assert!(running || waiting);
    });
}

#[test]
fn workers_that_never_sleep_end_when_their_scheduler_is_dropped() {
    must_end(|| {
        let config =
            SchedulerConfig { worker_count: 2, spin_count: u32::MAX, ..Default::default() };
        let scheduler = Scheduler::with_config(config);
        assert_eq!(scheduler.run(|| 42), 42);
        drop(scheduler);
    });
}

#[test]
fn a_task_may_drop_its_own_scheduler() {
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
        was_done.recv_timeout(TIMEOUT).unwrap();
    });
}

/// The only worker of the outer pool waits for the inner scheduler, whose task waits for the outer
/// pool.
#[test]
fn a_worker_that_drops_the_scheduler_of_another_pool_is_replaced_while_it_waits() {
    must_end(|| {
        let outer = Arc::new(Scheduler::new(1));
        let own = Arc::clone(&outer);
        let dropping = outer.spawn(move || {
            let inner = Scheduler::new(1);
            let needed = own.spawn(|| 1);
            let started = Arc::new(Signal::default());
            let has_started = Arc::clone(&started);
            let waiting = inner.spawn(move || {
                started.raise();
                needed.await_result().unwrap()
            });
            has_started.wait();
            drop(inner);
            waiting.await_result().unwrap()
        });
        assert_eq!(dropping.await_result().unwrap(), 1);
    });
}

#[test]
fn a_detached_task_may_drop_its_own_scheduler_on_another_pool() {
    must_end(|| {
        let scheduler = Arc::new(Scheduler::new(1));
        let (handed, received) = mpsc::channel::<Arc<Scheduler>>();
        let task = scheduler.spawn(move || {
            Scheduler::new(1).run(move || drop(received.recv().unwrap()));
        });
        handed.send(scheduler).unwrap();
        task.await_result().unwrap();
    });
}

#[test]
fn a_cancel_callback_of_a_detached_task_may_drop_its_own_scheduler() {
    must_end(|| {
        let scheduler = Arc::new(Scheduler::new(1));
        let (handed, received) = mpsc::channel::<Arc<Scheduler>>();
        let task = scheduler.spawn(move || {
            with_deadline(Duration::from_millis(1), |scope| {
                // The timer's thread calls it.
                scope.on_cancel(move || drop(received.recv().unwrap()));
                while !cancelled() {}
            })
        });
        handed.send(scheduler).unwrap();
        assert!(task.await_result().unwrap().is_none());
    });
}

/// A handle that a thread-local drops after `may_drop` has a message.
struct LastHandle {
    scheduler: Option<Arc<Scheduler>>,
    may_drop: mpsc::Receiver<()>,
    dropped: mpsc::Sender<()>,
}

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.may_drop.recv().unwrap();
        drop(self.scheduler.take());
        self.dropped.send(()).unwrap();
    }
}

#[test]
fn a_thread_local_of_a_spare_worker_may_drop_the_scheduler() {
    thread_local! {
        static LAST: RefCell<Option<LastHandle>> = const { RefCell::new(None) };
    }
    must_end(|| {
        let scheduler = Arc::new(Scheduler::new(1));
        let ((allow, may_drop), (dropped, was_dropped)) = (mpsc::channel(), mpsc::channel());
        let own = Some(Arc::clone(&scheduler));
        let last = Mutex::new(Some(LastHandle { scheduler: own, may_drop, dropped }));
        // Both closures run at the same time, so one of them is on a spare worker.
        let barrier = Barrier::new(2);
        let side = || {
            barrier.wait();
            if thread::current().name() == Some("windlass-spare") {
                LAST.set(last.lock().unwrap().take());
            }
        };
        scheduler.run(|| race(side, side));
        assert!(last.into_inner().unwrap().is_none(), "a spare worker has the handle");
        drop(scheduler);
        allow.send(()).unwrap();
        was_dropped.recv_timeout(TIMEOUT).unwrap();
    });
}
