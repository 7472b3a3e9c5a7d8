//! The task pool runner: what starts, what the stream yields, and what is left when it ends or is dropped.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use windlass::core::DependencyGraph;
use windlass::{
    DependencySource, ImpossibleCost, OnError, PrioritySource, ReportError, ResourceCapacity,
    ResourceCost, RetryPolicy, ScheduledTask, TaskError, TaskPoolRunner, TaskProgress,
    TaskProgressKind, TaskYield, WorkScheduler, work_fn,
};

use crate::support::{BusyPool, Census, OnDrop, cost, cpus, poll_once, settle};

mod dropped;
mod errors;
mod random;
mod shared;

type Task = ScheduledTask<&'static str, &'static str, &'static str>;
type Source = PrioritySource<Task>;

/// A task that returns "done" after so many milliseconds.
fn takes(key: &'static str, millis: u64) -> Task {
    Task::new(key, move || async move {
        sleep(Duration::from_millis(millis)).await;
        Ok("done")
    })
}

fn fails(key: &'static str) -> Task {
    Task::new(key, || async { Err("on purpose") })
}

fn source_of(tasks: impl IntoIterator<Item = Task>) -> Source {
    let source = Source::new();
    for task in tasks {
        source.enqueue(task, 1).expect("it is open");
    }
    source.close();
    source
}

fn capacity(n: u32) -> ResourceCapacity {
    ResourceCapacity::new(cost([("capacity", n)]))
}

/// Returns what a run yields, as lines.
async fn lines(
    run: impl Stream<Item = TaskProgress<&'static str, &'static str, &'static str>>,
) -> Vec<String> {
    let line = |progress: TaskProgress<_, _, _>| match progress.kind {
        TaskProgressKind::Intermediate(value) => format!("{} {value}", progress.key),
        TaskProgressKind::Final(value) => format!("{}: {value}", progress.key),
        TaskProgressKind::Error(error) => format!("{}! {error}", progress.key),
    };
    run.map(line).collect().await
}

fn run(
    source: &Source,
    capacity: &ResourceCapacity,
    on_error: OnError,
) -> impl Stream<Item = TaskProgress<&'static str, &'static str, &'static str>> + use<> {
    TaskPoolRunner::new("test", source, capacity).run_tasks(on_error)
}

#[tokio::test(start_paused = true)]
async fn no_more_tasks_run_at_once_than_fit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = (0..20).map(|n: u32| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        ScheduledTask::<(), _, Infallible>::new(n.to_string(), move || {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(n)
            }
        })
    });
    let (source, four) = (PrioritySource::new(), capacity(4));
    tasks.for_each(|task| _ = source.enqueue(task, 1).expect("it is open"));
    source.close();
    let began = Instant::now();
    let run = TaskPoolRunner::new("four", &source, &four).run_tasks(OnError::Stop);
    let finals = run.filter_map(|progress| async move {
        let TaskProgressKind::Final(n) = progress.kind else { return None };
        Some(n)
    });
    assert_eq!(finals.collect::<Vec<_>>().await, (0..20).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::Relaxed), 4);
    assert_eq!(began.elapsed(), Duration::from_millis(50), "five rounds of four");
    assert_eq!(four.available(), cost([("capacity", 4)]));
}

type Number = ScheduledTask<(), usize, Infallible>;

fn number(n: usize) -> Number {
    Number::new(n.to_string(), move || async move { Ok(n) })
}

/// A task that yields 0 once it is notified.
fn notified(notify: &Arc<Notify>) -> Number {
    let notify = Arc::clone(notify);
    Number::new("waits", move || {
        let notify = Arc::clone(&notify);
        async move {
            notify.notified().await;
            Ok(0)
        }
    })
}

#[tokio::test]
async fn tasks_that_end_at_once_do_not_starve_tasks_under_way() {
    let notify = Arc::new(Notify::new());
    let wakes = Arc::clone(&notify);
    let waker = Number::new("wakes", move || {
        wakes.notify_one();
        async { Ok(1) }
    });
    let tasks = [notified(&notify), waker].into_iter().chain((2..5000).map(number));
    let tasks = stream::iter(tasks.collect::<Vec<_>>());
    let room = capacity(64);
    let run = TaskPoolRunner::from_stream("test", tasks, &room).run_tasks(OnError::Stop);
    let keys: Vec<_> = run.map(|progress| progress.key).collect().await;
    assert_eq!(keys.len(), 5000);
    let place = keys.iter().position(|key| &**key == "waits").expect("it ends");
    assert!(place < 200, "it was heard as number {place}");
    assert_eq!(room.available(), cost([("capacity", 64)]));
}

