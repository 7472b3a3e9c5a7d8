//! The contenders: each runs a case from building its graph to dropping it.

mod by_hand;
mod crates;
mod windlass;

use std::sync::Arc;

use crate::case::{Case, Machine};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Machine, &Arc<Case>),
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

const fn shared(name: &'static str, run: fn(&Machine, &Arc<Case>)) -> Contender {
    Contender { name, run, most: ANY, kind: Kind::Shared, body_bytes: 0 }
}

const fn futures(name: &'static str, run: fn(&Machine, &Arc<Case>)) -> Contender {
    Contender { name, run, most: ANY, kind: Kind::Futures, body_bytes: by_hand::BODY_BYTES }
}

pub(crate) const CONTENDERS: [Contender; 13] = [
    shared("one thread, counters only", by_hand::one_thread),
    shared("windlass run_graph", windlass::run_graph),
    Contender { body_bytes: windlass::BODY_BYTES, ..futures("windlass", windlass::plain) },
    Contender {
        body_bytes: windlass::BODY_BYTES,
        ..futures("windlass, everything on", windlass::everything)
    },
    Contender {
        body_bytes: windlass::BODY_BYTES,
        ..futures("windlass, 64 at a time", windlass::limit_64)
    },
    Contender {
        body_bytes: windlass::BODY_BYTES,
        ..futures("windlass, 2 at a time", windlass::limit_2)
    },
    futures("tokio::spawn + atomics", by_hand::spawn_and_atomics),
    futures("JoinSet + counters", by_hand::join_set),
    futures("FuturesUnordered, one thread", by_hand::futures_unordered),
    Contender {
        kind: Kind::Aside,
        ..futures("petgraph + JoinSet", by_hand::petgraph_and_join_set)
    },
    Contender { most: 20_000, kind: Kind::Aside, ..futures("dagx 0.3", crates::dagx) },
    Contender { most: 10_000, kind: Kind::Aside, ..futures("taski 0.0.7", crates::taski) },
    Contender { most: 10_000, kind: Kind::Aside, ..futures("dagrs 0.9", crates::dagrs) },
];
