//! Model checks of the protocols, on the files that are shipped.
//!
//! Each model is small enough for every order of its steps to be tried:
//!
//! ```text
//! RUSTFLAGS="--cfg windlass_loom" cargo test -p windlass-pool --release --lib \
//!     --target-dir target-loom
//! ```
//!
//! loom has no build of the deques, so a counter stands in for them, with no more order than they
//! give: what is checked is "queue, then look who sleeps" against "fall asleep, then look at the
//! queue".

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    thread,
};

use crate::{
    cancellation,
    job::{self, QueuedTask, TaskHandle},
    node::ScopeRoot,
    parker::{self, ParkerRef},
    pending_search::PendingSearch,
    sleep::{Notified, Sleep, SleepReason},
    wait_table,
};

mod forks;

/// A pool reduced to one queue and the sleep.
struct Pool {
    sleep: Sleep,
    /// How many things are queued.
    queue: AtomicUsize,
    spares: AtomicUsize,
}

impl Pool {
    /// A pool whose workers all run something.
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

    /// What a worker does to get its next task, without the spinning; false if the pool is closed.
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

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn a_worker_that_falls_asleep_does_not_miss_what_is_queued() {
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
fn two_workers_find_two_things() {
    model(|| {
        let pool = Pool::new(2);
        let worker = |pool: &Arc<Pool>| {
            let pool = Arc::clone(pool);
            thread::spawn(move || pool.next(&parker::current()))
        };
        let (one, other) = (worker(&pool), worker(&pool));
        // One call for two things: the first to be woken has to pass it on.
        pool.push(2);
        assert!(one.join().unwrap() && other.join().unwrap());
    });
}

#[test]
fn relief_is_called_when_the_last_worker_waits_and_something_is_queued() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // What a worker does before it sleeps in a wait without helping.
                pool.sleep.block();
                if pool.has_work() {
                    pool.notify();
                }
            })
        };
        pool.push(1);
        worker.join().unwrap();
        assert_eq!(pool.spares.load(Relaxed), 1, "exactly one of the two has noticed");
    });
}

