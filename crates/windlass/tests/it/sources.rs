//! Sources: the order of their tasks, reports about them, and their end.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::advance;
use windlass::core::{DependencyGraph, NodeState};
use windlass::{
    Ageing, Amount, DependencySource, EnqueueError, PriorityDependencyOptions,
    PriorityDependencySource, PrioritySource, ReportError, SourceClosed, SourceError,
};

use crate::support::{Log, OnDrop, poll_once, processor_time, settle, within};

mod random;

type Graph = DependencyGraph<&'static str>;

/// Keys after others, in this order.
fn graph<const N: usize>(nodes: [(&'static str, &[&'static str]); N]) -> Graph {
    let mut graph = Graph::new();
    for (key, after) in nodes {
        graph.add_node(key, after.to_vec()).expect("a new key after known ones");
    }
    graph
}

/// a, then b and c, then d.
fn diamond() -> Graph {
    graph([("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])])
}

fn tasks<const N: usize>(keys: [&'static str; N]) -> [(&'static str, u32); N] {
    let mut number = 0;
    keys.map(|key| {
        number += 1;
        (key, number)
    })
}

fn ageing(rate: &str, cap: u32) -> Ageing {
    let rate = rate.parse().expect("an amount");
    Ageing::new(rate, Some(Amount::from(cap))).expect("slow enough")
}

#[tokio::test]
async fn the_largest_priority_comes_first_then_the_one_that_came_first() {
    let source = PrioritySource::new();
    for (item, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", 9), ("e", -3), ("f", 1)] {
        source.enqueue(item, priority).expect("it is open");
    }
    source.close();
    let order: Vec<_> = source.collect().await;
    assert_eq!(order, ["d", "b", "c", "a", "f", "e"]);
}

#[tokio::test]
async fn an_item_without_a_priority_has_priority_zero() {
    let source = PrioritySource::new();
    source.enqueue("below", -1).expect("it is open");
    source.push("first").expect("it is open");
    source.enqueue("second", 0).expect("it is open");
    source.enqueue("above", 1).expect("it is open");
    source.close();
    assert_eq!(source.push("late"), Err(SourceClosed));
    let order: Vec<_> = source.collect().await;
    assert_eq!(order, ["above", "first", "second", "below"]);
}

#[tokio::test(start_paused = true)]
async fn effective_priority_is_exact_at_every_instant() {
    let source = PrioritySource::with_ageing(ageing("0.01", 5));
    source.enqueue("background", 1).expect("it is open");
    advance(Duration::from_millis(399)).await;
    source.enqueue("fresh", 5).expect("it is open");
    assert_eq!(source.peek(), Some("fresh"), "5 against 1 + 3.99");
    advance(Duration::from_millis(1)).await;
    assert_eq!(source.peek(), Some("fresh"), "both have aged alike");
    let later = PrioritySource::with_ageing(ageing("0.01", 5));
    later.enqueue("background", 1).expect("it is open");
    advance(Duration::from_millis(401)).await;
    later.enqueue("fresh", 5).expect("it is open");
    assert_eq!(later.peek(), Some("background"), "5 against 1 + 4.01");
}

#[tokio::test(start_paused = true)]
async fn ageing_stops_at_its_cap() {
    let source = PrioritySource::with_ageing(ageing("0.01", 5));
    source.enqueue("background", 1).expect("it is open");
    advance(Duration::from_secs(3600)).await;
    source.enqueue("urgent", 7).expect("it is open");
    assert_eq!(source.peek(), Some("urgent"), "7 against 1 + 5");
    source.enqueue("less", 5).expect("it is open");
    assert_eq!(source.clone().next().await, Some("urgent"));
    assert_eq!(source.peek(), Some("background"), "6 against 5");
}

#[tokio::test]
async fn without_ageing_waiting_changes_nothing() {
    tokio::time::pause();
    let source = PrioritySource::new();
    source.enqueue("old", 1).expect("it is open");
    advance(Duration::from_secs(86_400)).await;
    source.enqueue("new", 2).expect("it is open");
    assert_eq!(source.peek(), Some("new"));
}

#[tokio::test]
async fn peek_and_len_say_what_will_be_pulled() {
    let mut source = PrioritySource::new();
    assert_eq!((source.peek(), source.peek_key(), source.len()), (None, None, 0));
    let low = source.enqueue("low", 1).expect("it is open");
    let high = source.enqueue("high", 2).expect("it is open");
    assert_eq!((source.peek(), source.peek_key(), source.len()), (Some("high"), Some(high), 2));
    assert_eq!(source.abort(high), Ok(vec![high]));
    assert_eq!((source.peek(), source.peek_key(), source.len()), (Some("low"), Some(low), 1));
    assert_eq!(source.next().await, Some("low"));
    assert!(source.is_empty());
}

#[tokio::test]
async fn enqueueing_after_close_is_an_error_and_queued_items_are_still_pulled() {
    let mut source = PrioritySource::new();
    source.enqueue(1, 0).expect("it is open");
    source.close();
    assert!(source.is_closed());
    assert_eq!(source.enqueue(2, 0), Err(SourceClosed));
    assert_eq!((source.next().await, source.next().await), (Some(1), None));
}

#[tokio::test]
async fn a_waiting_puller_receives_the_next_item_and_the_end() {
    let source = PrioritySource::new();
    let mut stream = source.clone();
    let waits = tokio::spawn(async move { (stream.next().await, stream.next().await) });
    settle().await;
    source.enqueue("late", 1).expect("it is open");
    settle().await;
    source.close();
    assert_eq!(waits.await.expect("no panic"), (Some("late"), None));
}

#[tokio::test]
async fn several_waiting_pullers_receive_one_item_each() {
    let source = PrioritySource::new();
    let streams: Vec<_> = (0..8).map(|_| source.clone()).collect();
    let waits = futures::future::join_all(streams.into_iter().map(StreamExt::into_future));
    let fill = async {
        (0..8).for_each(|n| _ = source.enqueue(n, 0).expect("it is open"));
    };
    let (pulled, ()) = tokio::join!(waits, fill);
    let mut pulled: Vec<_> = pulled.into_iter().filter_map(|(item, _)| item).collect();
    pulled.sort_unstable();
    assert_eq!(pulled, (0..8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_pulled_item_is_reported_once() {
    let source = PrioritySource::new();
    let key = source.enqueue("item", 1).expect("it is open");
    assert_eq!(source.complete(key), Err(ReportError::NotUnderWay { key }));
    assert_eq!(source.pull().await, Some((key, "item")));
    assert_eq!(source.fail(key), Ok(()), "to be done again");
    assert_eq!(source.pull().await, Some((key, "item")));
    assert_eq!(source.complete(key), Ok(()));
    assert_eq!(source.complete(key), Err(ReportError::AlreadyReported { key }));
    assert_eq!(source.abort(key), Err(ReportError::AlreadyReported { key }));
}

#[tokio::test]
async fn a_closed_source_ends_only_when_what_was_pulled_is_reported() {
    let source = PrioritySource::new();
    let key = source.enqueue("item", 1).expect("it is open");
    source.close();
    source.pull().await;
    let mut end = Box::pin(source.pull());
    assert!(poll_once(&mut end).is_pending(), "it may yet be put back");
    source.complete(key).expect("it was pulled");
    assert_eq!(end.await, None);
}

#[tokio::test]
async fn tasks_come_in_the_order_in_which_they_become_ready() {
    let mut source = DependencySource::new(&diamond(), tasks(["a", "b", "c", "d"])).expect("whole");
    assert_eq!(source.next().await, Some(("a", 1)));
    assert!(source.next().now_or_never().is_none(), "all others wait for a");
    source.complete(&"a").expect("it was pulled");
    assert_eq!((source.peek_key(), source.peek(), source.len()), (Some("b"), Some(2), 2));
    assert_eq!(source.next().await, Some(("b", 2)));
    assert_eq!(source.next().await, Some(("c", 3)));
    source.complete(&"c").expect("it was pulled");
    assert!(source.next().now_or_never().is_none(), "d waits for b");
    source.complete(&"b").expect("it was pulled");
    assert_eq!(source.next().await, Some(("d", 4)));
    source.complete(&"d").expect("it was pulled");
    assert_eq!(source.next().await, None);
}

#[tokio::test]
async fn a_source_returns_the_state_of_each_task() {
    let source = DependencySource::new(&diamond(), tasks(["a", "b", "c", "d"])).expect("whole");
    let states = || ["a", "b", "d", "x"].map(|key| source.state(&key));
    let [pending, ready] = [NodeState::Pending, NodeState::Ready].map(Some);
    assert_eq!(states(), [ready, pending, pending, None]);
    source.pull().await;
    assert_eq!(states(), [Some(NodeState::Running), pending, pending, None]);
    source.complete(&"a").expect("it was pulled");
    assert_eq!(states(), [Some(NodeState::Completed), ready, pending, None]);
    source.abort(&"b").expect("it waits");
    let aborted = Some(NodeState::Aborted);
    assert_eq!(states(), [Some(NodeState::Completed), aborted, aborted, None]);
}

#[tokio::test]
async fn a_failed_task_can_start_again() {
    let source = DependencySource::new(&graph([("a", &[])]), tasks(["a"])).expect("whole");
    for _ in 0..3 {
        assert_eq!(source.pull().await, Some(("a", 1)));
        source.fail(&"a").expect("it was pulled");
    }
    assert_eq!(source.peek_key(), Some("a"));
}

#[tokio::test]
async fn an_abort_reaches_all_dependents() {
    let all = tasks(["a", "b", "c", "d"]);
    let mut source = DependencySource::new(&diamond(), all).expect("whole");
    source.next().await;
    assert_eq!(source.abort(&"a"), Ok(vec!["a", "b", "c", "d"]));
    assert_eq!(source.next().await, None);

    let mut source = DependencySource::new(&diamond(), all).expect("whole");
    source.next().await;
    source.complete(&"a").expect("it was pulled");
    assert_eq!(source.abort(&"b"), Ok(vec!["b", "d"]), "a has completed, c needs nothing of b");
    assert_eq!(source.next().await, Some(("c", 3)));
    assert_eq!(source.abort(&"a"), Err(ReportError::AlreadyReported { key: "a" }));
    assert_eq!(source.abort(&"x"), Err(ReportError::Unknown { key: "x" }));
    source.complete(&"c").expect("it was pulled");
    assert_eq!(source.next().await, None);
}

#[tokio::test]
async fn an_abort_reaches_a_dependent_on_two_paths_once() {
    let nodes = graph([("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["a", "c"])]);
    let source = DependencySource::new(&nodes, tasks(["a", "b", "c", "d"])).expect("whole");
    assert_eq!(source.abort(&"a"), Ok(vec!["a", "b", "d", "c"]), "level by level");
    assert_eq!(source.pull().await, None);
}

#[test]
fn a_key_without_a_task_is_an_error_at_construction() {
    let missing = DependencySource::new(&diamond(), tasks(["a", "b", "c"])).map(drop);
    assert_eq!(missing, Err(SourceError::NoTask { key: "d" }));
    let unknown = DependencySource::new(&graph([("a", &[])]), tasks(["a", "b"])).map(drop);
    assert_eq!(unknown, Err(SourceError::NotInGraph { key: "b" }));
}

#[test]
fn a_key_with_two_tasks_is_an_error_at_construction() {
    let twice = DependencySource::new(&graph([("a", &[])]), tasks(["a", "a"])).map(drop);
    assert_eq!(twice, Err(SourceError::Twice { key: "a" }));
}

#[tokio::test]
async fn a_source_continues_a_graph_from_its_state() {
    let mut graph = diamond();
    graph.start("a").expect("it is ready");
    graph.complete("a").expect("it runs");
    graph.start("b").expect("it is ready");
    let source = DependencySource::new(&graph, tasks(["b", "c", "d"])).expect("whole");
    assert_eq!(source.peek_key(), Some("c"), "b is under way");
    source.complete(&"b").expect("it runs in the graph");
    assert_eq!(source.pull().await, Some(("c", 2)));
    source.complete(&"c").expect("it was pulled");
    assert_eq!(source.pull().await, Some(("d", 3)));
}

#[tokio::test]
async fn tasks_can_be_added_while_others_run() {
    let source = DependencySource::new(&graph([("a", &[])]), tasks(["a"])).expect("whole");
    source.enqueue("b", 2, &["a"]).expect("it is open until it has ended");
    let twice = source.enqueue("b", 2, &[]);
    assert_eq!(twice, Err(EnqueueError::Twice { key: "b" }));
    let unknown = source.enqueue("c", 3, &["x"]);
    assert_eq!(unknown, Err(EnqueueError::UnknownDependency { key: "x" }));
    source.pull().await;
    source.complete(&"a").expect("it was pulled");
    assert_eq!(source.pull().await, Some(("b", 2)));
    source.complete(&"b").expect("it was pulled");
    assert_eq!(source.pull().await, None);
    assert_eq!(source.enqueue("c", 3, &[]), Err(EnqueueError::Closed(SourceClosed)));
}

#[tokio::test]
async fn a_task_added_after_an_aborted_one_is_aborted() {
    let source = DependencySource::open();
    source.enqueue("a", 1, &[]).expect("it is open");
    source.abort(&"a").expect("it waits");
    source.enqueue("b", 2, &["a"]).expect("it is open");
    source.close();
    assert_eq!(source.pull().await, None);
}

#[tokio::test]
async fn an_open_source_stays_open_until_it_is_closed() {
    let source = DependencySource::open();
    source.enqueue("a", 1, &[]).expect("it is open");
    source.pull().await;
    source.complete(&"a").expect("it was pulled");
    let mut next = Box::pin(source.pull());
    assert!(poll_once(&mut next).is_pending());
    source.enqueue("b", 2, &["a"]).expect("a has completed");
    assert_eq!(next.await, Some(("b", 2)));
}

#[tokio::test(start_paused = true)]
async fn the_most_urgent_ready_task_comes_first() {
    let urgent = |key: &&str| if *key == "d" { 9 } else { 1 };
    let options = PriorityDependencyOptions::new()
        .priority(move |key, _: &u32| urgent(key))
        .ageing(ageing("0.01", 20));
    let nodes = graph([("a", &[]), ("b", &[]), ("d", &[]), ("e", &["d"])]);
    let all = tasks(["a", "b", "d", "e"]);
    let source = PriorityDependencySource::new(&nodes, all, options).expect("whole");
    assert_eq!(source.peek_key(), Some("d"));
    assert_eq!((source.peek(), source.len()), (Some(3), 3));
    assert_eq!(source.abort(&"d"), Ok(vec!["d", "e"]));
    assert_eq!(source.peek_key(), Some("a"), "ties in the order in which they came");
    advance(Duration::from_millis(900)).await;
    source.enqueue("d2", 5, &[]).expect("it is open");
    assert_eq!(source.pull().await, Some(("a", 1)), "1 + 9 against 1");
}

#[tokio::test]
async fn a_million_queued_items_come_out_in_order() {
    let mut source = PrioritySource::new();
    for n in 0..1_000_000u32 {
        source.enqueue(n, i64::from(n % 3)).expect("it is open");
    }
    assert_eq!(source.len(), 1_000_000);
    assert_eq!(source.next().await, Some(2));
    assert_eq!(source.next().await, Some(5));
}

/// The shortest of several batches of peeks, so that a busy machine does not count.
fn peeks_take(source: &PrioritySource<u32>) -> Duration {
    let batch = || {
        let start = processor_time();
        for _ in 0..20 {
            assert!(source.peek().is_some() && source.peek_key().is_some());
        }
        processor_time() - start
    };
    (0..8).map(|_| batch()).min().expect("there are batches")
}

#[tokio::test(start_paused = true)]
async fn a_peek_costs_about_the_same_however_many_wait() {
    for ageing in [Ageing::NONE, ageing("0.01", 5)] {
        let [few, many] = [2_000, 200_000].map(|len| {
            let source = PrioritySource::with_ageing(ageing);
            (0..len).for_each(|item| _ = source.enqueue(item, i64::from(item % 7)).expect("open"));
            source
        });
        // Some items have reached the cap of their ageing by then.
        advance(Duration::from_secs(1)).await;
        let (few, many) = (peeks_take(&few), peeks_take(&many));
        assert!(many < few * 20, "100 times as many items: {few:?}, then {many:?}");
    }
}

#[test]
fn a_task_that_is_dropped_as_it_is_added_may_use_its_source() {
    within(Duration::from_secs(20), || {
        let (source, log) = (DependencySource::open(), Log::default());
        let task = |key: &'static str| {
            let (source, log) = (source.clone(), log.clone());
            OnDrop(Some(Box::new(move || {
                log.add(format!("{key}: {:?}", source.state(&key)));
            }) as Box<dyn FnOnce() + Send>))
        };
        source.enqueue("a", task("a"), &[]).expect("it is open");
        source.abort(&"a").expect("it has not ended");
        source.enqueue("b", task("b"), &["a"]).expect("it is open");
        source.close();
        source.enqueue("c", task("c"), &[]).expect_err("it is closed");
        assert_eq!(log.take(), ["a: Some(Aborted)", "b: Some(Aborted)", "c: None"]);
    });
}

#[tokio::test]
async fn a_source_refuses_the_keys_of_another() {
    let (here, there) = (PrioritySource::new(), PrioritySource::new());
    let own = here.enqueue("own", 0).expect("it is open");
    let key = there.enqueue("foreign", 0).expect("it is open");
    assert_eq!(here.pull().await, Some((own, "own")));
    let refused = ReportError::OtherSource { key };
    assert_eq!(here.complete(key), Err(refused.clone()));
    assert_eq!(here.fail(key), Err(refused.clone()));
    assert_eq!(here.abort(key), Err(refused));
    assert_eq!((here.complete(own), there.len()), (Ok(()), 1));
}
