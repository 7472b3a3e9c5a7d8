//! Models of the sleep protocol: a worker that falls asleep against a thread that queues a task.
//!
//! Loom has no version of the deques. A counter replaces them, with no more ordering than they give:
//! "queue, then check for sleepers" runs against "fall asleep, then check the queue".

use loom::{
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    thread,
};

use super::model;
use crate::{
    parker::{self, ParkerRef},
    sleep::{Notified, Sleep, SleepReason},
};

/// A pool reduced to one queue and the sleep protocol.
struct Pool {
    sleep: Sleep,
    /// How many tasks are queued.
    queue: AtomicUsize,
    spares: AtomicUsize,
}

impl Pool {
    /// Creates a pool whose workers are all busy.
    fn new(workers: usize) -> Arc<Self> {
        let (queue, spares) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let sleep = Sleep::new(workers);
        for _ in 0..workers {
            let _ = sleep.stop_search();
        }
        Arc::new(Self { sleep, queue, spares })
    }

    fn push(&self, count: usize) {
        self.queue.fetch_add(count, Release);
        self.notify();
    }

    fn notify(&self) {
        if self.sleep.notify() == Notified::NeedsSpare {
            self.spares.fetch_add(1, Relaxed);
        }
    }

    fn notify_urgent(&self) {
        if self.sleep.notify_urgent() == Notified::NeedsSpare {
            self.spares.fetch_add(1, Relaxed);
        }
    }

    fn pop(&self) -> bool {
        self.has_work()
            && self.queue.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1)).is_ok()
    }

    fn has_work(&self) -> bool {
        self.queue.load(Acquire) > 0
    }

    /// Does what a worker does to get its next task, without the spinning. Returns false if the
    /// pool is closed.
    fn next(&self, parker: &ParkerRef) -> bool {
        self.sleep.start_search();
        loop {
            let found = self.pop();
            if found || self.sleep.is_closed() {
                if self.sleep.stop_search() && self.has_work() {
                    self.notify();
                }
                return found;
            }
            self.sleep.fall_asleep(parker, SleepReason::Idle);
            if !self.has_work() && !self.sleep.is_closed() {
                parker.park();
            }
            self.sleep.wake_up(parker);
        }
    }
}

#[test]
fn a_worker_that_falls_asleep_does_not_miss_a_queued_task() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let parker = parker::current();
                pool.next(&parker) && pool.next(&parker)
            })
        };
        pool.push(1);
        pool.push(1);
        assert!(worker.join().unwrap());
        assert_eq!(pool.spares.load(Relaxed), 0);
    });
}

#[test]
fn one_notification_for_two_tasks_wakes_two_workers() {
    model(|| {
        let pool = Pool::new(2);
        let worker = |pool: &Arc<Pool>| {
            let pool = Arc::clone(pool);
            thread::spawn(move || pool.next(&parker::current()))
        };
        let (one, other) = (worker(&pool), worker(&pool));
        // The first worker that wakes has to notify the second.
        pool.push(2);
        assert!(one.join().unwrap() && other.join().unwrap());
    });
}

#[test]
fn one_spare_is_started_when_the_last_worker_blocks_while_a_task_is_queued() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // As a worker does before it blocks without helping.
                pool.sleep.block();
                if pool.has_work() {
                    pool.notify();
                }
            })
        };
        pool.push(1);
        worker.join().unwrap();
        assert_eq!(pool.spares.load(Relaxed), 1, "exactly one of the two threads starts it");
    });
}

#[test]
fn an_urgent_task_is_taken_or_gets_a_spare_while_the_last_worker_stops_searching() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // The worker searches, takes the urgent task or another one, and stops searching.
                pool.sleep.start_search();
                let taken = pool.pop();
                let _ = pool.sleep.stop_search();
                if pool.has_work() {
                    pool.notify_urgent();
                }
                taken
            })
        };
        pool.queue.fetch_add(1, Release);
        pool.notify_urgent();
        let taken = worker.join().unwrap();
        let spares = pool.spares.load(Relaxed);
        assert!(taken || spares > 0, "no thread runs the urgent task");
    });
}

#[test]
fn closing_a_pool_wakes_its_workers() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.next(&parker::current()))
        };
        pool.sleep.close();
        assert!(!worker.join().unwrap());
    });
}

#[test]
fn an_unpark_before_or_during_the_park_wakes_the_thread() {
    model(|| {
        let parker = parker::current();
        let waker = {
            let parker = Arc::clone(&parker);
            thread::spawn(move || parker.unpark())
        };
        parker.park();
        waker.join().unwrap();
    });
}
