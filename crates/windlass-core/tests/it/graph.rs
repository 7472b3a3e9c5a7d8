//! The dependency graph, behaviour by behaviour.

use std::fmt::Debug;

use windlass_core::graph::{AddEdgeError, AddNodeError, NodeError};
use windlass_core::{DependencyGraph, NodeEvent, NodeState};

type Graph = DependencyGraph<&'static str>;
type Dependencies = &'static [&'static str];

fn graph(nodes: &[(&'static str, Dependencies)]) -> Graph {
    let mut graph = Graph::new();
    for (key, dependencies) in nodes {
        graph.add_node(key, dependencies.iter().copied()).expect("dependencies come first");
    }
    graph
}

/// a before b and c, which are before d.
fn diamond() -> Graph {
    graph(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])])
}

fn run(graph: &mut Graph, key: &'static str) -> Vec<&'static str> {
    graph.start(key).expect("it is ready");
    graph.complete(key).expect("it runs")
}

fn keys<'a>(keys: impl Iterator<Item = &'a &'static str>) -> Vec<&'static str> {
    keys.copied().collect()
}

fn drain(graph: &mut Graph) -> Vec<NodeEvent<&'static str>> {
    graph.drain_events().collect()
}

/// Checks that the call is refused with this error and leaves the graph unchanged.
#[track_caller]
fn check_refused<T: Debug + PartialEq, E: Debug + PartialEq>(
    graph: &mut Graph,
    call: impl FnOnce(&mut Graph) -> Result<T, E>,
    error: E,
) {
    let before = format!("{graph:?}");
    assert_eq!(call(graph), Err(error));
    assert_eq!(format!("{graph:?}"), before);
}

#[test]
fn a_node_without_dependencies_is_ready_at_once() {
    let mut graph = Graph::new();
    assert_eq!(graph.add_node("a", []), Ok(NodeState::Ready));
    assert_eq!(drain(&mut graph), [NodeEvent::Ready("a")]);
}

#[test]
fn a_node_waits_until_all_its_dependencies_have_completed() {
    let mut graph = diamond();
    assert_eq!(run(&mut graph, "a"), ["b", "c"]);
    assert_eq!(run(&mut graph, "c"), [] as [&str; 0]);
    assert_eq!(graph.state("d"), Some(NodeState::Pending));
    assert_eq!(run(&mut graph, "b"), ["d"]);
    assert_eq!(graph.state("d"), Some(NodeState::Ready));
}

#[test]
fn a_node_behind_completed_ones_is_ready_at_once() {
    let mut graph = graph(&[("a", &[])]);
    run(&mut graph, "a");
    assert_eq!(graph.add_node("b", ["a"]), Ok(NodeState::Ready));
}

#[test]
fn a_node_added_under_an_aborted_one_is_aborted() {
    let mut graph = graph(&[("a", &[]), ("b", &[])]);
    graph.abort("a").unwrap();
    drain(&mut graph);
    assert_eq!(graph.add_node("c", ["b", "a"]), Ok(NodeState::Aborted));
    assert_eq!(graph.add_node("d", ["c"]), Ok(NodeState::Aborted));
    assert_eq!(keys(graph.aborted()), ["a", "c", "d"]);
    assert_eq!(drain(&mut graph), [NodeEvent::Aborted("c"), NodeEvent::Aborted("d")]);
}

#[test]
fn a_dependency_that_is_named_twice_counts_once() {
    let mut graph = graph(&[("a", &[]), ("b", &["a", "a"])]);
    assert_eq!(keys(graph.dependencies("b").unwrap()), ["a"]);
    assert_eq!(keys(graph.dependents("a").unwrap()), ["b"]);
    assert_eq!(run(&mut graph, "a"), ["b"]);
}

