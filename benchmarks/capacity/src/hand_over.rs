//! Waiting for one permit: many tasks on one thread hand it from one to the next.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass::ResourceCapacity;
use windlass_bench_report::{Report, Row, Run};

use crate::one_of;

const TURNS: u64 = 100_000;

pub(crate) fn run(report: &mut Report) {
    for (name, tasks) in
        [("acquire hand-over, 2 tasks", 2), ("acquire hand-over, 1000 tasks", 1000)]
    {
        let contenders: Vec<(&'static str, Run<'_>)> = vec![
            ("tokio Semaphore", Box::new(move || semaphore(&runtime(), tasks))),
            ("windlass", Box::new(move || capacity(&runtime(), tasks))),
        ];
        report.measure(Row { name, operations: TURNS, expected: TURNS, contenders });
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

fn semaphore(runtime: &Runtime, tasks: u64) -> u64 {
    let semaphore = Arc::new(Semaphore::new(1));
    runtime.block_on(turns(tasks, move || {
        let semaphore = Arc::clone(&semaphore);
        async move {
            let _permit = semaphore.acquire().await.expect("the semaphore is never closed");
            tokio::task::yield_now().await;
        }
    }))
}

fn capacity(runtime: &Runtime, tasks: u64) -> u64 {
    let (capacity, cost) = (ResourceCapacity::new(one_of(&["cpu"])), Arc::new(one_of(&["cpu"])));
    runtime.block_on(turns(tasks, move || {
        let (capacity, cost) = (capacity.clone(), Arc::clone(&cost));
        async move {
            let _permit = capacity.acquire(&*cost).await.expect("it can be had");
            tokio::task::yield_now().await;
        }
    }))
}

/// Has each task acquire the permit again and again.
async fn turns<Fut: Future<Output = ()> + Send>(
    tasks: u64,
    turn: impl Fn() -> Fut + Clone + Send + 'static,
) -> u64 {
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        let turn = turn.clone();
        set.spawn(async move {
            for _ in 0..TURNS / tasks {
                turn().await;
            }
            TURNS / tasks
        });
    }
    set.join_all().await.into_iter().sum()
}
