//! The contenders: each runs a case from building its graph to dropping it.

mod by_hand;
mod crates;
mod windlass;

use std::sync::Arc;

use crate::case::{Case, Machine};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// How many nodes it is given at most, because more would take all day.
    pub(crate) most: usize,
    pub(crate) kind: Kind,
    /// How many bytes of a node are what its user gave.
    pub(crate) body_bytes: usize,
}

/// What takes part where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One plain body for all nodes, which cannot wait.
    Shared,
    /// A future for each node.
    Futures,
    /// The same, so slow or so much alike to another one that it runs only where all do.
    Aside,
}

const ANY: usize = usize::MAX;

type Run = fn(&Machine, &Arc<Case>);

const fn shared(name: &'static str, run: Run) -> Contender {
    Contender { name, run, most: ANY, kind: Kind::Shared, body_bytes: 0 }
}

/// Makes a node's future when its turn has come, and keeps nothing of it before.
const fn futures(name: &'static str, run: Run) -> Contender {
    Contender { kind: Kind::Futures, ..shared(name, run) }
}

/// Keeps a closure and a name for each node.
const fn works(name: &'static str, run: Run) -> Contender {
    Contender { body_bytes: windlass::BODY_BYTES, ..futures(name, run) }
}

/// Keeps a closure for each node, and takes so long that it is given fewer of them.
const fn slow(name: &'static str, most: usize, run: Run) -> Contender {
    Contender { most, kind: Kind::Aside, body_bytes: crates::BODY_BYTES, ..futures(name, run) }
}

pub(crate) const CONTENDERS: [Contender; 14] = [
    shared("one thread, counters only", by_hand::one_thread),
    Contender {
        kind: Kind::Aside,
        ..works("names, closures and sources, in order", by_hand::in_order)
    },
    shared("windlass run_graph", windlass::run_graph),
    works("windlass", windlass::plain),
    works("windlass, everything on", windlass::everything),
    works("windlass, 64 at a time", windlass::limit_64),
    works("windlass, 2 at a time", windlass::limit_2),
    futures("tokio::spawn + atomics", by_hand::spawn_and_atomics),
    futures("JoinSet + counters", by_hand::join_set),
    futures("FuturesUnordered, one thread", by_hand::futures_unordered),
    Contender {
        kind: Kind::Aside,
        ..futures("petgraph + JoinSet", by_hand::petgraph_and_join_set)
    },
    slow("dagx 0.3", 20_000, crates::dagx),
    slow("taski 0.0.7", 10_000, crates::taski),
    slow("dagrs 0.9", 10_000, crates::dagrs),
];
