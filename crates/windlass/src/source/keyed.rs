//! What the two sources over a graph have in common: tasks by key, each after others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use windlass_core::{Ageing, DependencyGraph, NodeState, Outcome, Phase, WorkId, WorkState};

use super::error::{EnqueueError, ReportError, SourceClosed, SourceError};
use super::queue::{Pulled, Queue};
use super::state::{Closing, Memory, State};
use super::{Listener, PRIORITY};

/// Tasks by key over an engine. The lock of the keys is taken before that of the engine.
pub(super) struct Keyed<K, T> {
    pub(super) queue: Queue<T>,
    keys: Arc<Mutex<Keys<K>>>,
    priority: Arc<PriorityFn<K, T>>,
}

pub(super) type PriorityFn<K, T> = dyn Fn(&K, &T) -> i64 + Send + Sync;

struct Keys<K> {
    works: BTreeMap<K, Known>,
    keys: BTreeMap<WorkId, K>,
}

/// What is known of a key.
#[derive(Clone, Copy)]
enum Known {
    Work(WorkId),
    /// It had completed before it came here.
    Completed,
    /// It had been aborted before it came here.
    Aborted,
}

/// The tasks of a graph, each key with its own.
pub(super) fn by_key<K: Clone + Ord + Debug, T>(
    tasks: impl IntoIterator<Item = (K, T)>,
) -> Result<BTreeMap<K, T>, SourceError<K>> {
    let mut by_key = BTreeMap::new();
    for (key, task) in tasks {
        if by_key.insert(key.clone(), task).is_some() {
            return Err(SourceError::Twice { key });
        }
    }
    Ok(by_key)
}

impl<K, T> Clone for Keyed<K, T> {
    fn clone(&self) -> Self {
        let (keys, priority) = (Arc::clone(&self.keys), Arc::clone(&self.priority));
        Self { queue: self.queue.clone(), keys, priority }
    }
}

impl<K: Clone + Ord + Debug, T> Keyed<K, T> {
    pub(super) fn open(ageing: Ageing, priority: Arc<PriorityFn<K, T>>) -> Self {
        let keys = Keys { works: BTreeMap::new(), keys: BTreeMap::new() };
        let queue = Queue::new(ageing, Closing::Open, Memory::Keep);
        Self { queue, keys: Arc::new(Mutex::new(keys)), priority }
    }

    /// Everything of a graph that has not ended, with its task. What is running in the graph is under
    /// way here.
    pub(super) fn of_graph(
        self,
        graph: &DependencyGraph<K>,
        mut tasks: BTreeMap<K, T>,
    ) -> Result<Self, SourceError<K>> {
        if let Some(key) = tasks.keys().find(|key| !graph.has(*key)) {
            return Err(SourceError::NotInGraph { key: key.clone() });
        }
        let is = |key: &K, state| graph.state(key) == Some(state);
        let ended = |key: &K| graph.state(key).is_some_and(NodeState::is_terminal);
        let order = graph.topological_sort();
        if let Some(key) = order.iter().find(|key| !ended(key) && !tasks.contains_key(**key)) {
            return Err(SourceError::NoTask { key: (*key).clone() });
        }
        for key in order.iter().copied().filter(|key| ended(key)) {
            let completed = is(key, NodeState::Completed);
            let known = if completed { Known::Completed } else { Known::Aborted };
            self.keys().insert(key.clone(), known);
        }
        // What has started comes first, so that it is what is begun; then what was ready, in the
        // order in which it became so.
        for key in graph.running() {
            self.add_node(graph, key, &mut tasks);
            self.begin();
        }
        graph.ready().for_each(|key| self.add_node(graph, key, &mut tasks));
        let pending = order.into_iter().filter(|key| is(key, NodeState::Pending));
        pending.for_each(|key| self.add_node(graph, key, &mut tasks));
        self.queue.close_when_done();
        Ok(self)
    }

    fn add_node(&self, graph: &DependencyGraph<K>, key: &K, tasks: &mut BTreeMap<K, T>) {
        let task = tasks.remove(key).expect("every open key has its task");
        let after: Vec<_> = graph.dependencies(key).into_iter().flatten().cloned().collect();
        let added = self.enqueue(key.clone(), task, &after);
        added.expect("the graph has it once, after what it depends on, and nothing is closed");
    }

    /// Counts the first task in the queue as pulled: it is running in the graph.
    fn begin(&self) {
        let Pulled::Task(()) = self.queue.pull(State::note_as_pulled) else {
            unreachable!("what is running depends on nothing that is not done");
        };
    }

