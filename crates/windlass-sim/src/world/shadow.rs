//! A shadow of an engine: it sees only the stored facts, on a capacity tree of its own.

use windlass_core::{CapacityTree, CostId, Engine, Fact, ResourceCost, World};

pub(super) struct Shadow {
    pub(super) engine: Engine,
    pub(super) capacity: CapacityTree,
}

impl Shadow {
    pub(super) fn cost(&mut self, needs: &ResourceCost) -> CostId {
        // The shadow's tree does not see all changes of limits, so the cost is registered separately.
        self.engine.cost(&self.capacity, needs).expect("it is declared here too")
    }

    pub(super) fn follow(&mut self, facts: &[Fact]) {
        for fact in facts {
            let stored = windlass_store::encode(fact);
            let fact = windlass_store::decode(&stored).expect("it was encoded just now");
            let mut world = World {
                now: fact.at,
                capacity: &mut self.capacity,
                facts: None,
                transitions: None,
                wakes: &mut Vec::new(),
            };
            self.engine.evolve(&mut world, &fact);
            self.engine.check(&self.capacity);
        }
    }
}
