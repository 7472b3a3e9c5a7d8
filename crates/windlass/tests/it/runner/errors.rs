//! Tasks that fail: what follows for other tasks and for the source, and when they are retried.

use std::task::Poll;

use windlass::core::NodeState;

use super::*;

/// a fails; b depends on it, c on b, and d on nothing.
fn chain_that_fails() -> DependencySource<&'static str, Task> {
    let mut graph = DependencyGraph::new();
    graph.add_node("a", []).expect("new");
    graph.add_node("b", ["a"]).expect("new");
    graph.add_node("c", ["b"]).expect("new");
    graph.add_node("d", []).expect("new");
    let tasks =
        [("a", fails("a")), ("b", takes("b", 1)), ("c", takes("c", 1)), ("d", takes("d", 5))];
    DependencySource::new(&graph, tasks).expect("every key has its task")
}

#[tokio::test(start_paused = true)]
async fn on_error_stop_cancels_the_rest_and_ends() {
    let (source, two) = (chain_that_fails(), capacity(2));
    let run = TaskPoolRunner::new("stop", &source, &two).run_tasks(OnError::Stop);
    assert_eq!(lines(run).await, ["a! on purpose"], "d was under way");
    assert_eq!(two.available(), cost([("capacity", 2)]));
    assert_eq!((source.len(), source.is_closed()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn on_error_stop_yields_the_values_sent_before() {
    let (sent, failing) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let sends = {
        let (sent, failing) = (Arc::clone(&sent), Arc::clone(&failing));
        Task::streaming("sends", move |progress| {
            let (sent, failing) = (Arc::clone(&sent), Arc::clone(&failing));
            async move {
                failing.notified().await;
                progress.send("the last value").await;
                sent.notify_one();
                std::future::pending().await
            }
        })
    };
    let fails = {
        let (sent, failing) = (Arc::clone(&sent), Arc::clone(&failing));
        Task::new("fails", move || {
            let (sent, failing) = (Arc::clone(&sent), Arc::clone(&failing));
            async move {
                failing.notify_one();
                sent.notified().await;
                Err("on purpose")
            }
        })
    };
    let told = lines(run(&source_of([sends, fails]), &capacity(2), OnError::Stop)).await;
    assert_eq!(told, ["sends the last value", "fails! on purpose"]);
}

#[tokio::test]
async fn on_error_stop_waits_for_closures_on_the_pool() {
    let (two, ended) = (capacity(2), Arc::new(AtomicU32::new(0)));
    let began = Arc::new(Notify::new());
    let computes = {
        let (ended, began) = (Arc::clone(&ended), Arc::clone(&began));
        Task::cpu("computes", move || {
            began.notify_one();
            while !windlass::pool::cancelled() {
                std::hint::spin_loop();
            }
            ended.fetch_add(1, Ordering::Relaxed);
            Ok("too late")
        })
    };
    let fails = Task::new("fails", move || {
        let began = Arc::clone(&began);
        async move {
            began.notified().await;
            Err("on purpose")
        }
    });
    let told = lines(run(&source_of([computes, fails]), &two, OnError::Stop)).await;
    assert_eq!(told, ["fails! on purpose"]);
    assert_eq!(ended.load(Ordering::Relaxed), 1, "it had ended before the stream did");
    assert_eq!(two.available(), cost([("capacity", 2)]));
}

#[tokio::test(start_paused = true)]
async fn on_error_continue_aborts_only_the_dependents_of_a_failed_task() {
    let source = chain_that_fails();
    let run = TaskPoolRunner::new("on", &source, &capacity(2)).run_tasks(OnError::Continue);
    assert_eq!(lines(run).await, ["a! on purpose", "d: done"]);
    for key in ["b", "c"] {
        assert_eq!(source.state(&key), Some(NodeState::Aborted), "{key}");
    }
}

#[test]
fn on_error_stops_by_default() {
    assert_eq!(OnError::default(), OnError::Stop);
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_can_never_fit_is_an_error_of_its_task_at_once() {
    let two = capacity(2);
    let huge = takes("huge", 1).cost(cost([("capacity", 3)]));
    let unknown = takes("unknown", 1).cost(cost([("capcity", 1)]));
    let source = source_of([takes("fine", 10), huge, unknown]);
    let told = lines(run(&source, &two, OnError::Continue)).await;
    assert_eq!(
        told,
        [
            "huge! requires 3 of \"capacity\", but the limit is 2",
            "unknown! unknown resource \"capcity\"; did you mean \"capacity\"?",
            "fine: done",
        ]
    );
    let source = Source::new();
    let mut later = Box::pin(run(&source, &two, OnError::Continue));
    assert!(poll_once(&mut later.next()).is_pending());
    source.enqueue(takes("huge", 1).cost(cost([("capacity", 3)])), 1).expect("it is open");
    let progress = later.next().await.expect("it is told");
    let TaskProgressKind::Error(TaskError::Impossible(error)) = progress.kind else {
        panic!("{progress:?}")
    };
    assert!(matches!(*error, ImpossibleCost::AboveLimit { .. }));
}

#[tokio::test(start_paused = true)]
async fn without_slots_every_task_is_an_error() {
    let none = ResourceCapacity::new(cost([("slots", 0)]));
    let told = lines(run(&source_of([takes("a", 1)]), &none, OnError::Continue)).await;
    assert_eq!(told, ["a! requires 1 of \"slots\", but the limit is 0"]);
    let source = Source::new();
    let mut later = Box::pin(run(&source, &none, OnError::Stop));
    source.enqueue(takes("b", 1), 1).expect("it is open");
    assert!(later.next().await.is_some() && later.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_dependents_of_a_task_that_can_never_fit_never_run() {
    let mut graph = DependencyGraph::new();
    graph.add_node("huge", []).expect("new");
    graph.add_node("after", ["huge"]).expect("new");
    let tasks =
        [("huge", takes("huge", 1).cost(cost([("capacity", 9)]))), ("after", takes("after", 1))];
    let source = DependencySource::new(&graph, tasks).expect("every key has its task");
    let run = TaskPoolRunner::new("never", &source, &capacity(2)).run_tasks(OnError::Continue);
    assert_eq!(lines(run).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_dependent_tasks_that_can_never_fit_only_the_first_is_an_error() {
    let mut graph = DependencyGraph::new();
    graph.add_node("huge", []).expect("new");
    graph.add_node("larger", ["huge"]).expect("new");
    let tasks = ["huge", "larger"].map(|key| (key, takes(key, 1).cost(cost([("capacity", 9)]))));
    let source = DependencySource::new(&graph, tasks).expect("every key has its task");
    let run = TaskPoolRunner::new("never", &source, &capacity(2)).run_tasks(OnError::Continue);
    let told = lines(run).await;
    assert_eq!(told, ["huge! requires 9 of \"capacity\", but the limit is 2"]);
}

/// One that can never fit, and one that fits.
fn huge_and_fine() -> DependencySource<&'static str, Task> {
    let source = DependencySource::open();
    let huge = takes("huge", 1).cost(cost([("capacity", 9)]));
    source.enqueue("huge", huge, &[]).expect("it is open");
    source.enqueue("fine", takes("fine", 1), &[]).expect("it is open");
    source.close();
    source
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_that_can_never_fit_delays_no_other() {
    let source = huge_and_fine();
    let runner = TaskPoolRunner::new("test", &source, &capacity(2));
    source.abort(&"huge").expect("it has not ended");
    assert_eq!(lines(runner.run_tasks(OnError::Stop)).await, ["fine: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_pulled_task_that_can_never_fit_is_left_to_its_puller() {
    let source = huge_and_fine();
    assert_eq!(source.pull().await.map(|(key, _)| key), Some("huge"));
    let mut run = TaskPoolRunner::new("test", &source, &capacity(2)).run_tasks(OnError::Stop);
    let told = run.next().await.expect("the other one is run");
    assert_eq!(told.kind, TaskProgressKind::Final("done"));
    assert!(poll_once(&mut run.next()).is_pending(), "the first has not been reported");
    source.complete(&"huge").expect("it is under way");
    assert_eq!(source.state(&"huge"), Some(NodeState::Completed));
    assert_eq!(run.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_pulled_task_that_can_never_fit_is_an_error_once_it_is_queued_again() {
    let source = huge_and_fine();
    assert_eq!(source.pull().await.map(|(key, _)| key), Some("huge"));
    let run = TaskPoolRunner::new("test", &source, &capacity(2)).run_tasks(OnError::Continue);
    source.fail(&"huge").expect("it is under way");
    let told = lines(run).await;
    let huge = "huge! requires 9 of \"capacity\", but the limit is 2";
    assert_eq!(told, [huge, "fine: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_task_starts_releases_its_resources() {
    let one = capacity(1);
    let broken = Task::new("broken", || -> std::future::Ready<_> { panic!("no paper") });
    let told = lines(run(&source_of([broken, takes("next", 1)]), &one, OnError::Continue)).await;
    assert_eq!(told, ["broken! the task panicked: no paper", "next: done"]);
    assert_eq!(one.available(), cost([("capacity", 1)]));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_task_is_its_error_and_is_not_retried() {
    let tries = Arc::new(AtomicU32::new(0));
    let broken = {
        let tries = Arc::clone(&tries);
        Task::new("broken", move || {
            tries.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::task::yield_now().await;
                panic!("out of ink")
            }
        })
    };
    let broken = broken.retry(RetryPolicy::fixed(Duration::from_secs(1)));
    let told = lines(run(&source_of([broken]), &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["broken! the task panicked: out of ink"]);
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}

/// Panics when it is dropped.
struct Brittle(&'static str);

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

/// A task whose future panics in its drop, after so many yields.
fn brittle(key: &'static str, yields: usize) -> Task {
    Task::new(key, move || {
        let (held, mut left) = (Brittle("it broke"), yields);
        std::future::poll_fn(move |context| {
            let _held = &held;
            if left == 0 {
                return Poll::Ready(Ok("done"));
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_drop_of_a_future_that_is_over_is_the_tasks_error() {
    for yields in [0, 2] {
        let one = capacity(1);
        let tasks = [brittle("brittle", yields), takes("next", 1)];
        let told = lines(run(&source_of(tasks), &one, OnError::Continue)).await;
        assert_eq!(told, ["brittle! the task panicked: it broke", "next: done"]);
        assert_eq!(one.available(), cost([("capacity", 1)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_drop_of_a_function_concerns_no_task() {
    let functions = || {
        let (start, hook) = (Brittle("the function broke"), Brittle("the hook broke"));
        let start = move || {
            let _start = &start;
            async { Ok("done") }
        };
        Task::new("brittle", start).on_complete(move |_, _| _ = &hook)
    };
    let computed = {
        let compute = Brittle("the closure broke");
        Task::cpu("computed", move || Ok(_ = &compute).map(|()| "done"))
    };
    let one = capacity(1);
    let tasks = [functions(), computed, takes("next", 1)];
    let told = lines(run(&source_of(tasks), &one, OnError::Stop)).await;
    assert_eq!(told, ["brittle: done", "computed: done", "next: done"]);
    assert_eq!(one.available(), cost([("capacity", 1)]));
    drop(functions());
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_drop_of_a_stopped_future_is_contained() {
    let two = capacity(2);
    let tasks = [brittle("brittle", usize::MAX), fails("fails")];
    let told = lines(run(&source_of(tasks), &two, OnError::Stop)).await;
    assert_eq!(told, ["fails! on purpose"]);
    assert_eq!(two.available(), cost([("capacity", 2)]));
}

/// Fails until its last attempt.
fn flaky(key: &'static str, failures: u32) -> Task {
    let tries = Arc::new(AtomicU32::new(0));
    Task::new(key, move || {
        let tried = tries.fetch_add(1, Ordering::Relaxed);
        async move { if tried < failures { Err("not yet") } else { Ok("at last") } }
    })
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_without_holding_capacity() {
    let policy = RetryPolicy::fixed(Duration::from_secs(10)).times(2);
    let source = source_of([flaky("flaky", 2).retry(policy), takes("other", 1000)]);
    let began = Instant::now();
    let told = lines(run(&source, &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["other: done", "flaky: at last"]);
    assert_eq!(began.elapsed(), Duration::from_secs(20), "nothing held up anything");
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_retries_are_used_up_is_aborted_with_its_dependents() {
    let mut graph = DependencyGraph::new();
    graph.add_node("flaky", []).expect("new");
    graph.add_node("after", ["flaky"]).expect("new");
    let policy = RetryPolicy::exponential(Duration::from_secs(1)).times(3);
    let tasks = [("flaky", flaky("flaky", 9).retry(policy)), ("after", takes("after", 1))];
    let source = DependencySource::new(&graph, tasks).expect("every key has its task");
    let began = Instant::now();
    let run = TaskPoolRunner::new("flaky", &source, &capacity(1)).run_tasks(OnError::Continue);
    assert_eq!(lines(run).await, ["flaky! not yet"], "told once, not for every try");
    assert_eq!(began.elapsed(), Duration::from_secs(1 + 2 + 4));
}

#[tokio::test(start_paused = true)]
async fn a_report_from_a_hook_is_refused_as_already_made() {
    let mut graph = DependencyGraph::new();
    graph.add_node("a", []).expect("new");
    graph.add_node("b", ["a"]).expect("new");
    let source = DependencySource::open();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let hooked = |task: Task, source: &DependencySource<&'static str, Task>| {
        let (completes, fails) = (source.clone(), source.clone());
        let (told, failed) = (Arc::clone(&answers), Arc::clone(&answers));
        let key: &'static str = if task.key() == "a" { "a" } else { "b" };
        task.on_complete(move |_, _| {
            told.lock().expect("no panic").push(completes.complete(&key));
        })
        .on_error(move |_, _| failed.lock().expect("no panic").push(fails.fail(&key)))
    };
    source.enqueue("a", hooked(takes("a", 1), &source), &[]).expect("it is open");
    source.enqueue("b", hooked(fails("b"), &source), &["a"]).expect("it is open");
    source.close();
    let run = TaskPoolRunner::new("hooks", &source, &capacity(1)).run_tasks(OnError::Continue);
    assert_eq!(lines(run).await, ["a: done", "b! on purpose"]);
    let reported = |key| Err(ReportError::AlreadyReported { key });
    assert_eq!(*answers.lock().expect("no panic"), [reported("a"), reported("b")]);
}

#[tokio::test(start_paused = true)]
async fn a_report_while_the_runner_has_the_task_is_refused() {
    let source = Source::new();
    let key = source.enqueue(takes("task", 10), 1).expect("it is open");
    let mut run = Box::pin(run(&source, &capacity(1), OnError::Stop));
    assert!(poll_once(&mut run.next()).is_pending());
    assert_eq!(source.complete(key), Err(ReportError::RunByRunner { key }));
    assert_eq!(source.fail(key), Err(ReportError::RunByRunner { key }));
    source.close();
    assert_eq!(lines(run).await, ["task: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_is_an_error_of_its_task() {
    let task = takes("task", 1).on_complete(|_, _| panic!("in the hook"));
    let told = lines(run(&source_of([task]), &capacity(1), OnError::Stop)).await;
    assert_eq!(told, ["task! the task panicked: in the hook"]);
}

#[tokio::test]
async fn a_panic_in_the_drop_of_an_aborted_task_keeps_no_waiter_from_its_capacity() {
    let (one, source) = (capacity(1), Source::new());
    let brittle = OnDrop(Some(|| panic!("it broke")));
    let task = Task::new("brittle", move || {
        let _brittle = &brittle;
        async { Ok("done") }
    });
    let key = source.enqueue(task, 1).expect("it is open");
    let _runner = TaskPoolRunner::new("test", &source, &one);
    drop(source.pull().await.expect("it is queued"));
    let mut waiter = Box::pin(one.acquire([("capacity", 1)]));
    assert!(poll_once(&mut waiter).is_pending(), "the pulled task has it");
    assert_eq!(source.abort(key), Ok(vec![key]));
    assert!(poll_once(&mut waiter).is_ready());
}
