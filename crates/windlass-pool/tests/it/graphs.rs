//! Graphs: what a builder rejects, and that each node runs once, after its predecessors.

use std::{
    iter,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Duration,
};

use proptest::{prelude::*, test_runner::Config};
use windlass_pool::{
    Cancelled, Dag, DagBuilder, DagError, Scheduler, cancelled, checkpoint, run_graph,
    with_deadline, with_scope,
};

use crate::support::{amount, must_end, panic_of, silence_expected_panics, without_stealing};

fn dag(nodes: usize, edges: &[(usize, usize)]) -> Result<Dag, DagError> {
    let mut builder = DagBuilder::with_nodes(nodes);
    edges.iter().for_each(|&(before, after)| builder.add_edge(before, after));
    builder.build()
}

fn chain(nodes: usize) -> Dag {
    let edges: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
    dag(nodes, &edges).unwrap()
}

/// Runs the graph and checks that each node runs once, after its predecessors.
fn check(dag: &Dag) {
    let ran: Vec<_> = iter::repeat_with(|| AtomicBool::new(false)).take(dag.len()).collect();
    let mut predecessors = vec![Vec::new(); dag.len()];
    for node in 0..dag.len() {
        dag.successors(node).for_each(|successor| predecessors[successor].push(node));
    }
    let result = run_graph(dag, |node| {
        // Relaxed: `run_graph` itself has to make these stores visible.
        let all_before = predecessors[node].iter().all(|&before| ran[before].load(Relaxed));
        assert!(all_before, "node {node} runs before a predecessor");
        assert!(!ran[node].swap(true, Relaxed), "node {node} runs twice");
    });
    assert_eq!(result, Ok(()));
    assert!(ran.iter().all(|ran| ran.load(Relaxed)), "not every node has run");
}

#[test]
fn a_builder_reports_invalid_edges_and_cycles() {
    let refused = |nodes, edges: &[_]| dag(nodes, edges).unwrap_err();
    assert_eq!(refused(3, &[(0, 3)]), DagError::UnknownNode { node: 3, nodes: 3 });
    assert_eq!(refused(3, &[(7, 1)]), DagError::UnknownNode { node: 7, nodes: 3 });
    let huge = usize::MAX;
    assert_eq!(refused(3, &[(0, huge)]), DagError::UnknownNode { node: huge, nodes: 3 });
    assert_eq!(refused(3, &[(0, 1), (2, 2)]), DagError::SelfEdge { node: 2 });
    assert_eq!(refused(3, &[(1, 1), (9, 9)]), DagError::SelfEdge { node: 1 }, "the first");
    assert_eq!(refused(huge, &[(0, huge - 1)]), DagError::TooLarge);
    assert_eq!(refused(2, &[(0, 1), (1, 0)]), DagError::Cycle { path: vec![0, 1, 0] });
    // 0 leads to the cycle, and the cycle leads to 4.
    let edges = [(0, 1), (1, 2), (2, 3), (3, 1), (2, 4)];
    let error = refused(5, &edges);
    assert_eq!(error, DagError::Cycle { path: vec![1, 2, 3, 1] });
    assert_eq!(error.to_string(), "the graph has a cycle: 1 -> 2 -> 3 -> 1");
}

#[test]
fn a_long_cycle_is_found() {
    const NODES: usize = amount(1_000_000, 1_000);
    let edges: Vec<_> = (0..NODES).map(|node| (node, (node + 1) % NODES)).collect();
    let Err(DagError::Cycle { path }) = dag(NODES, &edges) else { panic!("it is a cycle") };
    assert_eq!(path.len(), NODES + 1);
    assert!(path.windows(2).all(|pair| (pair[0] + 1) % NODES == pair[1]));
}

#[test]
fn a_graph_may_be_empty_or_have_an_edge_twice() {
    check(&dag(0, &[]).unwrap());
    check(&dag(1, &[]).unwrap());
    check(&dag(2, &[(1, 0), (1, 0)]).unwrap());
}

#[test]
fn shapes_run_in_order_on_any_number_of_workers() {
    const NODES: usize = amount(20_000, 100);
    let tree: Vec<_> = (1..NODES).map(|node| ((node - 1) / 2, node)).collect();
    let inverse: Vec<_> = tree.iter().map(|&(parent, node)| (node, parent)).collect();
    let layers: Vec<_> =
        (50..NODES).flat_map(|node| [50, 49, 43].map(|back| (node - back, node))).collect();
    let shapes = [&tree, &inverse, &layers].map(|edges| dag(NODES, edges).unwrap());
    must_end(move || {
        for workers in [1, 2, 5] {
            let scheduler = Scheduler::new(workers);
            shapes.iter().for_each(|dag| scheduler.run(|| check(dag)));
        }
        shapes.iter().for_each(check);
        without_stealing(2).run(|| shapes.iter().for_each(check));
    });
}

