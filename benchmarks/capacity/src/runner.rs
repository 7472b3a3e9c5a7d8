//! A hundred thousand no-op tasks, at most 64 at a time.

use std::convert::Infallible;

use futures::{StreamExt, stream};
use tokio::runtime::Builder;
use windlass::{
    Amount, OnError, PrioritySource, ResourceCapacity, ResourceCost, ScheduledTask, TaskPoolRunner,
    TaskProgressKind,
};
use windlass_bench_report::{Report, Row, Run};

const TASKS: u64 = 100_000;
const AT_ONCE: u32 = 64;

type Task = ScheduledTask<(), u64, Infallible>;

pub(crate) fn run(report: &mut Report) {
    let contenders: Vec<(&'static str, Run<'_>)> = vec![
        ("buffer_unordered", Box::new(|| block_on(buffer_unordered()))),
        ("buffer_unordered, boxed, keyed", Box::new(|| block_on(boxed()))),
        ("windlass, stream", Box::new(|| block_on(from_stream()))),
        ("windlass, PrioritySource", Box::new(|| block_on(from_source()))),
    ];
    let name = "runner, 100k no-op tasks";
    report.measure(Row { name, operations: TASKS, expected: TASKS * (TASKS - 1) / 2, contenders });
}

fn block_on(run: impl Future<Output = u64>) -> u64 {
    Builder::new_current_thread().build().expect("a runtime").block_on(run)
}

async fn buffer_unordered() -> u64 {
    let tasks = stream::iter(0..TASKS).map(|n| async move { n });
    tasks.buffer_unordered(AT_ONCE as usize).fold(0, |sum, n| async move { sum + n }).await
}

/// Tokio with what any runner of named tasks needs: a name, and a boxed future.
async fn boxed() -> u64 {
    let tasks = stream::iter(0..TASKS).map(|n| {
        let key: std::sync::Arc<str> = n.to_string().into();
        Box::pin(async move { (key, n) }) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    });
    tasks.buffer_unordered(AT_ONCE as usize).fold(0, |sum, (_, n)| async move { sum + n }).await
}

fn task(n: u64) -> Task {
    Task::new(n.to_string(), move || async move { Ok(n) })
}

fn capacity() -> ResourceCapacity {
    ResourceCapacity::new(ResourceCost::new().with("capacity", Amount::from(AT_ONCE)))
}

async fn from_stream() -> u64 {
    let tasks = stream::iter((0..TASKS).map(task));
    sum(TaskPoolRunner::from_stream("bench", tasks, &capacity())).await
}

async fn from_source() -> u64 {
    let source = PrioritySource::new();
    let runner = TaskPoolRunner::new("bench", &source, &capacity());
    for n in 0..TASKS {
        source.enqueue(task(n), 1).expect("it is open");
    }
    source.close();
    sum(runner).await
}

async fn sum(runner: TaskPoolRunner<(), u64, Infallible>) -> u64 {
    let run = runner.run_tasks(OnError::Stop);
    run.fold(0, |sum, progress| async move {
        match progress.kind {
            TaskProgressKind::Final(n) => sum + n,
            _ => panic!("every task returns a number"),
        }
    })
    .await
}