#[test]
fn a_node_that_cannot_be_added_is_refused_by_name() {
    let mut graph = diamond();
    let duplicate = AddNodeError::Duplicate { key: "a" };
    check_refused(&mut graph, |graph| graph.add_node("a", ["b"]), duplicate);
    let unknown = AddNodeError::UnknownDependency { key: "e", dependency: "x" };
    check_refused(&mut graph, |graph| graph.add_node("e", ["a", "x"]), unknown);
    let cycle = AddNodeError::Cycle { path: vec!["e", "e"] };
    check_refused(&mut graph, |graph| graph.add_node("e", ["a", "e"]), cycle);
}

#[test]
fn many_nodes_are_added_in_any_order() {
    let mut graph = graph(&[("z", &[])]);
    let nodes = [("d", vec!["c", "b"]), ("c", vec!["a", "z"]), ("b", vec![]), ("a", vec![])];
    assert_eq!(graph.add_all(nodes), Ok(vec!["b", "a"]));
    assert_eq!(keys(graph.ready()), ["z", "b", "a"]);
    assert_eq!(keys(graph.dependencies("d").unwrap()), ["c", "b"]);
    assert_eq!(keys(graph.topological_sort().into_iter()), ["z", "b", "a", "c", "d"]);
    assert_eq!(graph.add_all([] as [(&str, Vec<&str>); 0]), Ok(vec![]));
}

#[test]
fn of_many_nodes_none_is_added_if_one_cannot_be() {
    let mut graph = diamond();
    let twice = [("e", vec![]), ("f", vec![]), ("e", vec!["a"])];
    let error = AddNodeError::Duplicate { key: "e" };
    check_refused(&mut graph, |graph| graph.add_all(twice), error);
    let error = AddNodeError::Duplicate { key: "d" };
    check_refused(&mut graph, |graph| graph.add_all([("e", vec![]), ("d", vec!["x"])]), error);
    let error = AddNodeError::UnknownDependency { key: "f", dependency: "x" };
    check_refused(&mut graph, |graph| graph.add_all([("f", vec!["a", "x"])]), error);
    let circle = [("e", vec!["a"]), ("f", vec!["h"]), ("g", vec!["f", "e"]), ("h", vec!["g"])];
    let error = AddNodeError::Cycle { path: vec!["h", "f", "g", "h"] };
    check_refused(&mut graph, |graph| graph.add_all(circle), error);
}

#[test]
fn a_ready_node_that_gets_a_dependency_waits_again() {
    let mut graph = graph(&[("a", &[]), ("b", &[])]);
    assert_eq!(graph.add_edge("b", "a"), Ok(NodeState::Pending));
    assert_eq!((keys(graph.pending()), keys(graph.ready())), (vec!["a"], vec!["b"]));
    assert_eq!(run(&mut graph, "b"), ["a"]);
    let told = [NodeEvent::Ready("b"), NodeEvent::Completed("b"), NodeEvent::Ready("a")];
    assert_eq!(drain(&mut graph), told);
}

#[test]
fn an_edge_from_a_completed_node_changes_no_state() {
    let mut graph = graph(&[("a", &[]), ("b", &[]), ("c", &["b"])]);
    run(&mut graph, "a");
    assert_eq!(graph.add_edge("a", "b"), Ok(NodeState::Ready));
    assert_eq!(graph.add_edge("a", "c"), Ok(NodeState::Pending));
    assert_eq!(keys(graph.dependents("a").unwrap()), ["b", "c"]);
    assert_eq!(run(&mut graph, "b"), ["c"]);
}

#[test]
fn an_edge_from_an_aborted_node_aborts_what_is_behind_it() {
    let mut graph = graph(&[("x", &[]), ("a", &[]), ("b", &["a"])]);
    graph.abort("x").unwrap();
    assert_eq!(graph.add_edge("x", "a"), Ok(NodeState::Aborted));
    assert_eq!(keys(graph.aborted()), ["x", "a", "b"]);
    assert!(graph.is_done());
}

#[test]
fn an_edge_that_is_there_already_changes_nothing() {
    let mut graph = diamond();
    let before = format!("{graph:?}");
    assert_eq!(graph.add_edge("a", "b"), Ok(NodeState::Pending));
    assert_eq!(format!("{graph:?}"), before);
}