#[tokio::test]
async fn tasks_under_way_do_not_starve_tasks_that_end_at_once() {
    let stop = Arc::new(AtomicU32::new(0));
    let stops = Arc::clone(&stop);
    let endless = ScheduledTask::streaming("endless", move |progress| {
        let stops = Arc::clone(&stops);
        async move {
            while stops.load(Ordering::Relaxed) < 500 {
                progress.send(()).await;
            }
            Ok::<_, Infallible>(0)
        }
    });
    let counts = (0..500).map(|n: usize| {
        let stop = Arc::clone(&stop);
        Number::new(n.to_string(), move || {
            stop.fetch_add(1, Ordering::Relaxed);
            async move { Ok(n) }
        })
    });
    let tasks = stream::iter([endless].into_iter().chain(counts).collect::<Vec<_>>());
    let run = TaskPoolRunner::from_stream("test", tasks, &capacity(4)).run_tasks(OnError::Stop);
    let finals = run
        .filter(|progress| std::future::ready(matches!(progress.kind, TaskProgressKind::Final(_))));
    assert_eq!(finals.count().await, 501);
}

#[tokio::test]
async fn results_come_in_the_order_of_the_ends_also_with_hooks_and_failures() {
    let hooked = || takes_no_time("hooked").on_complete(|_, _| {});
    let plain = || takes_no_time("plain");
    let tasks = [plain(), hooked(), plain(), fails("bad"), plain(), hooked(), plain()];
    let told = lines(run(&source_of(tasks), &capacity(64), OnError::Continue)).await;
    let keys: Vec<_> = told.iter().map(|line| line.split([':', '!']).next()).collect();
    let expected = ["plain", "hooked", "plain", "bad", "plain", "hooked", "plain"];
    assert_eq!(keys, expected.map(Some));
}

fn takes_no_time(key: &'static str) -> Task {
    Task::new(key, || async { Ok("done") })
}

