//! Random calls on a dependency graph, compared after each with a model that recomputes all states.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use windlass_core::graph::{AddEdgeError, AddNodeError, NodeError};
use windlass_core::{DependencyGraph, NodeEvent, NodeState};

type Key = u8;

/// Few enough keys that most calls hit nodes that exist, and some do not.
const KEYS: Key = 10;

#[derive(Clone, Debug)]
enum Call {
    AddNode(Key, Vec<Key>),
    AddAll(Vec<(Key, Vec<Key>)>),
    AddEdge(Key, Key),
    Start(Key),
    Complete(Key),
    Fail(Key),
    Abort(Key),
    Drain,
}

fn node() -> impl Strategy<Value = (Key, Vec<Key>)> {
    (0..KEYS, prop::collection::vec(0..KEYS, 0..3))
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (0..KEYS).prop_map(|key| Call::AddNode(key, vec![])),
        6 => node().prop_map(|(key, dependencies)| Call::AddNode(key, dependencies)),
        3 => prop::collection::vec(node(), 0..4).prop_map(Call::AddAll),
        8 => (0..KEYS, 0..KEYS).prop_map(|(from, to)| Call::AddEdge(from, to)),
        8 => (0..KEYS).prop_map(Call::Start),
        6 => (0..KEYS).prop_map(Call::Complete),
        2 => (0..KEYS).prop_map(Call::Fail),
        1 => (0..KEYS).prop_map(Call::Abort),
        1 => Just(Call::Drain),
    ]
}

/// Records the calls, not their results: the states are recomputed every time.
#[derive(Clone, Debug, Default)]
struct Model {
    /// In the order in which they were added.
    nodes: Vec<Key>,
    /// From and to, in the order in which they were added.
    edges: Vec<(Key, Key)>,
    /// The last call on each node.
    last_call: BTreeMap<Key, LastCall>,
    /// The nodes with their states, in the order in which they entered them.
    order_entered: Vec<(Key, NodeState)>,
    events: Vec<NodeEvent<Key>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LastCall {
    Start,
    Complete,
    Abort,
}

impl Model {
    fn has(&self, key: Key) -> bool {
        self.nodes.contains(&key)
    }

    fn sources(&self, key: Key) -> Vec<Key> {
        self.edges.iter().filter(|edge| edge.1 == key).map(|edge| edge.0).collect()
    }

    fn targets(&self, key: Key) -> Vec<Key> {
        self.edges.iter().filter(|edge| edge.0 == key).map(|edge| edge.1).collect()
    }

    fn ancestors(&self, key: Key) -> Vec<Key> {
        let mut found = self.sources(key);
        let mut next = 0;
        while let Some(&key) = found.get(next) {
            let new: Vec<_> =
                self.sources(key).into_iter().filter(|key| !found.contains(key)).collect();
            found.extend(new);
            next += 1;
        }
        found
    }

    fn state(&self, key: Key) -> NodeState {
        let last_call = |key: &Key| self.last_call.get(key).copied();
        let completed = |key: &Key| last_call(key) == Some(LastCall::Complete);
        let aborted = |key: &Key| last_call(key) == Some(LastCall::Abort);
        match last_call(&key) {
            Some(LastCall::Complete) => NodeState::Completed,
            _ if aborted(&key) || self.ancestors(key).iter().any(aborted) => NodeState::Aborted,
            Some(_) => NodeState::Running,
            None if self.sources(key).iter().all(completed) => NodeState::Ready,
            None => NodeState::Pending,
        }
    }

    fn state_of(&self, key: Key) -> Option<NodeState> {
        self.has(key).then(|| self.state(key))
    }

    /// Records which of these nodes changed their states, in this order.
    fn enter(&mut self, order: &[Key]) -> Vec<Key> {
        let mut changed = Vec::new();
        for &key in order {
            let state = self.state(key);
            if !self.order_entered.contains(&(key, state)) {
                self.order_entered.retain(|member| member.0 != key);
                self.order_entered.push((key, state));
                self.report(key, state);
                changed.push(key);
            }
        }
        changed
    }

    fn report(&mut self, key: Key, state: NodeState) {
        match state {
            NodeState::Ready => {
                self.events.retain(|event| *event != NodeEvent::Ready(key));
                self.events.push(NodeEvent::Ready(key));
            }
            NodeState::Completed => self.events.push(NodeEvent::Completed(key)),
            NodeState::Aborted => self.events.push(NodeEvent::Aborted(key)),
            _ => {}
        }
    }

    fn record(&mut self, key: Key, last_call: LastCall) -> Vec<Key> {
        self.last_call.insert(key, last_call);
        self.enter(&[key])
    }

    /// Returns the node and its dependents, level by level.
    fn levels(&self, key: Key) -> Vec<Key> {
        let (mut found, mut queue) = (vec![key], VecDeque::from([key]));
        while let Some(key) = queue.pop_front() {
            for target in self.targets(key) {
                // The search does not go beyond a node that was aborted before.
                if !found.contains(&target)
                    && !self.order_entered.contains(&(target, NodeState::Aborted))
                {
                    found.push(target);
                    queue.push_back(target);
                }
            }
        }
        found
    }

