//! Crates that run graphs of async tasks.

use std::sync::Arc;

use dagrs::{
    Action, Content, DefaultNode, EnvVar, InChannels, Node, NodeTable, OutChannels, Output,
};
use dagx::{DagRunner, Task, TaskHandle, task};
use taski::execution::Execution;
use taski::{Dependencies, PolicyExecutor, Schedule};

use crate::case::{Case, Machine};

/// What each task keeps.
pub(crate) const BODY_BYTES: usize = size_of::<(Arc<Case>, usize)>();

pub(crate) fn dagx(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let runner = DagRunner::new();
        let mut handles: Vec<TaskHandle<usize>> = Vec::with_capacity(case.graph.len());
        for node in 0..case.graph.len() {
            handles.push(dagx_task(&runner, &case, node, &handles));
        }
        let ran = runner.run(|future| drop(tokio::spawn(future))).await;
        ran.expect("every task returns");
    });
}

/// Its tasks have as many parameters as dependencies.
struct After0(Arc<Case>, usize);
struct After1(Arc<Case>, usize);
struct After2(Arc<Case>, usize);
struct After3(Arc<Case>, usize);

#[task]
impl After0 {
    async fn run(&self) -> usize {
        self.0.run(self.1).await;
        self.1
    }
}

#[task]
impl After1 {
    async fn run(&self, _a: &usize) -> usize {
        self.0.run(self.1).await;
        self.1
    }
}

#[task]
impl After2 {
    async fn run(&self, _a: &usize, _b: &usize) -> usize {
        self.0.run(self.1).await;
        self.1
    }
}

#[task]
impl After3 {
    async fn run(&self, _a: &usize, _b: &usize, _c: &usize) -> usize {
        self.0.run(self.1).await;
        self.1
    }
}

fn dagx_task(
    runner: &DagRunner,
    case: &Arc<Case>,
    node: usize,
    handles: &[TaskHandle<usize>],
) -> TaskHandle<usize> {
    let body = Arc::clone(case);
    match *case.graph.sources(node) {
        [] => runner.add_task(After0(body, node)).into(),
        [a] => runner.add_task(After1(body, node)).depends_on(handles[a]),
        [a, b] => runner.add_task(After2(body, node)).depends_on((&handles[a], &handles[b])),
        [a, b, c] => {
            let sources = (&handles[a], &handles[b], &handles[c]);
            runner.add_task(After3(body, node)).depends_on(sources)
        }
        _ => unreachable!("no shape has more"),
    }
}

/// The dependencies of a task, without their outputs.
struct Sources<'id>(Vec<taski::dag::TaskId<'id>>);

impl<'id> Dependencies<'id, ()> for Sources<'id> {
    fn task_ids(&self) -> Vec<taski::dag::TaskId<'id>> {
        self.0.clone()
    }

    fn inputs(&self, _execution: &Execution<'id>) -> Option<()> {
        Some(())
    }
}

pub(crate) fn taski(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.runtime.block_on(async {
        taski::make_guard!(guard);
        let mut schedule: Schedule<'_, ()> = Schedule::new(guard);
        let mut ids = Vec::with_capacity(case.graph.len());
        for node in 0..case.graph.len() {
            let body = Arc::clone(&case);
            let sources = case.graph.sources(node).iter().map(|&source| ids[source]);
            let work = move || async move {
                body.run(node).await;
                Ok(())
            };
            let task = schedule.add_closure(work, Sources(sources.collect()));
            ids.push(task.expect("no cycle").task_id());
        }
        let report = PolicyExecutor::fifo(schedule).run().await.expect("it ends");
        assert_eq!(report.succeeded_tasks, case.graph.len());
    });
}

/// In dagrs, nodes wait for each other through channels.
struct Step(Arc<Case>, usize);

#[dagrs::async_trait::async_trait]
impl Action for Step {
    async fn run(
        &self,
        input: &mut InChannels,
        output: &mut OutChannels,
        _env: Arc<EnvVar>,
    ) -> Output {
        input.map(|content| drop(content.expect("every source sends"))).await;
        self.0.run(self.1).await;
        output.broadcast(Content::new(())).await;
        Output::empty()
    }
}

pub(crate) fn dagrs(machine: &Machine, case: &Arc<Case>) {
    let case = Arc::clone(case);
    machine.on_a_worker(async move {
        let (mut table, mut graph) = (NodeTable::new(), dagrs::Graph::new());
        let mut ids = Vec::with_capacity(case.graph.len());
        for number in 0..case.graph.len() {
            let step = Step(Arc::clone(&case), number);
            let node = DefaultNode::with_action(format!("node {number}"), step, &mut table);
            ids.push(node.id());
            graph.add_node(node).expect("a new node");
        }
        for (number, id) in ids.iter().enumerate() {
            let targets: Vec<_> =
                case.graph.targets(number).iter().map(|&node| ids[node]).collect();
            if !targets.is_empty() {
                graph.add_edge(*id, targets).expect("known nodes");
            }
        }
        graph.set_env(EnvVar::new(table));
        graph.async_start().await.expect("every node returns");
    });
}
