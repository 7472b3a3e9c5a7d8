//! Stealing, the counters and the trace.

use std::{
    collections::HashMap,
    sync::Mutex,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use windlass_pool::{
    Scheduler, SchedulerConfig, Scope, TraceKind, WorkerStats, join, map, with_scope,
};

use crate::support::{Signal, amount, must_end, panic_of, without_stealing};

/// How many leaves each thread has run.
#[derive(Default)]
struct Leaves {
    by_thread: Mutex<HashMap<ThreadId, usize>>,
}

impl Leaves {
    fn run_one(&self) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {}
        *self.by_thread.lock().unwrap().entry(thread::current().id()).or_default() += 1;
    }

    fn shares(self) -> Vec<usize> {
        self.by_thread.into_inner().unwrap().into_values().collect()
    }
}

const LEAVES: usize = amount(5_000, 100);

/// Checks that two workers share the leaves, each with at least a quarter of them. The system may not
/// run one of the threads for a while, so one good round of many is enough.
fn check_shares(grow: impl Fn(&Scheduler, &Leaves)) {
    let scheduler = Scheduler::new(2);
    let mut rounds = Vec::new();
    for _ in 0..20 {
        let leaves = Leaves::default();
        grow(&scheduler, &leaves);
        let shares = leaves.shares();
        assert_eq!(shares.iter().sum::<usize>(), LEAVES);
        if cfg!(miri) || shares.len() == 2 && shares.iter().all(|&share| share >= LEAVES / 4) {
            return;
        }
        rounds.push(shares);
    }
    panic!("{rounds:?}");
}

#[test]
fn an_uneven_tree_of_tasks_is_shared_by_both_workers() {
    fn grow<'scope>(scope: &'scope Scope<'scope, '_>, count: usize, leaves: &'scope Leaves) {
        if count == 1 {
            return leaves.run_one();
        }
        let small = (count / 10).max(1);
        scope.spawn(move || grow(scope, small, leaves));
        scope.spawn(move || grow(scope, count - small, leaves));
    }
    check_shares(|scheduler, leaves| {
        with_scope(scheduler, |scope| grow(scope, LEAVES, leaves));
    });
}

#[test]
fn an_uneven_tree_of_joins_is_shared_by_both_workers() {
    fn grow(count: usize, leaves: &Leaves) {
        if count == 1 {
            return leaves.run_one();
        }
        let small = (count / 10).max(1);
        join(|| grow(small, leaves), || grow(count - small, leaves));
    }
    check_shares(|scheduler, leaves| scheduler.run(|| grow(LEAVES, leaves)));
}

#[test]
fn an_uneven_map_is_shared_by_both_workers() {
    check_shares(|scheduler, leaves| {
        // Only the first tenth of the items takes time.
        scheduler.run(|| {
            map(0..LEAVES * 10, |item| {
                if item < LEAVES {
                    leaves.run_one();
                }
            });
        });
    });
}

#[test]
fn an_idle_worker_steals_from_a_busy_one() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let stolen = Signal::default();
        with_scope(&scheduler, |scope| {
            let stolen = &stolen;
            scope.spawn(move || {
                scope.spawn(|| stolen.raise());
                stolen.wait();
            });
        });
        assert!(scheduler.stats().total().steals >= 1);
    });
}

#[test]
fn without_stealing_a_task_stays_with_the_worker_that_spawned_it() {
    let scheduler = without_stealing(2);
    with_scope(&scheduler, |scope| {
        let parent = scope.spawn(move || {
            let own = thread::current().id();
            let tasks: Vec<_> =
                (0..amount(100, 5)).map(|_| scope.spawn(|| thread::current().id())).collect();
            tasks.into_iter().all(|task| task.await_result().unwrap() == own)
        });
        assert!(parent.await_result().unwrap());
    });
    assert_eq!(scheduler.stats().total().steals, 0);
}