    pub(super) fn enqueue(&self, key: K, task: T, after: &[K]) -> Result<(), EnqueueError<K>> {
        let priority = (self.priority)(&key, &task);
        let mut keys = self.keys();
        let after = keys.works_before(&key, after)?;
        let Some(works) = after else {
            keys.insert(key, Known::Aborted);
            return Ok(());
        };
        let (added, effects) = self.queue.add(task, priority, &works);
        let added = added.map(|work| keys.insert(key, Known::Work(work)));
        drop(keys);
        self.queue.tell_all();
        effects.carry_out();
        added.map_err(|_| SourceClosed.into())
    }

    pub(super) fn peek(&self) -> Option<(K, T)>
    where
        T: Clone,
    {
        let keys = self.keys();
        self.queue.peek(|work, task| (keys.keys[&work].clone(), task.clone()))
    }

    pub(super) fn peek_key(&self) -> Option<K> {
        let keys = self.keys();
        self.queue.peek(|work, _| keys.keys[&work].clone())
    }

    pub(super) fn poll_pull(
        &self,
        context: &mut Context<'_>,
        listener: &mut Listener<T>,
    ) -> Poll<Option<(K, T)>>
    where
        T: Clone,
    {
        loop {
            match self.queue.pull(State::hand_out) {
                Pulled::Task((work, task)) => {
                    return Poll::Ready(Some((self.keys().keys[&work].clone(), task)));
                }
                Pulled::Ended => return Poll::Ready(None),
                Pulled::Nothing { due } => futures::ready!(listener.poll(context, due)),
            }
        }
    }

    pub(super) fn state(&self, key: &K) -> Option<NodeState> {
        match *self.keys().works.get(key)? {
            Known::Work(work) => self.queue.phase(work).map(node_state),
            Known::Completed => Some(NodeState::Completed),
            Known::Aborted => Some(NodeState::Aborted),
        }
    }

    pub(super) fn report(&self, key: &K, outcome: Outcome) -> Result<(), ReportError<K>> {
        let work = self.work(key)?;
        self.queue.report(work, outcome).map_err(|error| error.about(key.clone()))
    }

    pub(super) fn abort(&self, key: &K) -> Result<Vec<K>, ReportError<K>> {
        let work = self.work(key)?;
        let aborted = self.queue.abort(work).map_err(|error| error.about(key.clone()))?;
        let keys = self.keys();
        Ok(aborted.into_iter().map(|work| keys.keys[&work].clone()).collect())
    }

    fn work(&self, key: &K) -> Result<WorkId, ReportError<K>> {
        match self.keys().works.get(key) {
            Some(Known::Work(work)) => Ok(*work),
            Some(_) => Err(ReportError::AlreadyReported { key: key.clone() }),
            None => Err(ReportError::Unknown { key: key.clone() }),
        }
    }

    fn keys(&self) -> MutexGuard<'_, Keys<K>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Ord + Debug> Keys<K> {
    /// The works that a new key waits for; none if one of them was aborted.
    fn works_before(&self, key: &K, after: &[K]) -> Result<Option<Vec<WorkId>>, EnqueueError<K>> {
        if self.works.contains_key(key) {
            return Err(EnqueueError::Twice { key: key.clone() });
        }
        let mut works = BTreeSet::new();
        let mut aborted = false;
        for key in after {
            match self.works.get(key) {
                Some(Known::Work(work)) => _ = works.insert(*work),
                Some(Known::Completed) => {}
                Some(Known::Aborted) => aborted = true,
                None => return Err(EnqueueError::UnknownDependency { key: key.clone() }),
            }
        }
        Ok((!aborted).then(|| works.into_iter().collect()))
    }

    fn insert(&mut self, key: K, known: Known) {
        if let Known::Work(work) = known {
            self.keys.insert(work, key.clone());
        }
        self.works.insert(key, known);
    }
}

/// The same as a graph would say it.
fn node_state(phase: Phase) -> NodeState {
    match (phase, phase.state()) {
        (Phase::Waiting, _) => NodeState::Pending,
        (_, WorkState::Pending) => NodeState::Ready,
        (_, WorkState::Running) => NodeState::Running,
        (_, WorkState::Success) => NodeState::Completed,
        (_, WorkState::Failed | WorkState::Blocked | WorkState::Cancelled) => NodeState::Aborted,
    }
}

/// One priority for all.
pub(super) fn equal<K, T>() -> Arc<PriorityFn<K, T>> {
    Arc::new(|_, _| PRIORITY)
}
