//! Random calls on a graph, compared after each with a model that recomputes everything.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::*;

/// Most calls hit nodes that exist; some do not.
const NODES: usize = 14;

type NewEdge = (usize, usize, EdgeKind);

#[derive(Clone, Debug)]
enum Call {
    AddNode,
    AddEdge(NewEdge),
    AddEdges(Vec<NewEdge>),
    /// A new node behind existing ones; some edges are settled.
    AddBehind(Vec<(Index, EdgeKind, bool)>),
    /// A new node with sources, as the child of an existing one.
    AddChild(Index, Vec<usize>),
    /// Removes all edges between two nodes, the first of which may be forgotten.
    Remove(usize, Index),
    Prune(usize),
    Reopen(usize),
    Meet(usize),
    Forget(usize),
}

fn kind() -> impl Strategy<Value = EdgeKind> {
    prop_oneof![Just(EdgeKind::Success), Just(EdgeKind::Done), Just(EdgeKind::Failed)]
}

fn edge() -> impl Strategy<Value = NewEdge> {
    (0..NODES, 0..NODES, kind())
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => Just(Call::AddNode),
        9 => edge().prop_map(Call::AddEdge),
        2 => prop::collection::vec(edge(), 0..5).prop_map(Call::AddEdges),
        3 => prop::collection::vec((any::<Index>(), kind(), any::<bool>()), 0..4)
            .prop_map(Call::AddBehind),
        2 => (any::<Index>(), prop::collection::vec(0..NODES, 0..3))
            .prop_map(|(parent, after)| Call::AddChild(parent, after)),
        2 => (0..NODES, any::<Index>()).prop_map(|(from, to)| Call::Remove(from, to)),
        1 => (0..NODES).prop_map(Call::Prune),
        1 => (0..NODES).prop_map(Call::Reopen),
        1 => (0..NODES).prop_map(Call::Meet),
        1 => (0..NODES).prop_map(Call::Forget),
    ]
}

/// Nodes and edges as plain lists.
#[derive(Clone, Default)]
struct Model {
    live: Vec<bool>,
    edges: Vec<ModelEdge>,
    unmet: Vec<u32>,
    /// The number of edges that order something so far.
    ordering: usize,
}

#[derive(Clone, Copy)]
struct ModelEdge {
    from: usize,
    to: usize,
    kind: EdgeKind,
    role: Role,
    /// The sequence number with which it began to order something.
    since: usize,
}

impl ModelEdge {
    fn orders(&self) -> bool {
        self.role != Role::Settled
    }

    fn waits(&self) -> bool {
        self.role != Role::Family
    }
}

impl Model {
    fn has(&self, node: usize) -> bool {
        self.live.get(node).copied().unwrap_or_default()
    }

    fn add_node(&mut self) -> usize {
        self.live.push(true);
        self.unmet.push(0);
        self.live.len() - 1
    }

    fn with(&self, edges: &[NewEdge]) -> Self {
        let mut model = self.clone();
        for &(from, to, kind) in edges {
            model.add(from, to, kind, Role::Wait);
            model.unmet[to] += 1;
        }
        model
    }

    fn add(&mut self, from: usize, to: usize, kind: EdgeKind, role: Role) {
        self.ordering += 1;
        self.edges.push(ModelEdge { from, to, kind, role, since: self.ordering });
    }

    /// Returns `node` and all that wait for it, directly or indirectly.
    fn followers(&self, node: usize) -> Vec<usize> {
        let mut found = vec![false; self.live.len()];
        found[node] = true;
        for _ in 0..self.live.len() {
            for edge in self.edges.iter().filter(|edge| edge.waits() && self.has(edge.to)) {
                found[edge.to] |= found[edge.from];
            }
        }
        (0..found.len()).filter(|&node| found[node]).collect()
    }

    /// Returns the model with all edges among `nodes` unmet again.
    fn reopened(&self, nodes: &[usize]) -> Self {
        let mut model = self.clone();
        for &node in nodes {
            model.unmet[node] = 0;
            for edge in model.edges.iter_mut().filter(|edge| edge.to == node && edge.waits()) {
                if nodes.contains(&edge.from) {
                    model.unmet[node] += 1;
                    if edge.role == Role::Settled {
                        model.ordering += 1;
                        (edge.role, edge.since) = (Role::Wait, model.ordering);
                    }
                }
            }
        }
        model
    }

    /// Iterates over the targets of the ordering edges out of `node`.
    fn next(&self, node: usize) -> impl Iterator<Item = usize> {
        let ordering = self.edges.iter().filter(move |edge| edge.from == node && edge.orders());
        ordering.map(|edge| edge.to).filter(|&to| self.has(to))
    }

    fn reaches(&self, from: usize, goal: usize) -> bool {
        let mut seen = vec![false; self.live.len()];
        let mut stack: Vec<_> = self.next(from).collect();
        while let Some(node) = stack.pop() {
            if node == goal {
                return true;
            }
            if !std::mem::replace(&mut seen[node], true) {
                stack.extend(self.next(node));
            }
        }
        false
    }

