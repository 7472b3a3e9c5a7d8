//! What a contender is given: a graph, and what each of its nodes does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use windlass::pool::Scheduler;

use crate::graph::{Graph, Ran};

/// What a node does, besides proving that it runs in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    NoOp,
    /// Lets others go first, once.
    Yield,
    /// Keeps a processor busy for so long.
    Busy(Duration),
}

impl Body {
    pub(crate) fn name(self) -> String {
        match self {
            Self::NoOp => "no-op".to_owned(),
            Self::Yield => "yields once".to_owned(),
            Self::Busy(time) => format!("{} µs", time.as_micros()),
        }
    }
}

/// One run of one graph.
pub(crate) struct Case {
    pub(crate) graph: Arc<Graph>,
    ran: Ran,
    body: Body,
}

impl Case {
    pub(crate) fn new(graph: &Arc<Graph>, body: Body) -> Arc<Self> {
        Arc::new(Self { graph: Arc::clone(graph), ran: Ran::new(graph), body })
    }

    /// The body of a node.
    pub(crate) async fn run(&self, node: usize) {
        if self.body == Body::Yield {
            tokio::task::yield_now().await;
        }
        self.run_now(node);
    }

    /// The body of a node, for those who cannot wait.
    pub(crate) fn run_now(&self, node: usize) {
        self.ran.note(&self.graph, node);
        if let Body::Busy(time) = self.body {
            let began = Instant::now();
            while began.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    }

    pub(crate) fn check(&self) {
        self.ran.check();
    }
}

/// Where contenders run: each has as many threads as the machine.
pub(crate) struct Machine {
    pub(crate) threads: usize,
    pub(crate) runtime: Runtime,
    pub(crate) pool: Scheduler,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).enable_time().build();
        Self { threads, runtime: runtime.expect("a runtime"), pool: Scheduler::new(threads) }
    }

    /// Drives `future` on one of the runtime's workers: from outside every wake-up would cross
    /// threads.
    pub(crate) fn on_a_worker(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.block_on(self.runtime.spawn(future)).expect("it does not panic");
    }
}
