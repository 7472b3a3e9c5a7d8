//! Faults: late inputs, jumps of time, changed limits, delayed wake-ups, dead engines.

use std::time::Duration;

use windlass_core::{Amount, CapacityTree, ClientId, Input, Outcome, Phase, WorkId};

use super::{RandomWorld, amounts};

impl RandomWorld {
    pub(super) fn report_late(&mut self, side: usize) {
        if self.sides[side].past.is_empty() {
            return;
        }
        let grant = *self.random.pick(&self.sides[side].past);
        let late = match self.random.within(0..4) {
            0 => Input::Suspend(grant),
            1 => Input::ResumeRequested(grant),
            2 => Input::Join(grant),
            _ => Input::Finished { grant, outcome: Outcome::Success },
        };
        self.refused(side, late);
        self.report.count("late input");
    }

    pub(super) fn let_time_pass(&mut self) {
        let most = if self.random.one_in(6) { 60_000 } else { 1500 };
        self.now = self.now.after(Duration::from_millis(self.random.within(0..most)));
        // The timer of a driver would wake it.
        self.sides.iter_mut().for_each(|side| side.look = true);
    }

    pub(super) fn change_team_limit(&mut self, side: usize) {
        let level = self.capacity.level_of(self.sides[side].engine.client());
        let cpu = self.capacity.resource("cpu").expect("it was declared");
        let limit = Amount::from(self.random.within(0..7) as u32);
        self.log_step(format!("{side}: team limit {limit}"));
        self.call(side, |engine, world| engine.set_limit(world, level, cpu, limit));
        self.sides[side].look = true;
    }

    pub(super) fn change_root_limit(&mut self) {
        let limits = amounts(&[("cpu", self.random.within(0..8) as u32)]);
        self.log_step(format!("root limit {limits}"));
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &limits));
    }

    /// Kills the engine; another one takes over with nothing but the stored facts. Its attempts are lost,
    /// and what it held is free.
    pub(super) fn take_over(&mut self, side: usize) {
        self.log_step(format!("{side}: take-over"));
        self.report.count("take-over");
        let client = self.sides[side].engine.client();
        let level = self.capacity.level_of(client);
        self.wakes.extend(self.capacity.remove_client(client));
        self.wakes.retain(|woken| *woken != client);
        assert_eq!(self.capacity.add_client(level), client, "its number is free");
        let successor = self.sides[side].shadow.engine.clone();
        let holds = |work: &WorkId| successor.phase(*work).is_some_and(Phase::holds);
        for work in successor.works().filter(holds) {
            self.capacity.take(client, successor.demand(work), self.now);
        }
        self.sides[side].engine = successor;
        self.sides[side].look = true;
        self.apply(side, Input::Tick);
        self.lose_attempts(side);
    }

    /// Ends all attempts as lost. The children of a lost attempt are useless, so they end before it.
    fn lose_attempts(&mut self, side: usize) {
        self.sides[side].running.sort_unstable_by_key(|grant| grant.work);
        for grant in self.sides[side].running.clone() {
            self.apply(side, Input::StopChildren(grant.work));
        }
        // Children have larger ids than their parents.
        while let Some(last) = self.sides[side].running.len().checked_sub(1) {
            self.end(side, last, Outcome::Interrupted);
        }
    }

    /// Delivers some of the pending wake-ups.
    pub(super) fn deliver(&mut self) {
        for client in std::mem::take(&mut self.wakes) {
            if self.random.one_in(3) {
                self.wakes.push(client);
            } else {
                self.look_again(client);
            }
        }
    }

    pub(super) fn look_again(&mut self, client: ClientId) {
        let side = self.sides.iter().position(|side| side.engine.client() == client);
        let side = side.expect("each client belongs to a side");
        self.apply(side, Input::RetrySearch);
        self.sides[side].look = true;
        self.report.count("wake");
    }
}
