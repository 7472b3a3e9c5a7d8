//! The threads of an idle pool and of a dropped one.
#![cfg(all(target_os = "linux", not(miri)))]

use std::{
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use windlass_pool::{Scheduler, join, with_deadline_on, with_scope};

use crate::support::TIMEOUT;

/// Returns how many of these threads exist.
fn count_alive(tids: &[u64]) -> usize {
    tids.iter().filter(|tid| fs::exists(format!("/proc/self/task/{tid}")).unwrap()).count()
}

/// Returns the calling thread's id in the system.
fn tid() -> u64 {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Returns how many clock ticks a thread has used, and its number of voluntary context switches.
fn usage(tid: u64) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let switches = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
    (ticks, switches.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// Returns the threads of all workers. Each worker holds one task until all have one.
fn worker_tids(scheduler: &Scheduler) -> Vec<u64> {
    let barrier = std::sync::Barrier::new(scheduler.worker_count());
    with_scope(scheduler, |scope| {
        let tasks: Vec<_> = (0..scheduler.worker_count())
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    tid()
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.await_result().unwrap()).collect()
    })
}

#[test]
fn an_idle_pool_uses_no_processor_time() {
    let scheduler = Scheduler::new(3);
    with_deadline_on(&scheduler, Duration::from_secs(60), |_| ()); // starts the timer too
    wait_until_asleep(&worker_tids(&scheduler));
}

#[test]
fn idle_workers_use_no_processor_time_while_another_runs_a_join() {
    let scheduler = Scheduler::new(3);
    let tids = worker_tids(&scheduler);
    let ((go, gone), (right, right_was)) = (mpsc::channel(), mpsc::channel());
    with_scope(&scheduler, |scope| {
        scope.spawn(move || {
            let left = move || gone.recv().unwrap();
            // Another worker runs the right closure while the left one blocks.
            join(left, move || right.send(()).unwrap());
        });
        right_was.recv().unwrap();
        wait_until_asleep(&tids);
        go.send(()).unwrap();
    });
}

/// Waits until the threads sleep and stay asleep for a while.
fn wait_until_asleep(tids: &[u64]) {
    let start = Instant::now();
    let usages = || tids.iter().map(|&tid| usage(tid)).collect::<Vec<_>>();
    // Workers search for microseconds before they sleep, which takes longer on a loaded machine.
    loop {
        let before = usages();
        thread::sleep(Duration::from_millis(300));
        if usages() == before {
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "the workers never sleep");
    }
}

#[test]
fn a_dropped_pool_leaves_no_thread_behind() {
    let scheduler = Scheduler::new(3);
    with_deadline_on(&scheduler, Duration::from_secs(60), |_| ());
    let tids = worker_tids(&scheduler);
    assert_eq!(count_alive(&tids), 3);
    drop(scheduler);
    assert_eq!(count_alive(&tids), 0);
}
