//! What must hold after every step, beyond what an engine verifies by itself.

use windlass_core::{CapacityTree, Engine, Order, Phase, WorkId};

use super::tally::short_name;
use super::{RandomWorld, Side};

impl RandomWorld {
    pub(super) fn verify(&self) {
        self.sides.iter().for_each(|side| side.engine.check(&self.capacity));
        self.sides.iter().for_each(Side::verify_clocks);
        self.verify_that_nobody_waits_in_a_circle();
    }

    /// Set-asides bind in one order, so of all who are first in line somewhere at least one is bound
    /// by nobody else's.
    pub(super) fn verify_that_nobody_waits_in_a_circle(&self) {
        let firsts = self.sides.iter().filter(|side| side.engine.first_in_line().is_some());
        let bound: Vec<_> = firsts.map(|side| self.is_bound(&side.engine)).collect();
        assert!(bound.is_empty() || bound.contains(&false), "all wait for each other's set-asides");
    }

    /// Whether something that the first in line needs is set aside for another engine.
    pub(super) fn is_bound(&self, engine: &Engine) -> bool {
        let first = engine.first_in_line().expect("someone waits");
        let (client, place) = (engine.client(), engine.place_in_line(first));
        let levels = [self.capacity.level_of(client), CapacityTree::ROOT];
        engine.demand(first).iter().any(|(resource, _)| {
            levels.iter().any(|&level| {
                let free = self.capacity.free(level, self.capacity.name(resource));
                let room = self.capacity.room(client, level, resource, place, self.now);
                free.is_some_and(|free| room < free)
            })
        })
    }

    /// What was granted just now is within every limit that bounds it.
    pub(super) fn verify_limits(&self, side: usize, work: WorkId) {
        let Side { engine, .. } = &self.sides[side];
        let team = self.capacity.level_of(engine.client());
        for level in [team, CapacityTree::ROOT] {
            for (resource, _) in engine.demand(work).iter() {
                let name = self.capacity.name(resource);
                let free = self.capacity.free(level, name);
                assert!(free.is_none_or(|free| free >= 0), "{name} is over its limit");
            }
        }
    }

    /// The engine says that nothing fits: every work in line is really refused, unless word that there
    /// is more is still on its way.
    pub(super) fn verify_that_nothing_fits(&mut self, side: usize) {
        let Side { engine, order, .. } = &self.sides[side];
        if self.wakes.contains(&engine.client()) {
            return;
        }
        let first = engine.first_in_line();
        let in_line =
            |work: &WorkId| matches!(engine.phase(*work), Some(Phase::Ready | Phase::Resuming));
        for work in engine.works().filter(in_line) {
            if first != Some(work) && *order == Order::Strict {
                continue;
            }
            let place = engine.place_in_line(work);
            let mut trial = self.capacity.clone();
            let client = engine.client();
            let taken = trial.try_take(client, engine.demand(work), place, self.now);
            let refusal = taken.expect_err("a work in line that fits has to go on");
            refusal.shortages.iter().for_each(|short| self.report.count(short_name(&short.why)));
        }
    }
}