#[test]
fn a_long_chain_needs_no_deep_stack() {
    check(&chain(amount(1_000_000, 1_000)));
}

#[test]
fn a_graph_can_be_run_again_and_by_several_at_a_time() {
    must_end(|| {
        let dag = chain(100);
        let scheduler = Scheduler::new(2);
        with_scope(&scheduler, |scope| {
            for _ in 0..4 {
                scope.spawn(|| check(&dag));
            }
            check(&dag);
        });
    });
}

#[test]
fn two_ready_nodes_run_at_the_same_time() {
    // Ready after a predecessor, and ready from the start.
    for (nodes, edges) in [(3, &[(0, 1), (0, 2)][..]), (2, &[])] {
        let dag = dag(nodes, edges).unwrap();
        must_end(move || {
            let both = Barrier::new(2);
            let meet = |node: usize| {
                if node + 2 >= nodes {
                    both.wait();
                }
            };
            let scheduler = Scheduler::new(2);
            for _ in 0..amount(1_000, 5) {
                assert_eq!(scheduler.run(|| run_graph(&dag, meet)), Ok(()));
            }
        });
    }
}

#[test]
fn all_workers_participate_in_a_graph() {
    must_end(|| {
        let all = Barrier::new(4);
        let tree: Vec<_> = (1..7).map(|node| ((node - 1) / 2, node)).collect();
        let dag = dag(7, &tree).unwrap();
        let meet = |node: usize| {
            if node >= 3 {
                all.wait();
            }
        };
        let scheduler = Scheduler::new(4);
        for _ in 0..amount(100, 3) {
            assert_eq!(scheduler.run(|| run_graph(&dag, meet)), Ok(()));
        }
    });
}

#[test]
fn a_panic_continues_in_the_caller_and_no_node_starts_after_it() {
    silence_expected_panics();
    for workers in [1, 2] {
        let scheduler = Scheduler::new(workers);
        let last = AtomicUsize::new(0);
        let body = |node| {
            last.store(node, SeqCst);
            assert!(node != 50, "on purpose");
        };
        let message = panic_of(|| scheduler.run(|| _ = run_graph(&chain(100), body)));
        assert!(message.starts_with("on purpose"), "{message}");
        assert_eq!(last.load(SeqCst), 50);
        scheduler.run(|| check(&chain(10)));
    }
}

#[test]
fn a_panic_continues_after_running_nodes_have_ended() {
    silence_expected_panics();
    let message = must_end(|| {
        let (both, ended) = (Barrier::new(2), AtomicBool::new(false));
        let dag = dag(2, &[]).unwrap();
        let body = |node| {
            both.wait();
            assert!(node == 0, "on purpose");
            while !cancelled() {
                std::hint::spin_loop();
            }
            ended.store(true, SeqCst);
        };
        let message = panic_of(|| Scheduler::new(2).run(|| _ = run_graph(&dag, body)));
        assert!(ended.load(SeqCst));
        message
    });
    assert!(message.contains("on purpose"), "{message}");
}

#[test]
fn a_cancel_stops_a_graph_between_two_nodes() {
    for workers in [1, 2] {
        let scheduler = Scheduler::new(workers);
        let ran = AtomicUsize::new(0);
        let result = with_scope(&scheduler, |scope| {
            scheduler.run(|| {
                run_graph(&chain(100), |node| {
                    ran.fetch_add(1, SeqCst);
                    if node == 30 {
                        scope.cancel();
                    }
                })
            })
        });
        assert_eq!(result, Err(Cancelled));
        assert_eq!(ran.load(SeqCst), 31);
    }
}

#[test]
fn a_cancelled_graph_starts_no_further_node() {
    let scheduler = Scheduler::new(2);
    let wide = dag(amount(1_000_000, 1_000), &[]).unwrap();
    let ran = AtomicUsize::new(0);
    let result = with_scope(&scheduler, |scope| {
        scheduler.run(|| {
            run_graph(&wide, |_| {
                ran.fetch_add(1, SeqCst);
                scope.cancel();
            })
        })
    });
    assert_eq!(result, Err(Cancelled));
    assert!(ran.load(SeqCst) <= 2, "one for each worker");
}

