//! Tasks that depend on each other; of those that can start, the most urgent first.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use windlass_core::{Ageing, DependencyGraph, NodeState, Outcome};

use super::dependency::keyed_source;
use super::error::{EnqueueError, ReportError, SourceError};
use super::keyed::{Keyed, PriorityFn, by_key, equal};
use super::{Listener, Queue};

/// The priorities and the ageing of a [`PriorityDependencySource`]; by default, all tasks are equally urgent.
///
/// ```
/// use windlass::streams::PriorityDependencyOptions;
///
/// let options = PriorityDependencyOptions::<&str, ()>::new()
///     .priority(|key, _task| if *key == "report" { 10 } else { 1 });
/// ```
#[must_use]
pub struct PriorityDependencyOptions<K, T> {
    ageing: Ageing,
    priority: Arc<PriorityFn<K, T>>,
}

impl<K, T> PriorityDependencyOptions<K, T> {
    /// Creates options with priority 1 for every task and without ageing.
    pub fn new() -> Self {
        Self { ageing: Ageing::NONE, priority: equal() }
    }

    /// Sets the function that returns the priority of a task; larger is more urgent. It is called once, when a
    /// task is added.
    pub fn priority(mut self, of: impl Fn(&K, &T) -> i64 + Send + Sync + 'static) -> Self {
        self.priority = Arc::new(of);
        self
    }

    /// Sets how waiting makes ready tasks more urgent.
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }
}

impl<K, T> Default for PriorityDependencyOptions<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, T> Debug for PriorityDependencyOptions<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PriorityDependencyOptions");
        shown.field("ageing", &self.ageing).finish_non_exhaustive()
    }
}

/// Tasks whose dependencies are done, the most urgent first.
///
/// Apart from that, it is a [`DependencySource`](crate::streams::DependencySource).
///
/// ```
/// use futures::StreamExt;
/// use windlass::core::DependencyGraph;
/// use windlass::streams::{PriorityDependencyOptions, PriorityDependencySource};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut graph = DependencyGraph::new();
/// graph.add_node("fetch", [])?;
/// graph.add_node("parse", ["fetch"])?;
/// graph.add_node("analyze-a", ["parse"])?;
/// graph.add_node("analyze-b", ["parse"])?;
/// graph.add_node("report", ["analyze-a", "analyze-b"])?;
/// let tasks = ["fetch", "parse", "analyze-a", "analyze-b", "report"].map(|key| (key, ()));
/// let urgent = |key: &&str| if *key == "analyze-b" { 10 } else { 1 };
/// let options = PriorityDependencyOptions::new().priority(move |key, ()| urgent(key));
/// let mut source = PriorityDependencySource::new(&graph, tasks, options)?;
///
/// let mut order = Vec::new();
/// while let Some((key, ())) = source.next().await {
///     order.push(key);
///     source.complete(&key)?;
/// }
/// assert_eq!(order, ["fetch", "parse", "analyze-b", "analyze-a", "report"]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct PriorityDependencySource<K, T> {
    pub(super) keyed: Keyed<K, T>,
    listener: Option<Box<Listener<T>>>,
}

impl<K: Clone + Ord + Debug, T> PriorityDependencySource<K, T> {
    /// Creates a source from the tasks of a graph, by key. Nodes that have completed or were aborted need no
    /// task; running nodes count as pulled.
    pub fn new(
        graph: &DependencyGraph<K>,
        tasks: impl IntoIterator<Item = (K, T)>,
        options: PriorityDependencyOptions<K, T>,
    ) -> Result<Self, SourceError<K>> {
        let keyed = Keyed::open(options.ageing, options.priority);
        Ok(Self::over(keyed.of_graph(graph, by_key(tasks)?)?))
    }

    /// Creates an empty source, which is open until it is closed.
    pub fn open(options: PriorityDependencyOptions<K, T>) -> Self {
        Self::over(Keyed::open(options.ageing, options.priority))
    }
}

keyed_source!(PriorityDependencySource);
