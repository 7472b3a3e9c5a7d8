//! Windlass as its README shows it: a closure and a name for each work.

use std::sync::Arc;

use windlass::pool::DagBuilder;
use windlass::{ResourceCost, WorkId, WorkScheduler, WorkSchedulerBuilder, WorkSpec, work_fn};

use crate::case::{Case, Machine};

/// What each work keeps: the closure, and a name of about this length.
pub(crate) const BODY_BYTES: usize = size_of::<(Arc<Case>, usize)>() + "node 12345".len();

/// More than the number of works.
const NO_LIMIT: usize = 10_000_000;

pub(crate) fn run_graph(machine: &Machine, case: &Arc<Case>) {
    let mut builder = DagBuilder::with_nodes(case.graph.len());
    for node in 0..case.graph.len() {
        case.graph.sources(node).iter().for_each(|&source| builder.add_edge(source, node));
    }
    let dag = builder.build().expect("no cycle");
    let ran = machine.pool.run(|| windlass::pool::run_graph(&dag, |node| case.run_now(node)));
    ran.expect("it is not cancelled");
}

pub(crate) fn plain(machine: &Machine, case: &Arc<Case>) {
    at_most(NO_LIMIT, machine, case);
}

pub(crate) fn limited(machine: &Machine, case: &Arc<Case>) {
    at_most(case.limit, machine, case);
}

fn at_most(limit: usize, machine: &Machine, case: &Arc<Case>) {
    let scheduler = build(WorkScheduler::builder().max_concurrency(limit));
    submit_all(&scheduler, case, |_, work| work);
    run(machine, scheduler);
}

/// Uses priorities, two resources, and a subscriber that receives every change.
pub(crate) fn everything(machine: &Machine, case: &Arc<Case>) {
    let cost = |cpu, memory| ResourceCost::from([("cpu", cpu), ("memory", memory)]);
    let limits = cost(64, 1_000_000);
    let scheduler = build(WorkScheduler::builder().max_concurrency(64).limits(limits));
    let mut changes = scheduler.subscribe();
    let listener = machine.runtime.spawn(async move { while changes.recv().await.is_some() {} });
    let costs = [cost(1, 1), cost(1, 5), cost(2, 100)];
    submit_all(&scheduler, case, |node, work| {
        work.priority((node % 8) as i64).needs(costs[node % costs.len()].clone())
    });
    run(machine, scheduler);
    machine.runtime.block_on(listener).expect("it does not panic");
}

fn build(builder: WorkSchedulerBuilder) -> WorkScheduler {
    builder.build().expect("settings that make sense")
}

fn submit_all(
    scheduler: &WorkScheduler,
    case: &Arc<Case>,
    with: impl Fn(usize, WorkSpec<()>) -> WorkSpec<()>,
) {
    let mut ids: Vec<WorkId> = Vec::with_capacity(case.graph.len());
    for node in 0..case.graph.len() {
        let body = Arc::clone(case);
        let work = work_fn(format!("node {node}"), move |_ctx| {
            let body = Arc::clone(&body);
            async move {
                body.run(node).await;
                Ok(())
            }
        });
        let sources = case.graph.sources(node).iter().map(|&source| ids[source]);
        let work = with(node, work.after(sources));
        ids.push(scheduler.submit(work).expect("it can run"));
    }
}

fn run(machine: &Machine, mut scheduler: WorkScheduler) {
    machine.on_a_worker(async move { _ = scheduler.run_until_done().await });
}