#[test]
fn a_graph_cancelled_by_its_last_node_is_not_an_error() {
    let scheduler = Scheduler::new(1);
    let result = with_scope(&scheduler, |scope| {
        scheduler.run(|| {
            run_graph(&chain(10), |node| {
                if node == 9 {
                    scope.cancel();
                }
            })
        })
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_graph_in_a_cancelled_scope_runs_no_node() {
    let scheduler = Scheduler::new(1);
    let never = |_| unreachable!("it is cancelled");
    with_scope(&scheduler, |scope| {
        scope.cancel();
        assert_eq!(run_graph(&chain(3), never), Err(Cancelled), "from outside the pool");
    });
    with_scope(&scheduler, |scope| {
        let task = scope.spawn(|| {
            scope.cancel();
            run_graph(&chain(3), never)
        });
        assert_eq!(task.await_result().unwrap(), Err(Cancelled), "from a worker");
    });
}

#[test]
fn a_checkpoint_in_a_node_ends_the_graph() {
    let scheduler = Scheduler::new(2);
    let result = with_scope(&scheduler, |scope| {
        scheduler.run(|| {
            run_graph(&chain(10), |node| {
                if node == 4 {
                    scope.cancel();
                }
                checkpoint();
                assert!(node < 4);
            })
        })
    });
    assert_eq!(result, Err(Cancelled));
}

#[test]
fn a_deadline_ends_a_graph() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let endless = dag(2, &[(0, 1)]).unwrap();
        let result = with_deadline(Duration::from_millis(1), |_| {
            scheduler.run(|| {
                run_graph(&endless, |node| {
                    assert_eq!(node, 0);
                    while !cancelled() {
                        std::hint::spin_loop();
                    }
                })
            })
        });
        assert!(!matches!(result, Some(Ok(()))), "{result:?}");
    });
}

#[test]
fn a_node_may_run_a_graph() {
    must_end(|| {
        for workers in [1, 2] {
            let inner = chain(amount(50, 3));
            let outer = dag(20, &[(0, 1), (0, 2), (1, 3)]).unwrap();
            let ran = AtomicU32::new(0);
            Scheduler::new(workers).run(|| {
                let result = run_graph(&outer, |_| {
                    check(&inner);
                    ran.fetch_add(1, Relaxed);
                });
                assert_eq!(result, Ok(()));
            });
            assert_eq!(ran.into_inner(), 20);
        }
    });
}

#[test]
fn a_body_may_open_scopes_while_others_steal() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let sum = AtomicUsize::new(0);
        let dag = dag(200, &[]).unwrap();
        let result = scheduler.run(|| {
            run_graph(&dag, |node| {
                let part = with_scope(&scheduler, |scope| {
                    let task = scope.spawn(move || node);
                    task.await_result().unwrap()
                });
                sum.fetch_add(part, Relaxed);
            })
        });
        assert_eq!((result, sum.into_inner()), (Ok(()), 199 * 200 / 2));
    });
}

const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

/// Generates a graph whose edges all lead upwards in some order of the nodes.
fn random_dag() -> impl Strategy<Value = Dag> {
    let nodes = 1..amount(80, 12);
    nodes.prop_flat_map(|nodes| {
        let order = Just((0..nodes).collect::<Vec<_>>()).prop_shuffle();
        let edges = prop::collection::vec((0..nodes, 0..nodes), 0..3 * nodes);
        (order, edges).prop_map(move |(order, edges)| {
            let distinct = edges.into_iter().filter(|(a, b)| a != b);
            let upwards = distinct.map(|(a, b)| (order[a.min(b)], order[a.max(b)]));
            dag(nodes, &upwards.collect::<Vec<_>>()).expect("no edge goes down")
        })
    })
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_graph_runs_in_order(dag in random_dag()) {
        check(&dag);
    }

    #[test]
    fn a_builder_reports_a_real_cycle_exactly_if_there_is_one(
        edges in prop::collection::vec((0..10_usize, 0..10_usize), 0..15)
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a != b).collect();
        match dag(10, &edges) {
            Ok(dag) => check(&dag),
            Err(DagError::Cycle { path }) => {
                prop_assert_eq!(path.first(), path.last());
                for pair in path.windows(2) {
                    prop_assert!(edges.contains(&(pair[0], pair[1])));
                }
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
