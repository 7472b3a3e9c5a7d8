//! Models of cancelling: the generation, the flags and the callbacks.

use loom::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
};

use super::{
    model,
    tasks::{run, shared_root, task},
};
use crate::{cancellation, node::ScopeRoot};

#[test]
fn a_callback_is_called_once_however_the_cancel_races_with_its_registration() {
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
fn a_cancel_of_a_scope_is_seen_by_a_thread_that_was_notified_of_it() {
    model(|| {
        let root = shared_root();
        let notified = Arc::new(AtomicBool::new(false));
        let canceller = {
            let (root, notified) = (Arc::clone(&root), Arc::clone(&notified));
            thread::spawn(move || {
                cancellation::cancel(root.node());
                notified.store(true, Release);
            })
        };
        // May store a generation in which nothing was cancelled.
        let inner = root.inside(|| ScopeRoot::new(None));
        let _ = inner.is_cancelled();
        if notified.load(Acquire) {
            assert!(inner.is_cancelled());
        }
        canceller.join().unwrap();
        assert!(inner.is_cancelled());
    });
}

#[test]
fn a_cancel_of_a_task_is_seen_by_a_thread_that_was_notified_of_it() {
    model(|| {
        let root = shared_root();
        let notified = Arc::new(AtomicBool::new(false));
        let (handle, queued) = task(&root, || unreachable!("it is cancelled before it runs"));
        let handle = Arc::new(handle);
        let canceller = {
            let (handle, notified) = (Arc::clone(&handle), Arc::clone(&notified));
            thread::spawn(move || {
                cancellation::cancel(&handle);
                notified.store(true, Release);
            })
        };
        // May store a generation in which nothing was cancelled.
        assert!(!root.is_cancelled());
        if notified.load(Acquire) {
            assert!(handle.is_cancelled());
        }
        canceller.join().unwrap();
        assert!(handle.is_cancelled() && !root.is_cancelled());
        drop(handle);
        run(queued);
        assert!(root.end_body());
    });
}
