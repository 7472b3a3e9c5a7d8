//! Models of the life of a task: claim, outcome, completion, and the memory that goes last.

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::model;
use crate::{
    job::{self, QueuedTask, TaskHandle},
    node::ScopeRoot,
    wait_table,
};

/// Creates a root that several model threads share.
pub(super) fn shared_root() -> Arc<ScopeRoot> {
    Arc::new(ScopeRoot::detached())
}

pub(super) fn task<T: Send + 'static>(
    root: &ScopeRoot,
    body: impl FnOnce() -> T + Send + 'static,
) -> (TaskHandle<T>, QueuedTask) {
    job::make_static(root.guard(), root, body)
}

pub(super) fn run(queued: QueuedTask) {
    if let Some(claimed) = queued.claim_own() {
        drop(claimed.run().close());
    }
}

#[test]
fn a_waiter_gets_the_value_however_its_wait_races_with_the_end() {
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
fn of_a_waiter_and_a_worker_one_runs_the_task() {
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
fn a_value_is_dropped_once_however_the_end_races_with_the_drop_of_the_handle() {
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
fn a_scope_ends_after_all_its_tasks_and_sees_their_writes() {
    model(|| {
        let root = shared_root();
        let done = Arc::new(AtomicUsize::new(0));
        let runners: Vec<_> = (0..2)
            .map(|_| {
                let done = Arc::clone(&done);
                // Spawned by the body itself, so counted in the thread-local.
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

/// Waits for a task in `queue` and runs it.
fn run_next(queue: &Mutex<Option<QueuedTask>>) {
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
        run_next(&queue);
        wait_table::sleep_until_complete(&parent, None);
        assert_eq!(done.load(Relaxed), 1);
        runner.join().unwrap();
        drop(parent);
        assert!(root.end_body());
    });
}

#[test]
fn a_scope_ends_after_the_child_of_a_task_without_a_handle() {
    model(|| {
        let root = shared_root();
        let done = Arc::new(AtomicUsize::new(0));
        let (queue, counted) = (Arc::new(Mutex::new(None)), Arc::clone(&done));
        let (inner_root, inner_queue) = (Arc::clone(&root), Arc::clone(&queue));
        let (parent, queued) = task(&root, move || {
            // Counted in the thread-local until the body ends.
            let guard = inner_root.child_guard();
            let (child, queued) = job::make_static(guard, &inner_root, move || {
                counted.fetch_add(1, Relaxed);
            });
            drop(child);
            *inner_queue.lock().unwrap() = Some(queued);
        });
        drop(parent);
        let runner = thread::spawn(move || run(queued));
        run_next(&queue);
        if !root.end_body() {
            wait_table::sleep_until_complete(root.node(), None);
        }
        assert_eq!(done.load(Relaxed), 1);
        runner.join().unwrap();
    });
}
