//! The invariants across engines, which an engine cannot check by itself.

use windlass_core::{CapacityTree, Engine, Order, Phase, WorkId};

use super::tally::short_name;
use super::{RandomWorld, Side};

impl RandomWorld {
    pub(super) fn verify(&self) {
        self.sides.iter().for_each(|side| side.engine.check(&self.capacity));
        self.sides.iter().for_each(Side::verify_clocks);
        self.verify_that_no_engines_block_each_other();
    }

    /// Checks that the engines do not block each other: reservations bind in one order, so the head of at
    /// least one queue is not bound by a reservation of another engine.
    pub(super) fn verify_that_no_engines_block_each_other(&self) {
        let firsts = self.sides.iter().filter(|side| side.engine.first_in_queue().is_some());
        let bound: Vec<_> = firsts.map(|side| self.is_bound(&side.engine)).collect();
        assert!(
            bound.is_empty() || bound.contains(&false),
            "the engines wait for each other's reservations"
        );
    }

    /// Returns whether another engine has reserved something that the head of this queue needs.
    pub(super) fn is_bound(&self, engine: &Engine) -> bool {
        let first = engine.first_in_queue().expect("the queue is not empty");
        let (client, place) = (engine.client(), engine.queue_place(first));
        let levels = [self.capacity.level_of(client), CapacityTree::ROOT];
        engine.demand(first).iter().any(|(resource, _)| {
            levels.iter().any(|&level| {
                let free = self.capacity.free(level, self.capacity.name(resource));
                let room = self.capacity.room(client, level, resource, place, self.now);
                free.is_some_and(|free| room < free)
            })
        })
    }

    /// Checks that no limit that bounds a granted work is exceeded.
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

    /// Checks that no queued work fits after the engine has granted nothing, unless a wake-up is still
    /// undelivered.
    pub(super) fn verify_that_nothing_fits(&mut self, side: usize) {
        let Side { engine, order, .. } = &self.sides[side];
        if self.wakes.contains(&engine.client()) {
            return;
        }
        let first = engine.first_in_queue();
        let in_line =
            |work: &WorkId| matches!(engine.phase(*work), Some(Phase::Ready | Phase::Resuming));
        for work in engine.works().filter(in_line) {
            if first != Some(work) && *order == Order::Strict {
                continue;
            }
            let place = engine.queue_place(work);
            let mut trial = self.capacity.clone();
            let client = engine.client();
            let taken = trial.try_take(client, engine.demand(work), place, self.now);
            let refusal = taken.expect_err("a queued work that fits has to be granted");
            refusal.shortages.iter().for_each(|short| self.report.count(short_name(&short.why)));
        }
    }
}
