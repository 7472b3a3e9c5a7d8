//! Runs that are dropped, and tasks that are aborted, leave all capacity whole.

use std::pin::pin;
use std::task::Poll;

use super::*;

/// Counts itself as long as it lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task that yields so often, and is counted as long as its body lives.
fn counted(
    key: String,
    yields: usize,
    alive: &Arc<AtomicUsize>,
) -> ScheduledTask<usize, (), &'static str> {
    let alive = Arc::clone(alive);
    ScheduledTask::streaming(key, move |progress| {
        let alive = Alive::new(&alive);
        async move {
            let _alive = alive;
            for n in 0..yields {
                progress.send(n).await;
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    })
    .cost(cpus(1 + u32::try_from(yields % 2).expect("0 or 1")))
}

#[tokio::test]
async fn dropping_the_stream_at_any_point_cancels_everything_and_gives_all_capacity_back() {
    for items in 0..40 {
        let (cluster, alive) = (ResourceCapacity::new(cpus(3)), Arc::new(AtomicUsize::new(0)));
        let source = PrioritySource::new();
        for n in 0..8 {
            source.enqueue(counted(n.to_string(), n, &alive), 1).expect("it is open");
        }
        let team = cluster.child(cpus(3));
        let mut run =
            Box::pin(TaskPoolRunner::new("dropped", &source, &team).run_tasks(OnError::Stop));
        for _ in 0..items {
            let mut next = pin!(run.next());
            if poll_once(&mut next).is_pending() {
                tokio::task::yield_now().await;
            }
        }
        drop(run);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "after {items} polls");
        assert_eq!((cluster.available(), source.len()), (cpus(3), 0), "after {items} polls");
        assert_eq!((cluster.metrics().waiting, cluster.metrics().in_flight), (0, 0));
    }
}