    fn has_cycle(&self) -> bool {
        (0..self.live.len()).any(|node| self.has(node) && self.reaches(node, node))
    }

    /// Repeatedly takes the smallest node whose sources are all in the order.
    fn order(&self) -> Vec<usize> {
        let mut left: Vec<_> = (0..self.live.len()).filter(|&node| self.has(node)).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let behind = |node| left.iter().any(|&from| self.next(from).any(|to| to == node));
            let at = left.iter().position(|&node| !behind(node)).expect("no cycle");
            order.push(left.remove(at));
        }
        order
    }

    /// Returns the answer that `add_edges` has to give, apart from the cycle it names.
    fn edge_outcome(&self, edges: &[NewEdge]) -> Answer {
        let mut ends = edges.iter().flat_map(|&(from, to, _)| [from, to]);
        match ends.find(|&node| !self.has(node)) {
            Some(node) => Answer::Unknown(node),
            None if self.with(edges).has_cycle() => Answer::Cycle,
            None => Answer::Fine,
        }
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Fine,
    Unknown(usize),
    Cycle,
}

/// Makes the call on graph and model: they must agree, and a refusal must change nothing.
fn add(dag: &mut Dag, model: &mut Model, edges: &[NewEdge], one: bool) {
    let before = format!("{dag:?}");
    let result = match edges {
        [(from, to, kind)] if one => dag.add_edge(*from, *to, *kind),
        edges => dag.add_edges(edges),
    };
    let edge_outcome = match &result {
        Ok(()) => Answer::Fine,
        Err(EdgeError::UnknownNode { node }) => Answer::Unknown(*node),
        Err(EdgeError::Cycle { path }) => {
            check_path(path, model, edges);
            Answer::Cycle
        }
    };
    assert_eq!(edge_outcome, model.edge_outcome(edges));
    match result {
        Ok(()) => *model = model.with(edges),
        Err(_) => assert_eq!(format!("{dag:?}"), before, "a refused call changes nothing"),
    }
}

/// Checks that the path is closed, simple, along present or new edges, and begins with the first
/// new edge on it.
fn check_path(path: &[usize], model: &Model, edges: &[NewEdge]) {
    let asked = |step: &[usize]| edges.iter().position(|edge| [edge.0, edge.1] == step[..]);
    let there = |step: &[usize]| model.next(step[0]).any(|to| to == step[1]);
    assert_eq!(path.first(), path.last(), "{path:?} is closed");
    assert!(path.windows(2).all(|step| there(step) || asked(step).is_some()), "{path:?}");
    let mut nodes = path[1..].to_vec();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), path.len() - 1, "{path:?} comes around once");
    assert!(asked(&path[..2]).is_some(), "{path:?} begins with a refused edge");
}

fn apply(dag: &mut Dag, model: &mut Model, call: &Call) {
    match call {
        Call::AddNode => assert_eq!(dag.add_node([]), model.add_node()),
        Call::AddEdge(edge) => add(dag, model, &[*edge], true),
        Call::AddEdges(edges) => add(dag, model, edges, false),
        Call::AddBehind(sources) => add_behind(dag, model, sources),
        Call::AddChild(parent, after) => add_child(dag, model, parent, after),
        Call::Remove(from, to) => remove(dag, model, *from, to),
        Call::Prune(parent) => {
            if model.has(*parent) {
                dag.prune_children(*parent);
                let live = model.live.clone();
                let pruned = |edge: &ModelEdge| !edge.waits() && edge.to == *parent;
                model.edges.retain(|edge| !pruned(edge) || live[edge.from]);
            }
        }
        Call::Reopen(node) => {
            if model.has(*node) {
                reopen(dag, model, *node);
            }
        }
        Call::Meet(node) => {
            if model.has(*node) && model.unmet[*node] > 0 {
                model.unmet[*node] -= 1;
                assert_eq!(dag.meet(*node), model.unmet[*node]);
            }
        }
        Call::Forget(node) => {
            if model.has(*node) {
                dag.forget(*node);
                model.live[*node] = false;
            }
        }
    }
}

fn add_behind(dag: &mut Dag, model: &mut Model, sources: &[(Index, EdgeKind, bool)]) {
    let live: Vec<_> = (0..model.live.len()).filter(|&node| model.has(node)).collect();
    let sources: Vec<_> = match live[..] {
        [] => Vec::new(),
        _ => sources.iter().map(|(from, kind, ends)| (*from.get(&live), *kind, *ends)).collect(),
    };
    let to = dag.add_node(sources.iter().map(|&(node, kind, has_ended)| {
        (Edge { node, kind }, has_ended.then_some(EdgeOutcome::Met))
    }));
    assert_eq!(to, model.add_node());
    for (from, kind, has_ended) in sources {
        if has_ended {
            model.add(from, to, kind, Role::Settled);
        } else {
            *model = model.with(&[(from, to, kind)]);
        }
    }
}

