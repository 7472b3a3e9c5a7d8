//! One step of one work, and everything that has to be kept in step with it.

use super::{Engine, Work};
use crate::WorkId;
use crate::fact::{Transition, World};
use crate::phase::{IllegalStep, Phase, Step, WorkState};
use crate::queue::{Line, Waiting, Watch};

impl Engine {
    /// The only place where a work changes its phase. What depends on phases is kept in step here.
    #[inline]
    pub(super) fn step(&mut self, world: &mut World<'_>, work: WorkId, step: Step) {
        let (from, entry) = self.leave(world, work, step);
        self.hold(world, from, step, &entry);
        self.enter(work, &entry);
        if entry.is_timed() {
            self.keep_time(work, from, entry.phase);
        }
        self.report(world, work, Some(from.state()), &entry);
    }

    /// The work leaves its phase, and its place in line; from which phase, and how it is now.
    #[inline(always)]
    fn leave(&mut self, world: &mut World<'_>, work: WorkId, step: Step) -> (Phase, Work) {
        let slot = &mut self.works[work.index()];
        let (from, place) = (slot.phase, slot.ticket);
        let Ok(to) = from.after(step) else { refuse(work, from, step) };
        slot.phase = to;
        if to.is_in_line() && !from.keeps_its_place() {
            slot.join_line(self.tickets, self.now);
            self.tickets = self.tickets.saturating_add(1);
        }
        let entry = *slot;
        self.metrics.leave(from.state(), entry.retries_left);
        if let Some(line) = line(from) {
            self.lines.remove(line, entry.listing(), place, self.now);
            self.owed.take_if(|(owner, _)| *owner == work);
            if self.standing == Some(work) {
                self.withdraw(world);
            }
        }
        if let Phase::Delayed { due } = from {
            self.disarm(due, work);
        }
        (from, entry)
    }

    #[inline(always)]
    pub(super) fn enter(&mut self, work: WorkId, entry: &Work) {
        self.metrics.enter(entry.phase.state(), entry.retries_left);
        if let Some(line) = line(entry.phase) {
            self.lines.insert(line, entry.listing(), entry.waiting(work), self.now);
        }
        if let Phase::Delayed { due } = entry.phase {
            self.arm(due, work);
        }
    }

    /// Takes or gives back what the work needs. A grant has taken it already; a replayed start has
    /// not. A grant that comes to nothing was no start, and uses up nothing of a rate; neither does
    /// one who goes on.
    #[inline(always)]
    fn hold(&mut self, world: &mut World<'_>, from: Phase, step: Step, entry: &Work) {
        let demand = &self.costs[entry.cost.index()];
        if !from.holds() && entry.phase.holds() {
            match step {
                Step::Resume => world.capacity.take_again(self.client, demand),
                _ => world.capacity.take(self.client, demand, self.there()),
            }
        }
        if from.holds() && !entry.phase.holds() {
            let (wakes, watch) = match from {
                Phase::Granted => {
                    (world.capacity.take_back(self.client, demand, self.there()), Watch::Gone)
                }
                _ => (world.capacity.give_back(self.client, demand), Watch::Kept),
            };
            self.wake(world, &wakes, watch);
        }
    }

    #[inline]
    pub(super) fn report(
        &self,
        world: &mut World<'_>,
        work: WorkId,
        from: Option<WorkState>,
        entry: &Work,
    ) {
        if let Some(transitions) = &mut world.transitions {
            let (to, attempt) = (entry.phase, entry.attempts);
            transitions.push(Transition { at: self.now, work, attempt, from, to });
        }
    }
}

impl Work {
    /// As it stands in line.
    pub(super) fn waiting(&self, work: WorkId) -> Waiting {
        Waiting { work, ticket: self.ticket, since: self.ready_since }
    }
}

#[cold]
fn refuse(work: WorkId, from: Phase, step: Step) -> ! {
    panic!("work {work}: {:?}", IllegalStep { from, step })
}

/// The line in which a work in this phase stands.
#[inline]
pub(super) fn line(phase: Phase) -> Option<Line> {
    match phase {
        Phase::Ready => Some(Line::Starting),
        Phase::Resuming => Some(Line::Resuming),
        _ => None,
    }
}
