//! Panics go to the thread that awaits the task, or else to the caller of the scope, once.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use windlass_pool::{Scheduler, TaskError, cancelled, with_scope};

use crate::support::{Signal, amount, must_end, panic_of, silence_expected_panics};

#[test]
fn a_panic_of_a_task_without_a_handle_continues_in_the_caller() {
    silence_expected_panics();
    let scheduler = Scheduler::new(2);
    let message = panic_of(|| {
        with_scope(&scheduler, |scope| {
            scope.spawn(|| panic!("on purpose: alone"));
        });
    });
    assert_eq!(message, "on purpose: alone");
}

#[test]
fn an_awaited_panic_is_not_raised_again() {
    silence_expected_panics();
    let scheduler = Scheduler::new(2);
    let result = with_scope(&scheduler, |scope| {
        scope.spawn(|| -> u32 { panic!("on purpose: awaited") }).await_result()
    });
    match result {
        Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), Some("on purpose: awaited")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_of_several_panics_continues_in_the_caller() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let message = panic_of(|| {
            with_scope(&scheduler, |scope| {
                let first = scope.spawn(|| panic!("on purpose: first"));
                while first.state() != windlass_pool::TaskState::Completed {}
                scope.spawn(|| panic!("on purpose: second"));
                panic!("on purpose: body");
            })
        });
        assert_eq!(message, "on purpose: first");
    });
}

#[test]
fn a_panic_stays_with_its_task_when_memory_is_reused() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let message = panic_of(|| {
        with_scope(&scheduler, |scope| {
            scope.spawn(|| panic!("on purpose: unseen"));
            for round in 0..amount(100, 5) {
                let task = scope.spawn(move || panic!("on purpose: {round}"));
                match task.await_result() {
                    Err(TaskError::Panicked(panic)) => {
                        assert_eq!(panic.message().unwrap(), format!("on purpose: {round}"));
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
    });
    assert_eq!(message, "on purpose: unseen");
}

#[test]
fn a_panic_in_the_body_cancels_the_tasks_and_waits_for_them() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let (started, ended) = (Signal::default(), AtomicBool::new(false));
        let message = panic_of(|| {
            with_scope(&scheduler, |scope| {
                scope.spawn(|| {
                    started.raise();
                    while !cancelled() {}
                    ended.store(true, SeqCst);
                });
                started.wait();
                panic!("on purpose: body");
            })
        });
        assert_eq!(message, "on purpose: body");
        assert!(ended.into_inner());
    });
}

#[test]
fn a_panic_of_a_task_leaves_its_siblings_alone() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let mut ran = false;
    panic_of(|| {
        with_scope(&scheduler, |scope| {
            let failing = scope.spawn(|| panic!("on purpose: sibling"));
            scope.spawn(|| ran = true);
            drop(failing);
        });
    });
    assert!(ran);
}

#[test]
fn a_panic_in_the_drop_of_an_unawaited_value_continues_in_the_caller() {
    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("on purpose: drop");
        }
    }
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let message = panic_of(|| {
        with_scope(&scheduler, |scope| {
            drop(scope.spawn(|| PanicOnDrop));
        });
    });
    assert_eq!(message, "on purpose: drop");
}

#[test]
fn workers_survive_panics() {
    silence_expected_panics();
    let scheduler = Scheduler::new(2);
    for _ in 0..amount(100, 5) {
        panic_of(|| {
            with_scope(&scheduler, |scope| {
                scope.spawn(|| panic!("on purpose: again"));
            });
        });
    }
    assert_eq!(scheduler.run(|| 1), 1);
    assert_eq!(scheduler.stats().total().panicked, amount(100, 5) as u64);
}

#[test]
fn a_panic_in_run_continues_in_the_caller() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let message = panic_of(|| scheduler.run(|| panic!("on purpose: run")));
    assert_eq!(message, "on purpose: run");
}

#[test]
fn a_task_error_converts_to_a_boxed_send_and_sync_error() {
    fn fails() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let scheduler = Scheduler::new(1);
        Ok(with_scope(&scheduler, |scope| {
            scope.spawn(|| std::panic::panic_any(std::cell::Cell::new(1))).await_result()
        })?)
    }
    silence_expected_panics();
    assert_eq!(fails().unwrap_err().to_string(), "the task panicked: (no message)");
}
