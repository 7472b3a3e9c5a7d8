//! What a pool does when the system cannot start another thread.
//!
//! Each test runs itself again in a process with little address space and large stacks, so that a
//! few threads use it up.
#![cfg(all(target_os = "linux", not(miri)))]

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, with_deadline_on};

use crate::support::{Signal, TIMEOUT, must_end, panic_of};

const IN_CHILD: &str = "WINDLASS_TEST_FEW_THREADS";
const STACK_BYTES: usize = 256 << 20;

/// Runs `check` in a process that can start about a dozen threads. `test` is the path of the calling
/// test.
fn with_few_threads(test: &str, check: impl FnOnce() + Send + 'static) {
    if env::var_os(IN_CHILD).is_some() {
        return must_end(check);
    }
    let child = Command::new("sh")
        .args(["-c", "ulimit -v 4194304; exec \"$@\"", "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(IN_CHILD, "1")
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{child:?}");
}

/// Reserves address space until no thread can start.
fn use_up_address_space() -> Vec<Vec<u8>> {
    let mut reserved = Vec::new();
    while thread::Builder::new().spawn(|| ()).map(thread::JoinHandle::join).is_ok() {
        let mut block = Vec::new();
        if block.try_reserve_exact(STACK_BYTES / 2).is_ok() {
            reserved.push(block);
        }
    }
    reserved
}

fn count_threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_scheduler_that_cannot_start_all_its_workers_panics_and_ends_those_it_started() {
    with_few_threads(
        "thread_limits::a_scheduler_that_cannot_start_all_its_workers_panics_and_ends_those_it_started",
        || {
            let before = count_threads();
            let message = panic_of(|| Scheduler::new(64));
            assert!(message.starts_with("cannot start a worker thread"), "{message}");
            // The kernel removes a joined thread from the list a moment later.
            while count_threads() > before {
                thread::yield_now();
            }
        },
    );
}

#[test]
fn a_deadline_whose_timer_cannot_start_panics_and_the_next_one_works() {
    with_few_threads(
        "thread_limits::a_deadline_whose_timer_cannot_start_panics_and_the_next_one_works",
        || {
            let scheduler = Scheduler::new(1);
            let reserved = use_up_address_space();
            let message = panic_of(|| with_deadline_on(&scheduler, TIMEOUT, |_| ()));
            assert!(message.starts_with("cannot start the timer thread"), "{message}");
            drop(reserved);
            assert_eq!(with_deadline_on(&scheduler, TIMEOUT, |_| 1), Some(1));
            assert_eq!(with_deadline_on(&scheduler, Duration::ZERO, |_| 1), None);
        },
    );
}

#[test]
fn a_spawn_that_cannot_start_a_spare_worker_panics_and_the_pool_goes_on() {
    with_few_threads(
        "thread_limits::a_spawn_that_cannot_start_a_spare_worker_panics_and_the_pool_goes_on",
        || {
            let (scheduler, other) = (Scheduler::new(1), Scheduler::new(1));
            let go = Arc::new(Signal::default());
            let (started, proceed) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
            let gone = Arc::clone(&go);
            let awaited = other.spawn(move || gone.wait());
            let (has_started, may_proceed) = (Arc::clone(&started), Arc::clone(&proceed));
            let waiting = scheduler.spawn(move || {
                has_started.raise();
                may_proceed.wait();
                awaited.await_result().unwrap();
            });
            started.wait();
            let reserved = use_up_address_space();
            let parks = || scheduler.stats().workers[0].parks;
            let before = parks();
            proceed.raise();
            while parks() == before {
                thread::yield_now();
            }
            // All workers wait, so this task needs a spare worker.
            assert!(catch_unwind(AssertUnwindSafe(|| drop(scheduler.spawn(|| ())))).is_err());
            drop(reserved);
            go.raise();
            waiting.await_result().unwrap();
            // Tasks still wake the worker when it sleeps.
            for n in 0..10 {
                let before = parks();
                assert_eq!(scheduler.run(|| n), n);
                while parks() == before {
                    thread::yield_now();
                }
            }
        },
    );
}