#[test]
fn an_edge_that_cannot_be_added_is_refused_by_name() {
    let mut graph = diamond();
    for (from, to) in [("a", "x"), ("x", "a")] {
        let unknown = AddEdgeError::UnknownNode { key: "x" };
        check_refused(&mut graph, |graph| graph.add_edge(from, to), unknown);
    }
    let cycle = AddEdgeError::Cycle { path: vec!["a", "a"] };
    check_refused(&mut graph, |graph| graph.add_edge("a", "a"), cycle);
    let cycle = AddEdgeError::Cycle { path: vec!["d", "a", "b", "d"] };
    check_refused(&mut graph, |graph| graph.add_edge("d", "a"), cycle);
}

#[test]
fn a_node_that_has_begun_or_ended_gets_no_dependency() {
    let mut graph = graph(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]);
    graph.start("a").unwrap();
    run(&mut graph, "b");
    graph.abort("c").unwrap();
    let cases = [("a", NodeState::Running), ("b", NodeState::Completed), ("c", NodeState::Aborted)];
    for (key, state) in cases {
        let late = AddEdgeError::TooLate { key, state };
        check_refused(&mut graph, |graph| graph.add_edge("d", key), late);
    }
}

#[test]
fn only_a_ready_node_starts() {
    let mut graph = diamond();
    let pending = NodeError::NotReady { key: "b", state: NodeState::Pending };
    check_refused(&mut graph, |graph| graph.start("b"), pending);
    graph.start("a").unwrap();
    let running = NodeError::NotReady { key: "a", state: NodeState::Running };
    check_refused(&mut graph, |graph| graph.start("a"), running);
    let unknown = NodeError::Unknown { key: "x" };
    check_refused(&mut graph, |graph| graph.start("x"), unknown);
}

#[test]
fn only_a_running_node_completes_or_fails() {
    let mut graph = diamond();
    let state = NodeState::Ready;
    let early = NodeError::NotRunning { key: "a", state };
    check_refused(&mut graph, |graph| graph.complete("a"), early);
    check_refused(&mut graph, |graph| graph.fail("a"), NodeError::NotRunning { key: "a", state });
    let unknown = NodeError::Unknown { key: "x" };
    check_refused(&mut graph, |graph| graph.complete("x"), unknown);
    check_refused(&mut graph, |graph| graph.fail("x"), NodeError::Unknown { key: "x" });
    run(&mut graph, "a");
    let late = NodeError::NotRunning { key: "a", state: NodeState::Completed };
    check_refused(&mut graph, |graph| graph.complete("a"), late);
}

#[test]
fn a_failed_node_is_ready_again_behind_those_that_were_ready_before() {
    let mut graph = graph(&[("a", &[]), ("b", &[])]);
    graph.start("a").unwrap();
    graph.fail("a").unwrap();
    assert_eq!(graph.state("a"), Some(NodeState::Ready));
    assert_eq!(keys(graph.ready()), ["b", "a"]);
    graph.start("a").expect("it may be tried again");
}

#[test]
fn an_abort_reaches_all_dependents_level_by_level() {
    let mut graph = graph(&[
        ("a", &[]),
        ("b", &["a"]),
        ("c", &["a"]),
        ("behind-b", &["b"]),
        ("behind-c", &["c"]),
        ("behind-both", &["behind-c", "behind-b"]),
        ("apart", &[]),
    ]);
    let levels = vec!["a", "b", "c", "behind-b", "behind-c", "behind-both"];
    assert_eq!(graph.abort("a"), Ok(levels));
    assert_eq!((keys(graph.ready()), graph.is_done()), (vec!["apart"], false));
}

#[test]
fn an_abort_spares_what_has_completed_and_what_was_aborted_before() {
    let mut graph = diamond();
    run(&mut graph, "a");
    graph.start("b").unwrap();
    assert_eq!(graph.abort("c"), Ok(vec!["c", "d"]));
    assert_eq!(graph.abort("b"), Ok(vec!["b"]), "a running node; d was aborted with c");
    assert_eq!(keys(graph.completed()), ["a"]);
    assert!(graph.is_done());
}