#[tokio::test]
async fn dropping_the_stream_releases_tasks_that_were_started_but_not_polled() {
    let (room, begun) = (capacity(100), Arc::new(AtomicUsize::new(0)));
    let tasks = (0..100).map(|n: usize| {
        let begun = Arc::clone(&begun);
        Number::new(n.to_string(), move || {
            begun.fetch_add(1, Ordering::Relaxed);
            async move { Ok(n) }
        })
    });
    let source = PrioritySource::new();
    tasks.for_each(|task| _ = source.enqueue(task, 1).expect("it is open"));
    let mut run = Box::pin(TaskPoolRunner::new("test", &source, &room).run_tasks(OnError::Stop));
    assert!(run.next().await.is_some());
    let before = begun.load(Ordering::Relaxed);
    assert!(before < 100, "not all of them were polled: {before}");
    assert_eq!(room.metrics().accepted, 100, "all of them have started");
    drop(run);
    assert_eq!(begun.load(Ordering::Relaxed), before, "nothing begins any more");
    assert_eq!(room.available(), cost([("capacity", 100)]));
    assert!(source.is_empty() && room.metrics().in_flight == 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_retried_more_than_once() {
    let attempts = Arc::new(AtomicU32::new(0));
    let tries = Arc::clone(&attempts);
    let flaky = Task::new("flaky", move || {
        let attempt = tries.fetch_add(1, Ordering::Relaxed);
        async move { if attempt < 2 { Err("not yet") } else { Ok("done") } }
    });
    let flaky = flaky.retry(RetryPolicy::fixed(Duration::from_millis(1)).times(3));
    let tasks = stream::iter([takes_no_time("a"), flaky, takes_no_time("b")]);
    let room = capacity(2);
    let run = TaskPoolRunner::from_stream("test", tasks, &room).run_tasks(OnError::Stop);
    let mut told = lines(run).await;
    told.sort();
    assert_eq!(told, ["a: done", "b: done", "flaky: done"]);
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
    assert_eq!(room.available(), cost([("capacity", 2)]));
}

#[tokio::test(start_paused = true)]
async fn the_most_urgent_starts_first() {
    let source = Source::new();
    for (key, priority) in [("low", 1), ("high", 9), ("middle", 5)] {
        source.enqueue(takes(key, 1), priority).expect("it is open");
    }
    source.close();
    let told = lines(run(&source, &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["high: done", "middle: done", "low: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_fit_is_passed_by_others_that_do() {
    let capacity = ResourceCapacity::new(cost([("cpu", 2), ("gpu", 1)]));
    let gpu = |task: Task| task.cost(cost([("gpu", 1)]));
    let source = source_of([
        gpu(takes("gpu-1", 30)),
        gpu(takes("gpu-2", 30)),
        takes("cpu-1", 10).cost(cpus(1)),
        takes("cpu-2", 20).cost(cpus(1)),
    ]);
    let told = lines(run(&source, &capacity, OnError::Stop)).await;
    assert_eq!(told, ["cpu-1: done", "cpu-2: done", "gpu-1: done", "gpu-2: done"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_first_task_in_the_queue_lacks_is_reserved_for_it() {
    let capacity = ResourceCapacity::new(cpus(4));
    let source = source_of([
        takes("running", 10).cost(cpus(1)),
        takes("big", 10).cost(cpus(4)),
        takes("small", 10).cost(cpus(1)),
    ]);
    let told = lines(run(&source, &capacity, OnError::Stop)).await;
    assert_eq!(told, ["running: done", "big: done", "small: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_runner_starts_dependents_when_their_dependencies_succeed() {
    let mut graph = DependencyGraph::new();
    graph.add_node("download", []).expect("new");
    graph.add_node("extract", ["download"]).expect("new");
    graph.add_node("index", ["extract"]).expect("new");
    let tasks = [
        ("download", takes("download", 5).cost(cost([("capacity", 1), ("network", 1)]))),
        ("extract", takes("extract", 5).cost(cost([("capacity", 1), ("memory_gb", 8)]))),
        ("index", takes("index", 5).cost(cost([("capacity", 1), ("cpu", 4)]))),
    ];
    let source = DependencySource::new(&graph, tasks).expect("every key has its task");
    let capacity = ResourceCapacity::new(cost([
        ("capacity", 4),
        ("network", 2),
        ("memory_gb", 32),
        ("cpu", 8),
    ]));
    let runner = TaskPoolRunner::new("etl-pipeline", &source, &capacity);
    let told = lines(runner.run_tasks(OnError::Stop)).await;
    assert_eq!(told, ["download: done", "extract: done", "index: done"]);
}

#[tokio::test]
async fn intermediate_values_are_neither_lost_nor_reordered() {
    let counts = |key: String| {
        ScheduledTask::streaming(key, |progress| async move {
            for n in 0..100u32 {
                progress.send(n).await;
                if n % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Ok::<_, Infallible>(100)
        })
    };
    let tasks = stream::iter((0..5).map(move |n| counts(n.to_string())));
    let mut run =
        TaskPoolRunner::from_stream("counts", tasks, &capacity(3)).run_tasks(OnError::Stop);
    let mut next = std::collections::BTreeMap::<Arc<str>, u32>::new();
    while let Some(TaskProgress { key, kind, .. }) = run.next().await {
        let expected = next.entry(key).or_default();
        let (TaskProgressKind::Intermediate(n) | TaskProgressKind::Final(n)) = kind else {
            panic!("nothing fails")
        };
        assert_eq!(n, *expected);
        *expected += 1;
    }
    assert!(next.len() == 5 && next.values().all(|seen| *seen == 101), "{next:?}");
}

#[tokio::test]
async fn a_slow_consumer_slows_the_producers() {
    let sent = Arc::new(AtomicU32::new(0));
    let task = {
        let sent = Arc::clone(&sent);
        ScheduledTask::streaming("fast", move |progress| {
            let sent = Arc::clone(&sent);
            async move {
                for n in 0..1000u32 {
                    progress.send(n).await;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, Infallible>(())
            }
        })
    };
    let source = PrioritySource::new();
    source.enqueue(task, 1).expect("it is open");
    source.close();
    let mut run = TaskPoolRunner::new("slow", &source, &capacity(1)).run_tasks(OnError::Stop);
    for taken in 1..=10 {
        run.next().await;
        assert!(sent.load(Ordering::Relaxed) <= taken + 2, "it is at most a little ahead");
    }
    assert_eq!(run.count().await, 991, "the other 990, and the end");
}

#[tokio::test]
async fn a_task_may_be_a_stream_with_a_final_value() {
    let items =
        [TaskYield::Intermediate("one"), TaskYield::Intermediate("two"), TaskYield::Final("all")];
    let whole = Task::from_stream("whole", move || stream::iter(items.map(Ok)));
    let endless = Task::from_stream("torn", move || stream::iter(items[..1].to_vec()).map(Ok));
    let told = lines(run(&source_of([whole]), &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["whole one", "whole two", "whole: all"]);
    let told = lines(run(&source_of([endless]), &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["torn one", "torn! the task's stream ended without a final value"]);
}

#[tokio::test]
async fn a_task_may_compute_on_the_cpu_pool() {
    let sum = ScheduledTask::<(), _, &str>::cpu("sum", || Ok((1..=100).sum::<u32>()));
    let broken = ScheduledTask::cpu("broken", || panic!("out of ink"));
    let tasks = stream::iter([sum, broken]);
    let run = TaskPoolRunner::from_stream("cpu", tasks, &capacity(1)).run_tasks(OnError::Continue);
    let told: Vec<_> = run.map(|progress| progress.kind).collect().await;
    let message = "out of ink".to_owned();
    let expected =
        [TaskProgressKind::Final(5050), TaskProgressKind::Error(TaskError::Panicked { message })];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn tasks_can_be_added_while_others_run() {
    let source = Source::new();
    source.enqueue(takes("first", 10), 1).expect("it is open");
    let mut run = Box::pin(run(&source, &capacity(2), OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    let add = async {
        sleep(Duration::from_millis(5)).await;
        source.enqueue(takes("second", 1), 1).expect("it is open");
        sleep(Duration::from_millis(50)).await;
        source.close();
    };
    let (told, ()) = tokio::join!(lines(run), add);
    assert_eq!(told, ["second: done", "first: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_always_ready_does_not_keep_others_from_starting() {
    let source = Source::new();
    let stop = Arc::new(Notify::new());
    let endless = Task::streaming("endless", {
        let stop = Arc::clone(&stop);
        move |progress| {
            let stop = Arc::clone(&stop);
            async move {
                let mut stopped = Box::pin(stop.notified());
                while poll_once(&mut stopped).is_pending() {
                    progress.send("again").await;
                }
                Ok("stopped")
            }
        }
    });
    source.enqueue(endless, 1).expect("it is open");
    let mut run = Box::pin(run(&source, &capacity(2), OnError::Stop));
    run.next().await;
    source.enqueue(takes("other", 0), 1).expect("it is open");
    source.close();
    let mut told = 0;
    while let Some(progress) = run.next().await {
        told += 1;
        assert!(told < 1000, "it starves");
        if &*progress.key == "other" {
            stop.notify_one();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_tasks_is_read_ahead_up_to_its_look_ahead() {
    let read = Arc::new(AtomicUsize::new(0));
    let tasks = {
        let read = Arc::clone(&read);
        stream::iter(0..1000).map(move |_| {
            read.fetch_add(1, Ordering::Relaxed);
            takes("task", 10)
        })
    };
    let runner = TaskPoolRunner::from_stream("ahead", tasks, &capacity(2)).look_ahead(5);
    let mut run = Box::pin(runner.run_tasks(OnError::Stop));
    run.next().await;
    assert!(read.load(Ordering::Relaxed) <= 2 * 2 + 5, "{read:?}");
    assert_eq!(run.count().await, 999);
}

#[tokio::test(start_paused = true)]
async fn a_task_read_ahead_may_pass_one_that_does_not_fit() {
    let capacity = ResourceCapacity::new(cost([("cpu", 1), ("gpu", 1)]));
    let tasks = stream::iter([
        takes("gpu-1", 30).cost(cost([("gpu", 1)])),
        takes("gpu-2", 10).cost(cost([("gpu", 1)])),
        takes("cpu-1", 10).cost(cpus(1)),
    ]);
    let run = TaskPoolRunner::from_stream("mixed", tasks, &capacity).run_tasks(OnError::Stop);
    assert_eq!(lines(run).await, ["cpu-1: done", "gpu-1: done", "gpu-2: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_cost_takes_one_of_capacity_where_that_is_declared() {
    let counted = capacity(1);
    let began = Instant::now();
    lines(run(&source_of([takes("a", 10), takes("b", 10)]), &counted, OnError::Stop)).await;
    assert_eq!(began.elapsed(), Duration::from_millis(20), "one after the other");
    let free = ResourceCapacity::new(cpus(1));
    let began = Instant::now();
    lines(run(&source_of([takes("a", 10), takes("b", 10)]), &free, OnError::Stop)).await;
    assert_eq!(began.elapsed(), Duration::from_millis(10), "a retry takes nothing of the rate");
}

#[tokio::test(start_paused = true)]
async fn tasks_age_from_when_they_were_added_to_the_source() {
    let ageing = windlass::Ageing::new("0.01".parse().expect("an amount"), Some(5.into()));
    let source = Source::with_ageing(ageing.expect("slow enough"));
    source.enqueue(takes("background", 1), 1).expect("it is open");
    sleep(Duration::from_millis(500)).await;
    source.enqueue(takes("fresh", 1), 5).expect("it is open");
    source.close();
    // The capacity, with its clock, is younger than either.
    let told = lines(run(&source, &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["background: done", "fresh: done"], "6 against 5");
}

#[tokio::test(start_paused = true)]
async fn a_rate_paces_the_starts() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    let rate = windlass::Rate { amount: 10.into(), per: Duration::from_secs(1), burst: 1.into() };
    capacity.set_rate("calls", rate).expect("it makes sense");
    let call = |key| takes(key, 0).cost(cost([("calls", 1)]));
    let began = Instant::now();
    let told = lines(run(&source_of([call("a"), call("b"), call("c")]), &capacity, OnError::Stop));
    assert_eq!(told.await, ["a: done", "b: done", "c: done"]);
    assert_eq!(began.elapsed(), Duration::from_millis(200));
}
