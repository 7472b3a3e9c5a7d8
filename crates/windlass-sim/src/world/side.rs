//! One engine with the state of its driver, and the tree that all engines share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::{
    Ageing, Amount, CapacityTree, ClientId, Engine, EngineConfig, Fact, Grant, Happening, Order,
    Quota, Random, Rate, ResourceCost, SLOTS, Timestamp, WorkId,
};

use super::Shadow;
use super::clock::Clocks;

/// One engine, and the state of its driver.
pub(super) struct Side {
    pub(super) engine: Engine,
    pub(super) order: Order,
    pub(super) running: Vec<Grant>,
    pub(super) past: Vec<Grant>,
    /// The works that have gates.
    pub(super) gated: BTreeSet<WorkId>,
    /// The works whose gates have not opened.
    pub(super) closed: BTreeSet<WorkId>,
    pub(super) clocks: Clocks,
    /// When the engine was last called.
    pub(super) called: Timestamp,
    /// The retry budget of each work.
    pub(super) retries: BTreeMap<WorkId, u32>,
    /// Whether the engine may have a grant.
    pub(super) look: bool,
    pub(super) shadow: Shadow,
}

pub(super) fn amounts(pairs: &[(&str, u32)]) -> ResourceCost {
    pairs.iter().map(|&(name, n)| (name.to_owned(), Amount::from(n))).collect()
}

/// Creates the tree: a root, and for each side a team with slots of its own.
pub(super) fn tree(sides: u64) -> (CapacityTree, Vec<ClientId>) {
    let mut tree = CapacityTree::new(&amounts(&[("cpu", 6), ("memory", 10)]));
    let (root, start) = (CapacityTree::ROOT, Timestamp::ZERO);
    let rate =
        Rate { amount: Amount::from(2), per: Duration::from_secs(1), burst: Amount::from(3) };
    tree.set_rate(root, "api", rate, start).expect("a rate that makes sense");
    let quota = Quota { amount: Amount::from(8), window: Duration::from_secs(20) };
    tree.set_quota(root, "daily", quota, start).expect("a quota that makes sense");
    let clients = (0..sides).map(|_| {
        let team = tree.add_level(CapacityTree::ROOT, &amounts(&[("cpu", 5), (SLOTS, 4)]));
        tree.add_client(team)
    });
    let clients = clients.collect();
    (tree, clients)
}

impl Side {
    pub(super) fn new(random: &mut Random, client: ClientId, sides: u64) -> Self {
        let mut config = EngineConfig::default();
        let tenth: Amount = "0.001".parse().expect("an amount");
        config.ageing = match random.within(0..3) {
            0 => Ageing::NONE,
            1 => Ageing::new(tenth, None).expect("a small rate"),
            _ => Ageing::new(tenth, Some(Amount::from(2))).expect("a small rate"),
        };
        config.order = if random.one_in(5) { Order::Strict } else { Order::PassOver };
        let order = config.order;
        let engine = Engine::new(config, client);
        let shadow = Shadow { engine: engine.clone(), capacity: tree(sides).0 };
        Self {
            engine,
            order,
            running: Vec::new(),
            past: Vec::new(),
            gated: BTreeSet::new(),
            closed: BTreeSet::new(),
            clocks: Clocks::default(),
            called: Timestamp::ZERO,
            retries: BTreeMap::new(),
            look: false,
            shadow,
        }
    }

    pub(super) fn note_gates(&mut self, facts: &[Fact]) {
        for fact in facts {
            if let Happening::GateOpened { work } = fact.what {
                self.closed.remove(&work);
            }
        }
    }

    /// Closes the gate of a reopened work again.
    pub(super) fn close_again(&mut self, work: WorkId) {
        self.closed.extend(self.gated.get(&work));
    }

    /// Checks the clocks at the time of the last call to the engine.
    pub(super) fn verify_clocks(&self) {
        self.clocks.verify(&self.engine, self.called);
    }
}