    fn add(&mut self, key: Key, dependencies: &[Key]) {
        self.nodes.push(key);
        for &dependency in dependencies {
            if !self.edges.contains(&(dependency, key)) {
                self.edges.push((dependency, key));
            }
        }
        self.enter(&[key]);
    }

    fn has_cycle(&self) -> bool {
        self.nodes.iter().any(|&key| self.ancestors(key).contains(&key))
    }

    fn members(&self, state: NodeState) -> Vec<Key> {
        self.order_entered
            .iter()
            .filter(|member| member.1 == state)
            .map(|member| member.0)
            .collect()
    }

    /// Repeatedly takes the first node in the order of adding that has no source left.
    fn order(&self) -> Vec<Key> {
        let mut left = self.nodes.clone();
        let mut order = Vec::new();
        while !left.is_empty() {
            let free = |key: &Key| self.sources(*key).iter().all(|source| !left.contains(source));
            let at = left.iter().position(free).expect("no cycle");
            order.push(left.remove(at));
        }
        order
    }
}

fn add_node(graph: &mut DependencyGraph<Key>, model: &mut Model, key: Key, behind: &[Key]) {
    let result = graph.add_node(key, behind.iter().copied());
    if model.has(key) {
        return assert_eq!(result, Err(AddNodeError::Duplicate { key }));
    }
    match behind.iter().find(|&&dependency| !model.has(dependency)) {
        Some(&dependency) if dependency == key => {
            assert_eq!(result, Err(AddNodeError::Cycle { path: vec![key, key] }));
        }
        Some(&dependency) => {
            assert_eq!(result, Err(AddNodeError::UnknownDependency { key, dependency }));
        }
        None => {
            model.add(key, behind);
            assert_eq!(result, Ok(model.state(key)));
        }
    }
}

fn add_all(graph: &mut DependencyGraph<Key>, model: &mut Model, given: &[(Key, Vec<Key>)]) {
    let result = graph.add_all(given.iter().cloned());
    let twice = |place: usize| given[..place].iter().any(|earlier| earlier.0 == given[place].0);
    let mut places = 0..given.len();
    if let Some(place) = places.find(|&place| model.has(given[place].0) || twice(place)) {
        return assert_eq!(result, Err(AddNodeError::Duplicate { key: given[place].0 }));
    }
    let known = |key: &Key| model.has(*key) || given.iter().any(|node| node.0 == *key);
    for (key, dependencies) in given {
        if let Some(&dependency) = dependencies.iter().find(|dependency| !known(dependency)) {
            let error = AddNodeError::UnknownDependency { key: *key, dependency };
            return assert_eq!(result, Err(error));
        }
    }
    let mut grown = model.clone();
    let mut left: Vec<_> = given.iter().collect();
    let mut ready = Vec::new();
    let free = |grown: &Model, node: &(Key, Vec<Key>)| node.1.iter().all(|key| grown.has(*key));
    while let Some(place) = left.iter().position(|node| free(&grown, node)) {
        let (key, dependencies) = left.remove(place);
        grown.add(*key, dependencies);
        if grown.state(*key) == NodeState::Ready {
            ready.push(*key);
        }
    }
    if left.is_empty() {
        *model = grown;
        return assert_eq!(result, Ok(ready));
    }
    let Err(AddNodeError::Cycle { path }) = result else { panic!("not a cycle: {result:?}") };
    let behind =
        |step: &[Key]| given.iter().any(|node| node.0 == step[1] && node.1.contains(&step[0]));
    assert!(path.len() > 1 && path.first() == path.last(), "{path:?} is closed");
    assert!(path.windows(2).all(behind), "{path:?} follows the dependencies");
}

fn add_edge(graph: &mut DependencyGraph<Key>, model: &mut Model, from: Key, to: Key) {
    let result = graph.add_edge(from, to);
    if let Some(key) = [from, to].into_iter().find(|&key| !model.has(key)) {
        return assert_eq!(result, Err(AddEdgeError::UnknownNode { key }));
    }
    let state = model.state(to);
    if !matches!(state, NodeState::Pending | NodeState::Ready) {
        return assert_eq!(result, Err(AddEdgeError::TooLate { key: to, state }));
    }
    let mut grown = model.clone();
    if !model.edges.contains(&(from, to)) {
        grown.edges.push((from, to));
    }
    if !grown.has_cycle() {
        let order = grown.levels(to);
        grown.enter(&order);
        *model = grown;
        return assert_eq!(result, Ok(model.state(to)));
    }
    let Err(AddEdgeError::Cycle { path }) = result else { panic!("not a cycle: {result:?}") };
    assert_eq!((path[0], path[1], path.last()), (from, to, Some(&from)));
    assert!(path.windows(2).all(|step| grown.edges.contains(&(step[0], step[1]))), "{path:?}");
}

fn start(graph: &mut DependencyGraph<Key>, model: &mut Model, key: Key) {
    let expected = match model.state_of(key) {
        None => Err(NodeError::Unknown { key }),
        Some(NodeState::Ready) => {
            model.record(key, LastCall::Start);
            Ok(())
        }
        Some(state) => Err(NodeError::NotReady { key, state }),
    };
    assert_eq!(graph.start(key), expected);
}

fn complete(graph: &mut DependencyGraph<Key>, model: &mut Model, key: Key) {
    let expected = match model.state_of(key) {
        None => Err(NodeError::Unknown { key }),
        Some(NodeState::Running) => {
            model.record(key, LastCall::Complete);
            Ok(model.enter(&model.targets(key)))
        }
        Some(state) => Err(NodeError::NotRunning { key, state }),
    };
    assert_eq!(graph.complete(key), expected);
}

fn fail(graph: &mut DependencyGraph<Key>, model: &mut Model, key: Key) {
    let expected = match model.state_of(key) {
        None => Err(NodeError::Unknown { key }),
        Some(NodeState::Running) => {
            model.last_call.remove(&key);
            model.enter(&[key]);
            Ok(())
        }
        Some(state) => Err(NodeError::NotRunning { key, state }),
    };
    assert_eq!(graph.fail(key), expected);
}

fn abort(graph: &mut DependencyGraph<Key>, model: &mut Model, key: Key) {
    let expected = match model.state_of(key) {
        None => Err(NodeError::Unknown { key }),
        Some(state) if state.is_terminal() => Err(NodeError::Ended { key, state }),
        Some(_) => {
            let order = model.levels(key);
            model.last_call.insert(key, LastCall::Abort);
            Ok(model.enter(&order))
        }
    };
    assert_eq!(graph.abort(key), expected);
}

fn apply(graph: &mut DependencyGraph<Key>, model: &mut Model, call: &Call) {
    match call {
        Call::AddNode(key, dependencies) => add_node(graph, model, *key, dependencies),
        Call::AddAll(given) => add_all(graph, model, given),
        Call::AddEdge(from, to) => add_edge(graph, model, *from, *to),
        Call::Start(key) => start(graph, model, *key),
        Call::Complete(key) => complete(graph, model, *key),
        Call::Fail(key) => fail(graph, model, *key),
        Call::Abort(key) => abort(graph, model, *key),
        Call::Drain => {
            let expected = std::mem::take(&mut model.events);
            assert_eq!(graph.drain_events().collect::<Vec<_>>(), expected);
        }
    }
}

fn compare(graph: &DependencyGraph<Key>, model: &Model) {
    let keys = |members: &mut dyn Iterator<Item = &Key>| members.copied().collect::<Vec<_>>();
    assert_eq!(graph.len(), model.nodes.len());
    for key in 0..KEYS {
        assert_eq!(graph.has(key), model.has(key));
        assert_eq!(graph.state(key), model.state_of(key), "state of {key}");
        let sources = graph.dependencies(key).map(|mut found| keys(&mut found));
        assert_eq!(sources, model.has(key).then(|| model.sources(key)), "dependencies of {key}");
        let targets = graph.dependents(key).map(|mut found| keys(&mut found));
        assert_eq!(targets, model.has(key).then(|| model.targets(key)), "dependents of {key}");
    }
    assert_eq!(keys(&mut graph.pending()), model.members(NodeState::Pending), "pending");
    assert_eq!(keys(&mut graph.ready()), model.members(NodeState::Ready), "ready");
    assert_eq!(keys(&mut graph.running()), model.members(NodeState::Running), "running");
    assert_eq!(keys(&mut graph.completed()), model.members(NodeState::Completed), "completed");
    assert_eq!(keys(&mut graph.aborted()), model.members(NodeState::Aborted), "aborted");
    let open = model.nodes.iter().filter(|&&key| !model.state(key).is_terminal());
    assert_eq!(graph.is_done(), open.count() == 0, "done");
    assert_eq!(keys(&mut graph.topological_sort().into_iter()), model.order(), "order");
    assert!(!graph.has_cycle());
}

/// Makes the calls on graph and model: they must agree after each, and a refusal must change
/// nothing.
fn check(calls: &[Call]) {
    let (mut graph, mut model) = (DependencyGraph::new(), Model::default());
    for call in calls {
        let before = (format!("{graph:?}"), format!("{model:?}"));
        apply(&mut graph, &mut model, call);
        compare(&graph, &model);
        if format!("{model:?}") == before.1 {
            assert_eq!(format!("{graph:?}"), before.0, "a refused call changes nothing");
        }
    }
    apply(&mut graph, &mut model, &Call::Drain);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_dependency_graph_agrees_with_a_model_that_recomputes_all_states(
        calls in prop::collection::vec(call(), 0..80)
    ) {
        check(&calls);
    }

    #[test]
    fn so_does_one_with_many_edges_from_the_start(
        keys in Just((0..KEYS).collect::<Vec<_>>()).prop_shuffle(),
        edges in prop::collection::vec((0..KEYS, 0..KEYS), 0..20),
        calls in prop::collection::vec(call(), 0..20),
    ) {
        let nodes = keys.into_iter().map(|key| Call::AddNode(key, vec![]));
        let edges = edges.into_iter().map(|(from, to)| Call::AddEdge(from, to));
        check(&nodes.chain(edges).chain(calls).collect::<Vec<_>>());
    }
}