#[test]
fn a_task_that_does_not_fit_a_local_queue_runs_on_another_worker() {
    must_end(|| {
        let defaults = SchedulerConfig::default();
        let scheduler = Scheduler::with_config(SchedulerConfig {
            worker_count: 2,
            local_queue_size: 1,
            enable_stealing: false,
            ..defaults
        });
        let seen = Signal::default();
        with_scope(&scheduler, |scope| {
            let seen = &seen;
            scope.spawn(move || {
                scope.spawn(|| ()); // stays in the local queue
                scope.spawn(|| seen.raise()); // does not fit, so the other worker runs it
                seen.wait();
            });
        });
    });
}

#[test]
fn the_counters_of_workers_and_other_threads_add_up() {
    const TASKS: u64 = amount(1000, 20) as u64;
    let scheduler = Scheduler::new(2);
    with_scope(&scheduler, |scope| {
        for _ in 0..TASKS {
            scope.spawn(move || {
                scope.spawn(|| ());
            });
        }
    });
    let stats = scheduler.stats();
    let WorkerStats { spawned, completed, cancelled, panicked, .. } = stats.total();
    assert_eq!((spawned, completed, cancelled, panicked), (2 * TASKS, 2 * TASKS, 0, 0));
    assert_eq!(stats.others.spawned, TASKS, "the body ran outside the pool");
    let by_workers: u64 = stats.workers.iter().map(|worker| worker.spawned).sum();
    assert_eq!(by_workers, TASKS);
    assert_eq!(stats.others.completed, 0, "tasks run on workers");
}

#[test]
fn the_trace_has_every_task_from_its_spawn_to_its_end() {
    static EVENTS: Mutex<Vec<TraceKind>> = Mutex::new(Vec::new());
    let config = SchedulerConfig { worker_count: 1, ..SchedulerConfig::default() };
    let scheduler = Scheduler::with_trace(config, |event| EVENTS.lock().unwrap().push(event.kind));
    with_scope(&scheduler, |scope| {
        scope.spawn(|| ());
    });
    drop(scheduler);
    let events = EVENTS.lock().unwrap();
    let of_tasks: Vec<_> = events
        .iter()
        .filter(|kind| !matches!(kind, TraceKind::Parked | TraceKind::Woken))
        .collect();
    match of_tasks[..] {
        [TraceKind::Spawned(a), TraceKind::Started(b), TraceKind::Completed(c)] => {
            assert!(a == b && b == c);
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn the_trace_has_the_end_of_a_task_that_is_spawned_in_a_cancelled_scope() {
    static EVENTS: Mutex<Vec<TraceKind>> = Mutex::new(Vec::new());
    let config = SchedulerConfig { worker_count: 1, ..SchedulerConfig::default() };
    let scheduler = Scheduler::with_trace(config, |event| EVENTS.lock().unwrap().push(event.kind));
    with_scope(&scheduler, |scope| {
        scope.cancel();
        scope.spawn(|| unreachable!("the scope is cancelled"));
    });
    drop(scheduler);
    let events = EVENTS.lock().unwrap();
    let of_tasks: Vec<_> = events
        .iter()
        .filter(|kind| !matches!(kind, TraceKind::Parked | TraceKind::Woken))
        .collect();
    match of_tasks[..] {
        [TraceKind::Spawned(a), TraceKind::Started(b), TraceKind::Cancelled(c)] => {
            assert!(a == b && b == c);
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_in_the_trace_hook_changes_nothing() {
    let config = SchedulerConfig { worker_count: 2, ..SchedulerConfig::default() };
    let scheduler = Scheduler::with_trace(config, |event| panic!("in the hook: {:?}", event.kind));
    let sum = with_scope(&scheduler, |scope| {
        let tasks = [1, 2, 3].map(|n| scope.spawn(move || n));
        tasks.into_iter().map(|task| task.await_result().expect("it returns")).sum::<i32>()
    });
    assert_eq!(sum, 6);
}

#[test]
fn a_scheduler_with_more_workers_than_the_maximum_panics() {
    let message = panic_of(|| Scheduler::new(70_000));
    assert_eq!(message, "worker_count is 70000, but the maximum is 32767");
}
