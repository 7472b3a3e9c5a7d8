//! The faults stop, and everything must reach an end.

use windlass_core::{Amount, CapacityTree, Input, Outcome, Phase};

use super::{RandomWorld, Side, amounts};

const CALM_ROUNDS: usize = 10_000;

impl RandomWorld {
    /// No more faults: everything that can go on does, until nothing is left.
    pub(super) fn calm_down(&mut self) {
        self.tell("the faults stop".to_owned());
        let root = amounts(&[("cpu", 6)]);
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &root));
        for side in 0..self.sides.len() {
            let level = self.capacity.level_of(self.sides[side].engine.client());
            let cpu = self.capacity.resource("cpu").expect("it was declared");
            let limit = Amount::from(5);
            self.call(side, |engine, world| engine.set_limit(world, level, cpu, limit));
            self.sides[side].look = true;
        }
        for _ in 0..CALM_ROUNDS {
            if !self.calm_round() {
                return self.report_ends();
            }
        }
        panic!("not everything ends");
    }

    /// Everything moves a little; whether anything is left.
    pub(super) fn calm_round(&mut self) -> bool {
        for client in std::mem::take(&mut self.wakes) {
            self.look_again(client);
        }
        let moved = (0..self.sides.len()).filter(|&side| self.go_on(side)).count() > 0;
        self.verify();
        if self.sides.iter().all(|side| side.engine.is_done()) {
            return false;
        }
        let due = self.sides.iter().filter_map(|side| side.engine.next_wakeup()).min();
        match due {
            _ if moved || !self.wakes.is_empty() => {}
            Some(due) => {
                assert!(due > self.now, "a wake-up that has passed must change something");
                self.now = due;
                self.sides.iter_mut().for_each(|side| side.look = true);
            }
            None => panic!("nothing moves, and not everything has ended"),
        }
        true
    }

    /// Starts what may start, and ends one attempt; whether anything happened.
    pub(super) fn go_on(&mut self, side: usize) -> bool {
        let engine = &self.sides[side].engine;
        let phase = |work| engine.phase(work).expect("it is one of its works");
        let rung: Vec<_> = engine.works().filter(|&w| phase(w) == Phase::Ticketed).collect();
        let mut moved = !rung.is_empty();
        rung.iter().for_each(|&work| self.apply(side, Input::Ring(work)));
        self.apply(side, Input::Tick);
        if std::mem::take(&mut self.sides[side].look) {
            while let Some(grant) = self.take_one(side) {
                self.begin(side, grant);
                moved = true;
            }
            self.verify_that_nothing_fits(side);
        }
        if !self.sides[side].running.is_empty() {
            self.end(side, 0, Outcome::Success);
            moved = true;
        }
        moved
    }

    pub(super) fn report_ends(&mut self) {
        for Side { engine, .. } in &self.sides {
            for work in engine.works() {
                let end = match engine.phase(work) {
                    Some(Phase::Skipped) => "end: skipped",
                    Some(Phase::Success) => "end: success",
                    Some(Phase::Failed) => "end: failed",
                    Some(Phase::Blocked) => "end: blocked",
                    Some(Phase::Cancelled) => "end: cancelled",
                    other => panic!("work {work} has not ended: {other:?}"),
                };
                self.report.count(end);
            }
        }
        let free = ["cpu", "memory"].map(|name| self.capacity.free(CapacityTree::ROOT, name));
        assert_eq!(free, [Some(6 * 10_000), Some(10 * 10_000)], "everything was given back");
    }
}