#[tokio::test]
async fn the_reservation_of_a_dropped_stream_is_free_for_others() {
    let capacity = ResourceCapacity::new(cpus(4));
    let held = capacity.try_acquire(cpus(2)).expect("everything is free");
    let source = source_of([takes("big", 1).cost(cpus(4))]);
    let mut run = Box::pin(run(&source, &capacity, OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    assert!(!capacity.can_acquire(cpus(1)), "it is set aside for the big one");
    drop(run);
    assert!(capacity.can_acquire(cpus(2)));
    drop(held);
}

#[tokio::test]
async fn a_dropped_stream_stops_its_closures_and_releases_when_they_have_returned() {
    let one = capacity(1);
    let began = Arc::new(std::sync::Barrier::new(2));
    let task = {
        let began = Arc::clone(&began);
        ScheduledTask::<(), (), Infallible>::cpu("loop", move || {
            began.wait();
            while !windlass::pool::cancelled() {
                std::hint::spin_loop();
            }
            Ok(())
        })
    };
    let source = PrioritySource::new();
    source.enqueue(task, 1).expect("it is open");
    let mut run = Box::pin(TaskPoolRunner::new("cpu", &source, &one).run_tasks(OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    began.wait();
    assert_eq!(one.available(), cost([("capacity", 0)]));
    let mut changes = one.subscribe();
    drop(run);
    while one.available() != cost([("capacity", 1)]) {
        changes.changed().await;
    }
    assert_eq!(one.metrics().in_flight, 0);
}

/// A closure for the CPU pool that must not run, and how many of its captures are alive.
fn unbegun() -> (ScheduledTask<(), (), Infallible>, Census) {
    let census = Census::default();
    let alive = census.one();
    let task = ScheduledTask::cpu("unbegun", move || {
        unreachable!("no worker is free, {}", Arc::strong_count(&alive));
    });
    (task, census)
}

#[tokio::test]
async fn a_dropped_stream_withdraws_closures_that_no_worker_has_begun() {
    let (one, busy, (task, census)) = (capacity(1), BusyPool::begin(), unbegun());
    let source = PrioritySource::new();
    source.enqueue(task, 1).expect("it is open");
    let mut run = Box::pin(TaskPoolRunner::new("cpu", &source, &one).run_tasks(OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    assert_eq!(one.available(), cost([("capacity", 0)]));
    drop((run, source));
    assert_eq!((one.available(), census.alive()), (cost([("capacity", 1)]), 0));
    drop(busy);
}

#[tokio::test]
async fn an_aborted_task_that_no_worker_has_begun_is_withdrawn() {
    let (one, busy, (task, census)) = (capacity(1), BusyPool::begin(), unbegun());
    let source = PrioritySource::new();
    let key = source.enqueue(task, 1).expect("it is open");
    source.close();
    let mut run = Box::pin(TaskPoolRunner::new("cpu", &source, &one).run_tasks(OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    assert_eq!(source.abort(key), Ok(vec![key]));
    assert_eq!(poll_once(&mut run.next()), Poll::Ready(None));
    assert_eq!((one.available(), census.alive()), (cost([("capacity", 1)]), 0));
    drop(busy);
}

#[tokio::test]
async fn a_task_that_is_aborted_while_it_runs_is_stopped() {
    let (one, alive) = (ResourceCapacity::new(cpus(1)), Arc::new(AtomicUsize::new(0)));
    let endless = {
        let alive = Arc::clone(&alive);
        ScheduledTask::<(), _, &str>::new("endless", move || {
            let alive = Alive::new(&alive);
            async move {
                let _alive = alive;
                std::future::pending::<()>().await;
                Ok("never")
            }
        })
    };
    let other = ScheduledTask::new("other", || async { Ok("done") });
    let source = PrioritySource::new();
    let key = source.enqueue(endless.cost(cpus(1)), 2).expect("it is open");
    source.enqueue(other.cost(cpus(1)), 1).expect("it is open");
    source.close();
    let mut run = Box::pin(TaskPoolRunner::new("abort", &source, &one).run_tasks(OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    assert_eq!(source.abort(key), Ok(vec![key]));
    let told: Vec<_> = run.map(|progress| progress.kind).collect().await;
    assert_eq!(told, [TaskProgressKind::Final("done")], "nothing is told of the aborted one");
    assert_eq!((alive.load(Ordering::Relaxed), one.available()), (0, cpus(1)));
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_that_ends_before_it_is_stopped_yields_nothing() {
    let (all, source) = (ResourceCapacity::new(cpus(40)), DependencySource::open());
    for key in 0..40 {
        let task = ScheduledTask::<(), _, Infallible>::new(key.to_string(), || async {
            tokio::task::yield_now().await;
            Ok(())
        });
        source.enqueue(key, task.cost(cpus(1)), &[]).expect("it is open");
    }
    source.close();
    let mut run = TaskPoolRunner::new("abort", &source, &all).run_tasks(OnError::Stop);
    assert!(run.next().await.is_some());
    let aborted = (0..40).filter(|key| source.abort(key).is_ok()).count();
    assert!(aborted > 0, "not all have been reported");
    assert_eq!(run.count().await, 40 - 1 - aborted);
    assert_eq!(all.available(), cpus(40));
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_that_fails_before_it_is_stopped_stops_no_other() {
    let (one, source) = (capacity(1), DependencySource::open());
    let fails = Task::new("fails", || async {
        sleep(Duration::from_millis(1)).await;
        Err("on purpose")
    });
    source.enqueue("fails", fails, &[]).expect("it is open");
    source.enqueue("other", takes("other", 1), &[]).expect("it is open");
    source.close();
    let mut run = TaskPoolRunner::new("abort", &source, &one).run_tasks(OnError::Stop);
    assert!(poll_once(&mut run.next()).is_pending());
    sleep(Duration::from_millis(2)).await;
    assert_eq!(source.abort(&"fails"), Ok(vec!["fails"]));
    assert_eq!(lines(run).await, ["other: done"]);
}

#[tokio::test]
async fn a_source_can_be_run_again() {
    let one = capacity(1);
    let source = Source::new();
    source.enqueue(fails("a"), 1).expect("it is open");
    let mut first = Box::pin(run(&source, &one, OnError::Stop));
    assert!(first.next().await.is_some() && first.next().await.is_none());
    source.enqueue(takes("b", 0), 1).expect("it is open");
    source.close();
    assert_eq!(lines(run(&source, &one, OnError::Stop)).await, ["b: done"]);
}
