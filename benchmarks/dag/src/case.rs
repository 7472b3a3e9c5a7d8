//! A benchmark case: a graph, the body of its nodes, and how many of them may run at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use windlass::pool::Scheduler;

use crate::barrier::Barrier;
use crate::graph::{Graph, Ran};

/// What a node does, besides recording that it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    NoOp,
    /// Yields to the runtime once.
    WaitOnce,
    /// Waits until all nodes have begun.
    WaitForAll,
    /// Keeps a processor busy for this long.
    Busy(Duration),
}

impl Body {
    pub(crate) fn name(self) -> String {
        match self {
            Self::NoOp => "no-op".to_owned(),
            Self::WaitOnce => "waits once".to_owned(),
            Self::WaitForAll => "waits until all have begun".to_owned(),
            Self::Busy(time) if time < Duration::from_millis(1) => {
                format!("computes for {} µs", time.as_micros())
            }
            Self::Busy(time) => format!("computes for {} ms", time.as_millis()),
        }
    }
}

/// What limits the nodes besides their dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Plain,
    /// Priorities, two resources and a subscriber.
    Everything,
    /// At most this many nodes at a time.
    AtMost(usize),
}

impl Setting {
    /// Returns the name of a contender with this setting.
    pub(crate) fn name_of(self, contender: &str) -> String {
        match self {
            Self::Plain => contender.to_owned(),
            Self::Everything => format!("{contender}, everything on"),
            Self::AtMost(limit) => format!("{contender}, {limit} at a time"),
        }
    }

    fn limit(self) -> usize {
        if let Self::AtMost(limit) = self { limit } else { Semaphore::MAX_PERMITS }
    }
}

/// One run of one graph.
pub(crate) struct Case {
    pub(crate) graph: Arc<Graph>,
    /// How many nodes may run at a time.
    pub(crate) limit: usize,
    ran: Ran,
    body: Body,
    barrier: Barrier,
    permits: Semaphore,
}

impl Case {
    pub(crate) fn new(graph: &Arc<Graph>, body: Body, setting: Setting) -> Arc<Self> {
        let expected = if body == Body::WaitForAll { graph.len() } else { 0 };
        let (barrier, permits) = (Barrier::new(expected), Semaphore::new(setting.limit()));
        let (graph, ran, limit) = (Arc::clone(graph), Ran::new(graph), setting.limit());
        Arc::new(Self { graph, limit, ran, body, barrier, permits })
    }

    /// Runs the body of a node.
    pub(crate) async fn run(&self, node: usize) {
        match self.body {
            Body::WaitOnce => tokio::task::yield_now().await,
            Body::WaitForAll => self.barrier.wait().await,
            Body::NoOp | Body::Busy(_) => {}
        }
        self.run_now(node);
    }

    /// Runs the body of a node, for contenders whose nodes cannot wait.
    pub(crate) fn run_now(&self, node: usize) {
        self.ran.note(&self.graph, node);
        if let Body::Busy(time) = self.body {
            let began = Instant::now();
            while began.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    }

    /// Returns how many nodes have run.
    pub(crate) fn ran(&self) -> usize {
        self.ran.count()
    }
}

/// How a contender without limits of its own runs a body. It is a type, so that the futures of bodies
/// without a limit have no room for a permit.
pub(crate) trait Limit: 'static {
    fn run(case: &Case, node: usize) -> impl Future<Output = ()> + Send;
}

pub(crate) struct NoLimit;

impl Limit for NoLimit {
    fn run(case: &Case, node: usize) -> impl Future<Output = ()> + Send {
        case.run(node)
    }
}

/// Each node's task waits for a permit of one semaphore.
pub(crate) struct Permits;

impl Limit for Permits {
    async fn run(case: &Case, node: usize) {
        let _permit = case.permits.acquire().await.expect("it is never closed");
        case.run(node).await;
    }
}

/// The runtime of the contenders.
pub(crate) struct Machine {
    pub(crate) threads: usize,
    pub(crate) runtime: Runtime,
    pub(crate) pool: Scheduler,
}

impl Machine {
    pub(crate) fn new(threads: usize) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).enable_time().build();
        Self { threads, runtime: runtime.expect("a runtime"), pool: Scheduler::new(threads) }
    }

    /// Runs `future` on one of the runtime's workers; outside of them, every wake-up would cross threads.
    pub(crate) fn on_a_worker(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.block_on(self.runtime.spawn(future)).expect("it does not panic");
    }
}
