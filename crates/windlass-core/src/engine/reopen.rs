//! A person's retry: an ended work and everything that follows it begin anew.

use std::collections::VecDeque;

use super::Engine;
use super::edges::cycle;
use super::work::Gate;
use crate::WorkId;
use crate::dag::Verdict;
use crate::fact::World;
use crate::input::Rejected;
use crate::phase::{Phase, Step, WorkState};

impl Engine {
    /// The works that [`Input::Reopen`](crate::Input::Reopen) would have tried again: `work` and all
    /// that follow it. Refused for what has not failed and was not cancelled, and if that would pull
    /// a work under way or a child along, or have works wait for each other.
    pub fn would_reopen(&self, work: WorkId) -> Result<Vec<WorkId>, Rejected> {
        let phase = self.work(work)?.phase;
        if !matches!(phase, Phase::Failed | Phase::Cancelled) {
            return Err(Rejected::NotReopenable { work });
        }
        let entangled = |work: &WorkId| {
            let running = self.works[work.index()].phase.state() == WorkState::Running;
            running || self.parent(*work).is_some()
        };
        let generation = self.generation(work);
        if let Some(&work) = generation.iter().find(|work| entangled(work)) {
            return Err(Rejected::Entangled { work });
        }
        let nodes: Vec<_> = generation.iter().map(|work| work.index()).collect();
        let opened = self.dag.expect_reopenable(&nodes);
        opened.map_err(|error| Rejected::Cycle { path: cycle(error) })?;
        Ok(generation)
    }

    /// The works that begin anew together: `work` and all that follow it. One that was blocked by a
    /// work that is forgotten now stays blocked: nobody can try that one again.
    fn generation(&self, work: WorkId) -> Vec<WorkId> {
        let lost = |index: &usize| self.dag.words(*index).any(|said| said == Verdict::Blocks);
        let lost = |index: &usize| self.works[*index].phase == Phase::Blocked && lost(index);
        let followers = self.dag.followers(work.index()).into_iter();
        let known = followers.filter(|index| self.works.get(*index).is_some());
        known.filter(|index| !lost(index)).map(WorkId::from_index).collect()
    }

    pub(super) fn reopen(&mut self, world: &mut World<'_>, work: WorkId) {
        let generation = self.generation(work);
        for &work in &generation {
            self.reset(world, work);
        }
        let mut ended = VecDeque::new();
        for &work in &generation {
            let is_open = |node: usize| self.works.get(node).is_some_and(super::Work::is_open);
            self.dag.reopen_edges(work.index(), is_open);
        }
        for &work in &generation {
            if let Some(step) = self.first_step(work) {
                self.step(world, work, step);
                if self.works[work.index()].phase.state().is_terminal() {
                    ended.push_back(work);
                }
            }
        }
        self.settle_all(world, ended);
    }

    /// The work waits, with all its retries and before its gate; its children are forgotten, and so is its deadline.
    fn reset(&mut self, world: &mut World<'_>, work: WorkId) {
        self.disband(work);
        let spent = self.spent.remove(&work).unwrap_or(0);
        let entry = &mut self.works[work.index()];
        entry.retries_left += spent;
        // One that has ended is counted again, with all of them, when it leaves its end.
        if entry.is_open() {
            self.metrics.retries_left += u64::from(spent);
        }
        entry.unneeded = false;
        if entry.gate == Gate::Open {
            entry.gate = Gate::Shut;
        }
        let deadline = self.times.get_mut(&work).and_then(|times| times.deadline.take());
        if let Some(deadline) = deadline {
            self.disarm(deadline, work);
        }
        if self.works[work.index()].phase != Phase::Waiting {
            self.step(world, work, Step::Reopen);
        }
    }

    /// What its edges say of a work that has just begun anew; none if it has to wait for them.
    fn first_step(&mut self, work: WorkId) -> Option<Step> {
        let node = work.index();
        let said: Vec<_> = self.verdicts(node).flatten().collect();
        let entry = &mut self.works[node];
        entry.unneeded = said.contains(&Verdict::Unneeded);
        match self.dag.unmet(node) {
            _ if said.contains(&Verdict::Blocks) => Some(Step::Block),
            0 if entry.unneeded => Some(Step::Skip),
            0 if entry.is_shut() => Some(Step::ReachGate),
            0 => Some(Step::Unblock),
            _ => None,
        }
    }
}
