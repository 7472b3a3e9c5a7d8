//! Tasks that depend on each other, in the order in which they become ready.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use windlass_core::{Ageing, DependencyGraph, NodeState, Outcome};

use super::error::{EnqueueError, ReportError, SourceError};
use super::keyed::{Keyed, by_key, equal};
use super::{Listener, Queue};

macro_rules! keyed_source {
    ($name:ident) => {
        impl<K: Clone + Ord + Debug, T> $name<K, T> {
            /// Adds a task that can start when all of `after` have completed. If one of these was aborted, the
            /// task is aborted at once.
            pub fn enqueue(&self, key: K, task: T, after: &[K]) -> Result<(), EnqueueError<K>> {
                self.keyed.enqueue(key, task, after)
            }

            /// Returns the next task, if one can start.
            #[must_use]
            pub fn peek(&self) -> Option<T>
            where
                T: Clone,
            {
                self.keyed.peek().map(|(_, task)| task)
            }

            /// Returns the key of the next task, if one can start.
            #[must_use]
            pub fn peek_key(&self) -> Option<K> {
                self.keyed.peek_key()
            }

            /// Waits for the next task and returns it with its key; `None` at the end of the source.
            pub async fn pull(&self) -> Option<(K, T)>
            where
                T: Clone,
            {
                let mut listener = Listener::new(&self.keyed.queue);
                futures::future::poll_fn(|context| self.keyed.poll_pull(context, &mut listener))
                    .await
            }

            /// Reports that a pulled task has completed. Tasks that waited only for it can start.
            pub fn complete(&self, key: &K) -> Result<(), ReportError<K>> {
                self.keyed.report(key, Outcome::Success)
            }

            /// Reports that a pulled task has to run again: it is queued again, behind the others.
            pub fn fail(&self, key: &K) -> Result<(), ReportError<K>> {
                self.keyed.report(key, Outcome::Interrupted)
            }

            /// Aborts a task and all that depend on it, at any depth. Returns them, level by level.
            pub fn abort(&self, key: &K) -> Result<Vec<K>, ReportError<K>> {
                self.keyed.abort(key)
            }

            /// Returns the phase of a task; none if there is no such key.
            #[must_use]
            pub fn state(&self, key: &K) -> Option<NodeState> {
                self.keyed.state(key)
            }

            /// Closes the source for new tasks; queued tasks can still be pulled.
            pub fn close(&self) {
                self.keyed.queue.close();
            }

            /// Returns whether the source refuses new tasks.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.keyed.queue.is_closed()
            }

            /// Returns how many tasks can start and have not been pulled.
            #[must_use]
            pub fn len(&self) -> usize {
                self.keyed.queue.len()
            }

            /// Returns whether no task can start now.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            fn over(keyed: Keyed<K, T>) -> Self {
                Self { keyed, listener: None }
            }
        }

        impl<K: Clone + Ord + Debug, T: Clone> Stream for $name<K, T> {
            type Item = (K, T);

            fn poll_next(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Self::Item>> {
                let source = &mut *self;
                let listener = source.listener.take();
                let mut listener =
                    listener.unwrap_or_else(|| Box::new(Listener::new(&source.keyed.queue)));
                let polled = source.keyed.poll_pull(context, &mut listener);
                source.listener = polled.is_pending().then_some(listener);
                polled
            }
        }

        impl<K, T> Unpin for $name<K, T> {}

        impl<K, T> $name<K, T> {
            /// The engine behind it.
            pub(crate) fn queue(&self) -> &Queue<T> {
                &self.keyed.queue
            }
        }

        impl<K, T> Clone for $name<K, T> {
            fn clone(&self) -> Self {
                Self { keyed: self.keyed.clone(), listener: None }
            }
        }

        impl<K, T> Debug for $name<K, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let len = self.keyed.queue.len();
                f.debug_struct(stringify!($name)).field("len", &len).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use keyed_source;

/// Tasks whose dependencies are done, in the order in which they became ready.
///
/// A source created from a graph accepts more tasks until all have ended, and ends then; one created by
/// [`open`](DependencySource::open) ends when it is closed and all its tasks have ended. As a stream, it
/// yields keys and tasks, and the caller reports the end of each. Clones share one queue.
///
/// ```
/// use futures::StreamExt;
/// use windlass::streams::DependencySource;
/// use windlass::core::DependencyGraph;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut graph = DependencyGraph::new();
/// graph.add_node("a", [])?;
/// graph.add_node("b", ["a"])?;
/// graph.add_node("c", ["a"])?;
/// let tasks = [("a", "Task A"), ("b", "Task B"), ("c", "Task C")];
/// let mut source = DependencySource::new(&graph, tasks)?;
///
/// assert_eq!(source.next().await, Some(("a", "Task A")), "only a is ready");
/// source.complete(&"a")?;
/// assert_eq!(source.next().await, Some(("b", "Task B")));
/// assert_eq!(source.next().await, Some(("c", "Task C")));
/// source.complete(&"b")?;
/// source.complete(&"c")?;
/// assert_eq!(source.next().await, None);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct DependencySource<K, T> {
    pub(super) keyed: Keyed<K, T>,
    listener: Option<Box<Listener<T>>>,
}

impl<K: Clone + Ord + Debug, T> DependencySource<K, T> {
    /// Creates a source from the tasks of a graph, by key. Nodes that have completed or were aborted need no
    /// task; running nodes count as pulled.
    pub fn new(
        graph: &DependencyGraph<K>,
        tasks: impl IntoIterator<Item = (K, T)>,
    ) -> Result<Self, SourceError<K>> {
        let keyed = Keyed::open(Ageing::NONE, equal());
        Ok(Self::over(keyed.of_graph(graph, by_key(tasks)?)?))
    }

    /// Creates an empty source, which is open until it is closed. It remembers every key, because later tasks
    /// may depend on it; a source that is open for ever and has no dependencies is better a
    /// [`PrioritySource`](super::PrioritySource), which does not grow.
    pub fn open() -> Self {
        Self::over(Keyed::open(Ageing::NONE, equal()))
    }
}

keyed_source!(DependencySource);
