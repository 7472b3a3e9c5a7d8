//! Acquiring and releasing without waiting, alone and against another thread.

use std::sync::Arc;
use std::thread;

use tokio::sync::Semaphore;
use windlass::{Amount, ResourceCapacity, ResourceCost};
use windlass_bench_report::{Report, Row, Run};

use crate::one_of;

const TIMES: u64 = 200_000;
const THREADS: u64 = 2;
const NAMES: [&str; 3] = ["cpu", "disk", "memory"];

pub(crate) fn run(report: &mut Report) {
    for (name, resources, depth) in [
        ("try_acquire + drop, 1 resource, depth 1", 1, 1),
        ("try_acquire + drop, 3 resources, depth 1", 3, 1),
        ("try_acquire + drop, 1 resource, depth 3", 1, 3),
        ("try_acquire + drop, 3 resources, depth 3", 3, 3),
    ] {
        let mut contenders = semaphores();
        contenders.push(("windlass", alone(&NAMES[..resources], depth)));
        report.measure(Row { name, operations: TIMES, expected: TIMES, contenders });
    }
    let semaphore = Arc::new(Semaphore::new(1000));
    let capacity = capacity(&NAMES[..1], 1);
    let contenders: Vec<(&'static str, Run<'_>)> = vec![
        ("tokio Semaphore", Box::new(move || two_threads(|| take_from(&semaphore)))),
        ("windlass", Box::new(move || two_threads(|| take(&capacity, &one_of(&NAMES[..1]))))),
    ];
    let name = "try_acquire + drop, 1 resource, two threads";
    report.measure(Row {
        name,
        operations: TIMES * THREADS,
        expected: TIMES * THREADS,
        contenders,
    });
}

fn semaphores() -> Vec<(&'static str, Run<'static>)> {
    let semaphore = Arc::new(Semaphore::new(1000));
    let owned = Arc::clone(&semaphore);
    vec![
        ("tokio Semaphore", Box::new(move || take_from(&semaphore))),
        ("tokio Semaphore, owned", Box::new(move || take_owned(&owned))),
    ]
}

fn alone(names: &[&str], depth: usize) -> Run<'static> {
    let (capacity, cost) = (capacity(names, depth), one_of(names));
    Box::new(move || take(&capacity, &cost))
}

/// Returns a capacity of a thousand of each resource, below `levels` levels of the same size.
fn capacity(names: &[&str], depth: usize) -> ResourceCapacity {
    let limits = names.iter().map(|name| ((*name).to_owned(), Amount::from(1000)));
    let limits: ResourceCost = limits.collect();
    (1..depth).fold(ResourceCapacity::new(&limits), |above, _| above.child(&limits))
}

fn take(capacity: &ResourceCapacity, cost: &ResourceCost) -> u64 {
    (0..TIMES).map(|_| u64::from(capacity.try_acquire(cost).is_ok())).sum()
}

fn take_from(semaphore: &Semaphore) -> u64 {
    (0..TIMES).map(|_| u64::from(semaphore.try_acquire().is_ok())).sum()
}

fn take_owned(semaphore: &Arc<Semaphore>) -> u64 {
    (0..TIMES).map(|_| u64::from(Arc::clone(semaphore).try_acquire_owned().is_ok())).sum()
}

fn two_threads(run: impl Fn() -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(&run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}
