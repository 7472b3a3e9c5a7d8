//! The contenders: each runs a case from building its graph to dropping it.

mod by_hand;
mod crates;
mod windlass;

use std::sync::Arc;

use crate::case::{Case, Machine, NoLimit, Permits, Setting};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The largest number of nodes that it runs; more would take too long.
    pub(crate) most: usize,
    /// How many bytes of a node are the user's own.
    pub(crate) body_bytes: usize,
    plain: Option<Run>,
    limited: Option<Run>,
    everything: Option<Run>,
}

pub(crate) type Run = fn(&Machine, &Arc<Case>);

/// The kind of a contender, which decides in which sections it takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One synchronous body for all nodes.
    Shared,
    /// Keeps what a scheduler has to keep, and runs all nodes in turn: a lower bound for bodies that
    /// never wait.
    Floor,
    /// A future for each node.
    Futures,
    /// A future for each node, but too slow for the sections whose bodies compute.
    Slow,
}

impl Contender {
    /// Returns how this contender runs a case with this setting, if it can.
    pub(crate) fn run(&self, setting: Setting) -> Option<Run> {
        match setting {
            Setting::Plain => self.plain,
            Setting::AtMost(_) => self.limited,
            Setting::Everything => self.everything,
        }
    }
}

const NOTHING: Contender = Contender {
    name: "nothing",
    kind: Kind::Shared,
    most: usize::MAX,
    body_bytes: 0,
    plain: None,
    limited: None,
    everything: None,
};

const fn shared(name: &'static str, plain: Run) -> Contender {
    Contender { name, plain: Some(plain), ..NOTHING }
}

/// Creates the future of a node when its turn has come, and keeps nothing of it before.
const fn futures(name: &'static str, plain: Run, limited: Run) -> Contender {
    Contender { kind: Kind::Futures, limited: Some(limited), ..shared(name, plain) }
}

/// Keeps a closure for each node, and is so slow that it runs fewer of them.
const fn slow(name: &'static str, most: usize, plain: Run) -> Contender {
    Contender { kind: Kind::Slow, most, body_bytes: crates::BODY_BYTES, ..shared(name, plain) }
}

pub(crate) const CONTENDERS: [Contender; 12] = [
    shared("one thread, counters only", by_hand::one_thread),
    Contender {
        kind: Kind::Floor,
        body_bytes: windlass::BODY_BYTES,
        ..shared("names, closures and sources, in order", by_hand::in_order)
    },
    shared("windlass run_graph", windlass::run_graph),
    Contender {
        body_bytes: windlass::BODY_BYTES,
        everything: Some(windlass::everything),
        ..futures("windlass", windlass::plain, windlass::limited)
    },
    futures(
        "tokio::spawn + atomics",
        by_hand::spawn_and_atomics::<NoLimit>,
        by_hand::spawn_and_atomics::<Permits>,
    ),
    futures("JoinSet + counters", by_hand::join_set::<NoLimit>, by_hand::join_set::<Permits>),
    // Without a limit its queue would always be empty.
    Contender {
        plain: None,
        ..futures("JoinSet + queue", by_hand::join_set_and_queue, by_hand::join_set_and_queue)
    },
    futures(
        "FuturesUnordered, one thread",
        by_hand::futures_unordered::<NoLimit>,
        by_hand::futures_unordered::<Permits>,
    ),
    futures(
        "petgraph + JoinSet",
        by_hand::petgraph_and_join_set::<NoLimit>,
        by_hand::petgraph_and_join_set::<Permits>,
    ),
    slow("dagx 0.3", 20_000, crates::dagx),
    slow("taski 0.0.7", 10_000, crates::taski),
    slow("dagrs 0.9", 10_000, crates::dagrs),
];
