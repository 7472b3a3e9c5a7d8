//! The contenders: each runs a graph of no-op bodies from building it to dropping it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass::{
    Work, WorkContext, WorkId, WorkOutcome, WorkScheduler, WorkSchedulerConfig, async_trait,
};

use crate::graph::{Graph, Ran};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Runtime, &Arc<Graph>, &Arc<Ran>),
}

pub(crate) const CONTENDERS: [Contender; 3] = [
    Contender { name: "windlass WorkScheduler", run: windlass },
    Contender { name: "tokio::spawn + atomics", run: spawn_and_atomics },
    Contender { name: "JoinSet + counters", run: join_set },
];

struct Node {
    node: usize,
    ran: Arc<Ran>,
}

#[async_trait]
impl Work for Node {
    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        self.ran.run(self.node);
        WorkOutcome::Success
    }
}

fn windlass(runtime: &Runtime, graph: &Arc<Graph>, ran: &Arc<Ran>) {
    let config = WorkSchedulerConfig { max_concurrency: 64, ..WorkSchedulerConfig::default() };
    let mut scheduler = WorkScheduler::new(config);
    let mut ids: Vec<WorkId> = Vec::with_capacity(graph.len());
    for (node, sources) in graph.sources.iter().enumerate() {
        let deps = sources.iter().map(|&source| ids[source]).collect();
        ids.push(scheduler.add_work(Box::new(Node { node, ran: ran.clone() }), deps, 0));
    }
    on_a_worker(runtime, async move { scheduler.run_until_done().await });
}

struct Shared {
    graph: Arc<Graph>,
    ran: Arc<Ran>,
    unmet: Vec<AtomicU32>,
    left: AtomicUsize,
    done: Notify,
}

fn spawn_and_atomics(runtime: &Runtime, graph: &Arc<Graph>, ran: &Arc<Ran>) {
    let unmet = graph.sources.iter().map(|sources| AtomicU32::new(sources.len() as u32)).collect();
    let left = AtomicUsize::new(graph.len());
    let (graph, ran) = (graph.clone(), ran.clone());
    let shared = Arc::new(Shared { graph, ran, unmet, left, done: Notify::new() });
    runtime.block_on(async {
        let sources = &shared.graph.sources;
        for node in (0..sources.len()).filter(|&node| sources[node].is_empty()) {
            spawn(shared.clone(), node);
        }
        shared.done.notified().await;
    });
}

fn spawn(shared: Arc<Shared>, node: usize) {
    tokio::spawn(async move {
        shared.ran.run(node);
        for &target in &shared.graph.targets[node] {
            // Every source's body comes before the target's: the last one acquires all others.
            if shared.unmet[target].fetch_sub(1, Ordering::AcqRel) == 1 {
                spawn(shared.clone(), target);
            }
        }
        if shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.done.notify_one();
        }
    });
}

fn join_set(runtime: &Runtime, graph: &Arc<Graph>, ran: &Arc<Ran>) {
    let (graph, ran) = (graph.clone(), ran.clone());
    on_a_worker(runtime, async move {
        let mut unmet: Vec<_> = graph.sources.iter().map(Vec::len).collect();
        let mut tasks = JoinSet::new();
        let body = |node: usize| {
            let ran = ran.clone();
            async move {
                ran.run(node);
                node
            }
        };
        for node in (0..graph.len()).filter(|&node| graph.sources[node].is_empty()) {
            tasks.spawn(body(node));
        }
        while let Some(node) = tasks.join_next().await {
            for &target in &graph.targets[node.expect("no body panics")] {
                unmet[target] -= 1;
                if unmet[target] == 0 {
                    tasks.spawn(body(target));
                }
            }
        }
    });
}

/// Drives `future` on one of the runtime's workers: from outside every wake-up would cross threads.
fn on_a_worker(runtime: &Runtime, future: impl Future<Output = ()> + Send + 'static) {
    runtime.block_on(runtime.spawn(future)).expect("it does not panic");
}