#[test]
fn urgent_work_is_taken_or_relief_is_called_while_all_workers_get_busy() {
    model(|| {
        let pool = Pool::new(1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // It searches, takes the urgent work or finds something else, and stops searching.
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
        assert!(taken || spares > 0, "no thread sees to it");
    });
}

#[test]
fn a_closing_pool_wakes_its_workers() {
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

/// A root that several model threads can reach.
fn shared_root() -> Arc<ScopeRoot> {
    Arc::new(ScopeRoot::detached())
}

fn task<T: Send + 'static>(
    root: &ScopeRoot,
    body: impl FnOnce() -> T + Send + 'static,
) -> (TaskHandle<T>, QueuedTask) {
    job::make_static(root.guard(), root, body)
}

fn run(queued: QueuedTask) {
    if let Some(claimed) = queued.claim_own() {
        drop(claimed.run().close());
    }
}

#[test]
fn an_awaiter_gets_the_value_however_its_wait_and_the_end_meet() {
    model(|| {
        let root = shared_root();
        let (mut handle, queued) = task(&root, || 7);
        let runner = thread::spawn(move || run(queued));
        wait_table::sleep_until_complete(&handle, None);
        assert_eq!(handle.take(&root).unwrap().unwrap(), 7);
        drop(handle);
        runner.join().unwrap();
        assert!(root.end_body());
    });
}

#[test]
fn awaiter_and_worker_do_not_both_run_a_task() {
    model(|| {
        let root = shared_root();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let (mut handle, queued) = task(&root, move || counted.fetch_add(1, Relaxed));
        let runner = thread::spawn(move || run(queued));
        if let Some(claimed) = handle.claim() {
            drop(claimed.run().close());
        }
        wait_table::sleep_until_complete(&handle, None);
        assert_eq!(handle.take(&root).unwrap().unwrap(), 0);
        drop(handle);
        runner.join().unwrap();
        assert_eq!(runs.load(Relaxed), 1);
        assert!(root.end_body());
    });
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_value_is_dropped_once_however_its_end_and_its_handles_end_meet() {
    model(|| {
        let root = shared_root();
        let drops = Arc::new(AtomicUsize::new(0));
        let value = Counted(Arc::clone(&drops));
        let (handle, queued) = task(&root, move || value);
        let runner = thread::spawn(move || run(queued));
        drop(handle);
        runner.join().unwrap();
        assert_eq!(drops.load(Relaxed), 1);
        assert!(root.end_body());
    });
}

#[test]
fn a_scope_ends_after_all_its_tasks_and_sees_what_they_did() {
    model(|| {
        let root = shared_root();
        let done = Arc::new(AtomicUsize::new(0));
        let runners: Vec<_> = (0..2)
            .map(|_| {
                let done = Arc::clone(&done);
                // Spawned by the body itself, which counts apart.
                let guard = root.inside(|| root.child_guard());
                let (handle, queued) =
                    job::make_static(guard, &root, move || _ = done.fetch_add(1, Relaxed));
                drop(handle);
                thread::spawn(move || run(queued))
            })
            .collect();
        if !root.end_body() {
            wait_table::sleep_until_complete(root.node(), None);
        }
        assert_eq!(done.load(Relaxed), 2);
        for runner in runners {
            runner.join().unwrap();
        }
    });
}

/// Runs the task that somebody is about to put there.
fn run_what_comes(queue: &Mutex<Option<QueuedTask>>) {
    loop {
        let next = queue.lock().unwrap().take();
        if let Some(next) = next {
            return run(next);
        }
        thread::yield_now();
    }
}

#[test]
fn a_task_completes_after_its_child_task() {
    model(|| {
        let root = shared_root();
        let done = Arc::new(AtomicUsize::new(0));
        let (queue, counted) = (Arc::new(Mutex::new(None)), Arc::clone(&done));
        let (inner_root, inner_queue) = (Arc::clone(&root), Arc::clone(&queue));
        let (parent, queued) = task(&root, move || {
            let guard = inner_root.child_guard();
            let child = job::make_static(guard, &inner_root, move || {
                counted.fetch_add(1, Relaxed);
            });
            *inner_queue.lock().unwrap() = Some(child.1);
        });
        let runner = thread::spawn(move || run(queued));
        run_what_comes(&queue);
        wait_table::sleep_until_complete(&parent, None);
        assert_eq!(done.load(Relaxed), 1);
        runner.join().unwrap();
        drop(parent);
        assert!(root.end_body());
    });
}

#[test]
fn a_scope_ends_after_the_child_of_a_task_that_nobody_holds() {
    model(|| {
        let root = shared_root();
        let done = Arc::new(AtomicUsize::new(0));
        let (queue, counted) = (Arc::new(Mutex::new(None)), Arc::clone(&done));
        let (inner_root, inner_queue) = (Arc::clone(&root), Arc::clone(&queue));
        let (parent, queued) = task(&root, move || {
            // Counted on the body's own thread until the body ends.
            let guard = inner_root.child_guard();
            let (child, queued) = job::make_static(guard, &inner_root, move || {
                counted.fetch_add(1, Relaxed);
            });
            drop(child);
            *inner_queue.lock().unwrap() = Some(queued);
        });
        drop(parent);
        let runner = thread::spawn(move || run(queued));
        run_what_comes(&queue);
        if !root.end_body() {
            wait_table::sleep_until_complete(root.node(), None);
        }
        assert_eq!(done.load(Relaxed), 1);
        runner.join().unwrap();
    });
}

#[test]
fn a_callback_is_called_once_however_cancel_and_registration_meet() {
    model(|| {
        let root = shared_root();
        let calls = Arc::new(AtomicUsize::new(0));
        let canceller = {
            let root = Arc::clone(&root);
            thread::spawn(move || cancellation::cancel(root.node()))
        };
        let callbacks = root.child();
        let counted = Arc::clone(&calls);
        let (handle, callback) = task(&callbacks, move || _ = counted.fetch_add(1, Relaxed));
        drop(handle);
        cancellation::register(&callbacks, callback);
        canceller.join().unwrap();
        assert_eq!(calls.load(Relaxed), 1);
        cancellation::deregister(&callbacks);
        assert!(callbacks.end_body());
    });
}

#[test]
fn a_cancel_is_seen_by_whoever_knows_of_it() {
    model(|| {
        let root = shared_root();
        let told = Arc::new(AtomicBool::new(false));
        let canceller = {
            let (root, told) = (Arc::clone(&root), Arc::clone(&told));
            thread::spawn(move || {
                cancellation::cancel(root.node());
                told.store(true, Release);
            })
        };
        // Remembers, possibly, that nothing was cancelled.
        let inner = root.inside(|| ScopeRoot::new(None));
        let _ = inner.is_cancelled();
        if told.load(Acquire) {
            assert!(inner.is_cancelled());
        }
        canceller.join().unwrap();
        assert!(inner.is_cancelled());
    });
}

#[test]
fn a_cancel_of_one_task_is_seen_by_whoever_knows_of_it() {
    model(|| {
        let root = shared_root();
        let told = Arc::new(AtomicBool::new(false));
        let (handle, queued) = task(&root, || unreachable!("it is cancelled before it runs"));
        let handle = Arc::new(handle);
        let canceller = {
            let (handle, told) = (Arc::clone(&handle), Arc::clone(&told));
            thread::spawn(move || {
                cancellation::cancel(&handle);
                told.store(true, Release);
            })
        };
        // The root remembers, possibly, that nothing was cancelled.
        assert!(!root.is_cancelled());
        if told.load(Acquire) {
            assert!(handle.is_cancelled());
        }
        canceller.join().unwrap();
        assert!(handle.is_cancelled() && !root.is_cancelled());
        drop(handle);
        run(queued);
        assert!(root.end_body());
    });
}

#[test]
fn a_parked_thread_is_woken() {
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

#[test]
fn what_is_put_down_is_seen_by_one_who_is_invited() {
    model(|| {
        let shared = Arc::new((PendingSearch::started(), AtomicUsize::new(0)));
        let looker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (search, things) = &*shared;
                search.finish();
                things.load(Relaxed) > 0 && search.request()
            })
        };
        let (search, things) = &*shared;
        things.fetch_add(1, Relaxed);
        let invites = search.request();
        let looker_invites = looker.join().unwrap();
        assert_ne!(invites, looker_invites, "exactly one of the two invites somebody");
    });
}
