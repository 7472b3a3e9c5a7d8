//! One step of one work, and everything that has to be kept in step with it.

use super::{Engine, Work};
use crate::WorkId;
use crate::fact::{Transition, World};
use crate::phase::{IllegalStep, Phase, Step, WorkState};
use crate::queue::{Line, Waiting};

impl Engine {
    /// The only place where a work changes its phase. What depends on phases is kept in step here.
    pub(super) fn step(&mut self, world: &mut World<'_>, work: WorkId, step: Step) {
        self.make_step(world, work, step);
    }

    /// The same, made anew for each step that most works make.
    #[inline(always)]
    pub(super) fn make_step(&mut self, world: &mut World<'_>, work: WorkId, step: Step) {
        let (from, entry) = self.leave(world, work, step);
        self.hold(world, from, step, &entry);
        self.settle_in(world, work, from, &entry);
    }

    /// The same for somebody who puts down elsewhere what the work takes or gives back.
    #[inline(always)]
    pub(super) fn make_bare_step(&mut self, world: &mut World<'_>, work: WorkId, step: Step) {
        let (from, entry) = self.leave(world, work, step);
        self.settle_in(world, work, from, &entry);
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

    /// It is where it has gone, and that is told.
    #[inline(always)]
    fn settle_in(&mut self, world: &mut World<'_>, work: WorkId, from: Phase, entry: &Work) {
        self.enter(work, entry);
        if entry.is_timed() {
            self.keep_time(work, from, entry.phase);
        }
        self.report(world, work, Some(from.state()), entry);
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
                Step::Start if self.kept.take().is_some() => world.capacity.pass_on(self.client),
                Step::Resume => world.capacity.take_again(self.client, demand),
                _ => world.capacity.take(self.client, demand, self.there()),
            }
        }
        if from.holds() && !entry.phase.holds() {
            if self.kept.is_some() {
                return;
            }
            let wakes = match from {
                Phase::Granted => world.capacity.take_back(self.client, demand, self.there()),
                _ => world.capacity.give_back(self.client, demand),
            };
            self.wake(world, &wakes);
        }
    }

    #[inline]
    pub(super) fn report(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
        from: Option<WorkState>,
        entry: &Work,
    ) {
        let Some(transitions) = &mut world.transitions else { return };
        self.transitions += 1;
        let (to, attempt) = (entry.phase, entry.attempts);
        if !self.is_quiet || !is_only_shown(from, to) {
            transitions.push(Transition { at: self.now, work, attempt, from, to });
        }
    }

    /// From now on a transition is not told, but still counted, if it is only that a work waits or
    /// is in line, or that its attempt begins: for one who only has to see to what follows from
    /// the others, which are few.
    pub fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// How many transitions there were while somebody took them, told or not.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.transitions
    }
}

impl Work {
    /// As it stands in line.
    pub(super) fn waiting(&self, work: WorkId) -> Waiting {
        Waiting { work, ticket: self.ticket, since: self.ready_since }
    }
}

/// Whether nothing follows from a transition but that it can be seen.
#[inline(always)]
fn is_only_shown(from: Option<WorkState>, to: Phase) -> bool {
    match to {
        Phase::Waiting | Phase::Ready => true,
        Phase::Running => from == Some(WorkState::Pending),
        _ => false,
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
