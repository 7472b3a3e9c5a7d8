//! The second phase: the faults stop, and every work must end.

use windlass_core::{Amount, CapacityTree, Grant, Input, Outcome, Phase, WorkId};

use super::{RandomWorld, Side, amounts};

const CALM_ROUNDS: usize = 10_000;

impl RandomWorld {
    /// Stops the faults and runs everything to its end.
    pub(super) fn calm_down(&mut self) {
        self.log_step("the faults stop".to_owned());
        let root = amounts(&[("cpu", 6)]);
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &root));
        for side in 0..self.sides.len() {
            let level = self.capacity.level_of(self.sides[side].engine.client());
            let cpu = self.capacity.resource("cpu").expect("it was declared");
            let limit = Amount::from(5);
            self.call(side, |engine, world| engine.set_limit(world, level, cpu, limit));
            self.apply(side, Input::Tick);
            self.unpause_all(side);
            for work in self.sides[side].engine.works().collect::<Vec<_>>() {
                self.apply(side, Input::Unpause(work));
            }
            self.sides[side].look = true;
        }
        for _ in 0..CALM_ROUNDS {
            if !self.calm_round() {
                return self.report_ends();
            }
        }
        panic!("some works never end");
    }

    /// Does one round on every engine. Returns whether any work has not ended.
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
            None => panic!("no engine can go on, but some works have not ended"),
        }
        true
    }

    /// Starts what may start, and ends one attempt. Returns whether anything happened.
    fn go_on(&mut self, side: usize) -> bool {
        self.apply(side, Input::Tick);
        let mut moved = self.help_on(side);
        if std::mem::take(&mut self.sides[side].look) {
            while let Some(grant) = self.take_one(side) {
                if !self.has_resumed(side, grant) {
                    self.begin(side, grant);
                }
                moved = true;
            }
            self.verify_that_nothing_fits(side);
        }
        let can_end = |grant: &Grant| {
            let waits = matches!(self.phase(side, grant.work), Phase::Suspended | Phase::Resuming);
            !waits && self.sides[side].engine.children(grant.work).open() == 0
        };
        if let Some(place) = self.sides[side].running.iter().position(can_end) {
            self.end(side, place, Outcome::Success);
            moved = true;
        }
        moved
    }

    /// Lets works go on that wait for an input from outside. Returns whether there were any.
    fn help_on(&mut self, side: usize) -> bool {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        let inputs: Vec<_> = works.into_iter().filter_map(|work| self.help(side, work)).collect();
        inputs.iter().for_each(|&input| self.apply(side, input));
        !inputs.is_empty()
    }

    /// Returns the input that lets `work` go on.
    fn help(&self, side: usize, work: WorkId) -> Option<Input> {
        let Side { engine, .. } = &self.sides[side];
        let grant = Grant { work, attempt: engine.attempts(work)? };
        match self.phase(side, work) {
            Phase::WaitingOutside => Some(Input::Notify(work)),
            Phase::Gated => Some(Input::Open(work)),
            Phase::Suspended => Some(Input::ResumeRequested(grant)),
            Phase::Halted => Some(Input::Continue(grant)),
            Phase::Running if engine.children(work).open() > 0 => Some(Input::Join(grant)),
            _ => None,
        }
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
        assert_eq!(free, [Some(6 * 10_000), Some(10 * 10_000)], "all resources were released");
    }
}
