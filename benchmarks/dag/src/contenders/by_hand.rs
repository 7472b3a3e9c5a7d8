//! Contenders that users write by hand.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use petgraph::Direction;
use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::case::{Case, Limit, Machine, NoLimit};

/// The lower bound: no threads, no futures.
pub(crate) fn one_thread(_machine: &Machine, case: &Arc<Case>) {
    let mut unmet = unmet(case);
    let mut free: Vec<usize> = case.graph.roots().collect();
    while let Some(node) = free.pop() {
        case.run_now(node);
        free.extend(freed(case, &mut unmet, node));
    }
}

/// What a scheduler has to keep for each node.
struct Given<F> {
    name: String,
    sources: Vec<usize>,
    body: F,
}

/// The lower bound for a scheduler that keeps a name, a closure and the dependencies of each node: it runs
/// them in the order of submission, which is known to be valid.
pub(crate) fn in_order(machine: &Machine, case: &Arc<Case>) {
    let given = (0..case.graph.len()).map(|node| {
        let (case, sources) = (Arc::clone(case), case.graph.sources(node).to_vec());
        let body = move || {
            let case = Arc::clone(&case);
            async move { case.run(node).await }
        };
        Given { name: format!("node {node}"), sources, body }
    });
    let given: Vec<_> = given.collect();
    machine.on_a_worker(async move {
        for Given { name, sources, body } in given {
            body().await;
            black_box((name, sources));
        }
    });
}

fn unmet(case: &Case) -> Vec<usize> {
    (0..case.graph.len()).map(|node| case.graph.sources(node).len()).collect()
}

/// Counts down the dependents of `node`, and returns those that have become ready.
fn freed<'a>(
    case: &'a Case,
    unmet: &'a mut [usize],
    node: usize,
) -> impl Iterator<Item = usize> + 'a {
    case.graph.targets(node).iter().copied().filter(|&target| {
        unmet[target] -= 1;
        unmet[target] == 0
    })
}

struct Shared {
    case: Arc<Case>,
    unmet: Vec<AtomicU32>,
    left: AtomicUsize,
    done: Notify,
}

pub(crate) fn spawn_and_atomics<L: Limit>(machine: &Machine, case: &Arc<Case>) {
    let sources = |node| AtomicU32::new(case.graph.sources(node).len() as u32);
    let unmet = (0..case.graph.len()).map(sources).collect();
    let left = AtomicUsize::new(case.graph.len());
    let shared = Shared { case: Arc::clone(case), unmet, left, done: Notify::new() };
    let shared = Arc::new(shared);
    machine.on_a_worker(async move {
        for node in shared.case.graph.roots() {
            spawn::<L>(Arc::clone(&shared), node);
        }
        shared.done.notified().await;
    });
}

fn spawn<L: Limit>(shared: Arc<Shared>, node: usize) {
    tokio::spawn(async move {
        L::run(&shared.case, node).await;
        for &target in shared.case.graph.targets(node) {
            // AcqRel: the last decrement sees the bodies of all dependencies.
            if shared.unmet[target].fetch_sub(1, Ordering::AcqRel) == 1 {
                spawn::<L>(Arc::clone(&shared), target);
            }
        }
        if shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.done.notify_one();
        }
    });
}

/// Runs a node's body and returns the node's number.
async fn body<L: Limit>(case: Arc<Case>, node: usize) -> usize {
    L::run(&case, node).await;
    node
}

pub(crate) fn join_set<L: Limit>(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let mut unmet = unmet(&case);
        let mut tasks = JoinSet::new();
        for node in case.graph.roots() {
            tasks.spawn(body::<L>(Arc::clone(&case), node));
        }
        while let Some(node) = tasks.join_next().await {
            for target in freed(&case, &mut unmet, node.expect("no body panics")) {
                tasks.spawn(body::<L>(Arc::clone(&case), target));
            }
        }
    });
}

/// Spawns only as many nodes as may run at a time; other ready nodes wait in a queue, not as tasks.
pub(crate) fn join_set_and_queue(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let mut unmet = unmet(&case);
        let mut ready: VecDeque<usize> = case.graph.roots().collect();
        let mut tasks = JoinSet::new();
        loop {
            while tasks.len() < case.limit
                && let Some(node) = ready.pop_front()
            {
                tasks.spawn(body::<NoLimit>(Arc::clone(&case), node));
            }
            let Some(node) = tasks.join_next().await else { break };
            ready.extend(freed(&case, &mut unmet, node.expect("no body panics")));
        }
    });
}

pub(crate) fn futures_unordered<L: Limit>(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let mut unmet = unmet(&case);
        let roots = case.graph.roots().map(|node| body::<L>(Arc::clone(&case), node));
        let mut running: FuturesUnordered<_> = roots.collect();
        while let Some(node) = running.next().await {
            running.extend(
                freed(&case, &mut unmet, node).map(|node| body::<L>(Arc::clone(&case), node)),
            );
        }
    });
}

/// The usual way with petgraph: sort to rule out cycles, then spawn ready nodes and ask the graph for
/// their dependents.
pub(crate) fn petgraph_and_join_set<L: Limit>(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let graph = petgraph_of(&case);
        let order = toposort(&graph, None).expect("no cycle");
        let sources = |&node| graph.neighbors_directed(node, Direction::Incoming).count();
        let mut unmet: HashMap<_, _> = order.iter().map(|node| (*node, sources(node))).collect();
        let mut tasks = JoinSet::new();
        for node in order.iter().filter(|node| unmet[*node] == 0) {
            tasks.spawn(body::<L>(Arc::clone(&case), graph[*node]));
        }
        while let Some(node) = tasks.join_next().await {
            let node = NodeIndex::new(node.expect("no body panics"));
            for target in graph.neighbors(node) {
                let left = unmet.get_mut(&target).expect("every node is counted");
                *left -= 1;
                if *left == 0 {
                    tasks.spawn(body::<L>(Arc::clone(&case), graph[target]));
                }
            }
        }
    });
}

/// Returns a graph with the bodies' numbers in it, and an edge for each dependency.
fn petgraph_of(case: &Case) -> DiGraph<usize, ()> {
    let mut graph = DiGraph::new();
    for node in 0..case.graph.len() {
        let index = graph.add_node(node);
        for &source in case.graph.sources(node) {
            graph.add_edge(NodeIndex::new(source), index, ());
        }
    }
    graph
}