#[test]
fn only_what_has_not_ended_is_aborted() {
    let mut graph = graph(&[("a", &[]), ("b", &[])]);
    run(&mut graph, "a");
    graph.abort("b").unwrap();
    for (key, state) in [("a", NodeState::Completed), ("b", NodeState::Aborted)] {
        check_refused(&mut graph, |graph| graph.abort(key), NodeError::Ended { key, state });
    }
    check_refused(&mut graph, |graph| graph.abort("x"), NodeError::Unknown { key: "x" });
}

#[test]
fn a_completion_is_reported_before_what_follows_from_it() {
    let mut graph = diamond();
    drain(&mut graph);
    run(&mut graph, "a");
    let told = [NodeEvent::Completed("a"), NodeEvent::Ready("b"), NodeEvent::Ready("c")];
    assert_eq!(drain(&mut graph), told);
    assert_eq!(drain(&mut graph), [], "each is told once");
}

#[test]
fn undrained_events_do_not_accumulate() {
    let mut graph = graph(&[("a", &[]), ("b", &[])]);
    for _ in 0..1000 {
        graph.start("a").unwrap();
        graph.fail("a").unwrap();
    }
    assert_eq!(drain(&mut graph), [NodeEvent::Ready("b"), NodeEvent::Ready("a")]);
    graph.start("a").unwrap();
    graph.fail("a").unwrap();
    assert_eq!(drain(&mut graph), [NodeEvent::Ready("a")], "told again after a drain");
}

#[test]
fn a_graph_without_nodes_is_done() {
    let graph = Graph::new();
    assert!(graph.is_empty() && graph.is_done() && !graph.has_cycle());
    assert_eq!((graph.len(), graph.state("a"), graph.has("a")), (0, None, false));
    assert!(graph.dependencies("a").is_none() && graph.dependents("a").is_none());
}

#[test]
fn keys_may_be_passed_by_reference() {
    let mut graph = DependencyGraph::<String>::new();
    let key = "a".to_owned();
    graph.add_node(key.clone(), []).unwrap();
    graph.start(&key).unwrap();
    assert_eq!(graph.state(&key), Some(NodeState::Running));
}

#[test]
fn errors_read_as_sentences() {
    let late = AddEdgeError::TooLate { key: "a", state: NodeState::Running };
    assert_eq!(late.to_string(), r#""a" is running, too late for another dependency"#);
    let cycle = AddNodeError::Cycle { path: vec![1, 1] };
    assert_eq!(cycle.to_string(), "a cycle of dependencies: [1, 1]");
}

#[test]
fn a_long_chain_runs_is_aborted_and_is_sorted_without_recursion() {
    let last = 99_999;
    let mut graph = DependencyGraph::new();
    graph.add_node(0, []).unwrap();
    for key in 1..=last {
        graph.add_node(key, [key - 1]).unwrap();
    }
    graph.start(0).unwrap();
    assert_eq!(graph.complete(0), Ok(vec![1]));
    assert_eq!(graph.abort(1).unwrap().last(), Some(&last));
    assert_eq!(graph.topological_sort().last(), Some(&&last));
    assert!(graph.is_done());
}

#[test]
fn a_fan_in_of_a_hundred_thousand_becomes_ready_with_the_last() {
    let count = 100_000;
    let mut graph = DependencyGraph::new();
    let nodes = (0..count).map(|key| (key, vec![]));
    graph.add_all(nodes.chain([(count, (0..count - 1).collect())])).unwrap();
    assert_eq!(graph.add_edge(count - 1, count), Ok(NodeState::Pending));
    for key in 0..count - 1 {
        graph.start(key).unwrap();
        assert_eq!(graph.complete(key), Ok(vec![]));
    }
    graph.start(count - 1).unwrap();
    assert_eq!(graph.complete(count - 1), Ok(vec![count]));
}