/// As an engine does, counts those as met that were removed while they were not.
fn remove(dag: &mut Dag, model: &mut Model, from: usize, to: &Index) {
    let live: Vec<_> = (0..model.live.len()).filter(|&node| model.has(node)).collect();
    if live.is_empty() {
        return;
    }
    let to = *to.get(&live);
    let goes = |edge: &ModelEdge| edge.waits() && (edge.from, edge.to) == (from, to);
    let waits = model.edges.iter().filter(|edge| goes(edge) && edge.role == Role::Wait).count();
    model.edges.retain(|edge| !goes(edge));
    assert_eq!(dag.remove_edges(from, to), waits);
    for _ in 0..waits {
        if model.unmet[to] > 0 {
            model.unmet[to] -= 1;
            dag.meet(to);
        }
    }
}

/// A child is refused exactly if it would wait for itself through its parent; then no edge is
/// added.
fn add_child(dag: &mut Dag, model: &mut Model, parent: &Index, after: &[usize]) {
    let live: Vec<_> = (0..model.live.len()).filter(|&node| model.has(node)).collect();
    if live.is_empty() {
        return;
    }
    let parent = *parent.get(&live);
    let after: Vec<_> = after.iter().copied().filter(|&node| model.has(node)).collect();
    let ordered = after.iter().try_for_each(|&source| dag.order(source, parent));
    let circular = |&source: &usize| source == parent || model.reaches(parent, source);
    assert_eq!(ordered.is_err(), after.iter().any(circular));
    if ordered.is_err() {
        return;
    }
    let child = dag.add_node(after.iter().map(|&node| (Edge { node, kind: EdgeKind::Done }, None)));
    assert_eq!(child, model.add_node());
    for source in after {
        *model = model.with(&[(source, child, EdgeKind::Done)]);
    }
    dag.add_child(child, parent).expect("all before it are ordered before its parent");
    model.add(child, parent, EdgeKind::Done, Role::Family);
}

/// Reopens all that follow `node`, or none if they would wait for themselves.
fn reopen(dag: &mut Dag, model: &mut Model, node: usize) {
    let nodes = dag.followers(node);
    assert_eq!(nodes, model.followers(node));
    let reopened = model.reopened(&nodes);
    let allowed = dag.expect_reopenable(&nodes);
    assert_eq!(allowed.is_err(), reopened.has_cycle(), "{allowed:?}");
    if allowed.is_ok() {
        nodes.iter().for_each(|&node| dag.reopen_edges(node, |from| nodes.contains(&from)));
        *model = reopened;
    }
}

fn compare(dag: &Dag, model: &Model) {
    assert_eq!(dag.len(), model.live.len());
    assert_eq!(dag.topological_order(), model.order());
    for node in (0..model.live.len()).filter(|&node| model.has(node)) {
        let sources = model.edges.iter().filter(|edge| edge.to == node && edge.waits());
        let sources: Vec<_> =
            sources.map(|edge| Edge { node: edge.from, kind: edge.kind }).collect();
        let targets =
            model.edges.iter().filter(|edge| edge.from == node && edge.role == Role::Wait);
        let mut targets: Vec<_> = targets.filter(|edge| model.has(edge.to)).collect();
        targets.sort_by_key(|edge| edge.since);
        let targets = targets.iter();
        let targets: Vec<_> = targets.map(|edge| Edge { node: edge.to, kind: edge.kind }).collect();
        assert_eq!(dag.sources(node).collect::<Vec<_>>(), sources, "sources of {node}");
        assert_eq!(dag.targets(node).collect::<Vec<_>>(), targets, "targets of {node}");
        assert_eq!(dag.unmet(node), model.unmet[node], "unmet of {node}");
        let place = |node: usize| dag.nodes[node].place;
        assert!(model.next(node).all(|to| place(node) < place(to)), "targets of {node} are above");
    }
    compare_pool(dag, model);
}

/// An edge is stored exactly while one of its ends is; a settled edge while its target is.
fn compare_pool(dag: &Dag, model: &Model) {
    let kept = |edge: &&ModelEdge| model.has(edge.to) || (edge.orders() && model.has(edge.from));
    let kept = model.edges.iter().filter(kept).count();
    let free = std::iter::successors(dag.free, |&id| dag.link(id).next_out).count();
    assert_eq!(dag.links.pushed() - free, kept, "links in use");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_agrees_with_a_model_that_recomputes_everything(
        calls in prop::collection::vec(call(), 0..60)
    ) {
        let (mut dag, mut model) = (Dag::new(), Model::default());
        for call in &calls {
            apply(&mut dag, &mut model, call);
            compare(&dag, &model);
        }
    }

    #[test]
    fn a_crowded_graph_stays_in_order(
        edges in prop::collection::vec(edge(), 0..40)
    ) {
        let (mut dag, mut model) = (Dag::new(), Model::default());
        (0..NODES).for_each(|_| assert_eq!(dag.add_node([]), model.add_node()));
        for edge in &edges {
            add(&mut dag, &mut model, &[*edge], true);
            compare(&dag, &model);
        }
    }
}
