//! Several works in one stride: the same as one by one, but what fits is found out once, and what is
//! taken and given back is put down once.
//!
//! That is possible while nobody else could notice: no rate counts, and nobody stands or watches
//! where it is taken ([`CapacityTree::takes_at_ease`](crate::CapacityTree::takes_at_ease)).
//! Whatever is not as simple as that goes the ordinary way.

use super::{Engine, Work};
use crate::capacity::Demand;
use crate::fact::{Ending, Fact, Happening, World};
use crate::input::{Begun, Grant, Submission};
use crate::phase::{Phase, Step, WorkState};
use crate::queue::{Candidate, Line};
use crate::{CostId, Transition, WorkId};

/// Several works that were taken in together; their numbers follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// The first of them.
    pub first: WorkId,
    /// How many of them have begun already, from the first on. The others stand in line.
    pub begun: usize,
}

impl Engine {
    /// Takes in so many works that are alike and follow nobody. As long as nobody stands in line,
    /// each begins as soon as it is in, if there is room for it and nobody else could notice.
    ///
    /// # Panics
    ///
    /// If they have anything that a plain work has not.
    pub fn submit_alike(
        &mut self,
        world: &mut World<'_>,
        new: Submission<'_>,
        count: usize,
    ) -> Alike {
        let plain = new.after.is_empty() && new.more.is_none();
        assert!(plain, "only plain works are taken in several at a time");
        self.advance(world);
        let first = WorkId::from_index(self.works.len());
        let demand = &self.costs[new.cost.index()];
        let room = match self.lines.len() {
            0 => world.capacity.takes_at_ease(self.client, demand).unwrap_or(0),
            _ => 0,
        };
        let begun = usize::try_from(room).map_or(count, |room| room.min(count));
        (0..begun).for_each(|_| self.admit_begun(world, new));
        self.put_down_taken(world, new.cost, begun as u64);
        for _ in begun..count {
            self.submit(world, new).expect("it follows nobody");
        }
        Alike { first, begun }
    }

    /// A plain work comes in and begins at once. What it takes is put down later.
    #[inline]
    fn admit_begun(&mut self, world: &mut World<'_>, new: Submission<'_>) {
        let work = WorkId::from_index(self.dag.add_node());
        let mut entry = Work::new(new);
        self.urgency.note(entry.priority);
        entry.join_line(self.tickets, self.now);
        self.tickets = self.tickets.saturating_add(1);
        self.note(world, Fact { at: self.now, what: Happening::Submitted { work } });
        entry.phase = Phase::Ready;
        self.report(world, work, None, &entry);
        entry.attempts = 1;
        self.note(world, Fact { at: self.now, what: Happening::Started { work, attempt: 1 } });
        entry.phase = Phase::Ready.after(Step::Start).expect("what is ready may start");
        self.report(world, work, Some(WorkState::Pending), &entry);
        self.metrics.attempts += 1;
        self.metrics.enter(entry.phase.state(), entry.retries_left);
        self.works.push(entry);
    }

    /// Begins everything that fits, in the order in which [`Engine::begin_next`] would.
    pub fn begin_all(&mut self, world: &mut World<'_>, mut begun: impl FnMut(Begun)) {
        loop {
            self.begin_alike(world, &mut begun);
            match self.begin_next(world) {
                Some(next) => begun(next),
                None => return,
            }
        }
    }

    /// Begins the first in line and those behind it, as long as they cost the same and fit.
    fn begin_alike(&mut self, world: &mut World<'_>, begun: &mut impl FnMut(Begun)) {
        self.advance(world);
        self.lines.advance(self.now);
        let Some((Line::Starting, first)) = self.lines.first(self.now) else { return };
        let demand = &self.costs[first.cost.index()];
        let room = world.capacity.takes_at_ease(self.client, demand);
        let Some(room) = room.filter(|room| *room > 0) else { return };
        let refused = self.lines.refused_by(Line::Starting, first);
        if refused.is_some() && !self.is_worth_a_try(world, Line::Starting, first) {
            return;
        }
        // While they begin they need not be listed with what had refused them.
        self.lines.unpark(Line::Starting, first.cost);
        let taken = self.start_alike(world, first.cost, room, begun);
        self.put_down_taken(world, first.cost, taken);
        if let Some((cell, wanted)) = refused
            && self.lines.has_any_of(Line::Starting, first.cost)
        {
            self.lines.park(Line::Starting, first, cell, wanted);
        }
    }

    /// Starts the first in line while it costs this much, so many at most; how many.
    fn start_alike(
        &mut self,
        world: &mut World<'_>,
        cost: CostId,
        room: u64,
        begun: &mut impl FnMut(Begun),
    ) -> u64 {
        let mut taken = 0;
        while taken < room
            && let Some((Line::Starting, Candidate { work, cost: next, .. })) =
                self.lines.first(self.now)
            && next == cost
        {
            let entry = &mut self.works[work.index()];
            entry.attempts += 1;
            let attempt = entry.attempts;
            self.metrics.attempts += 1;
            self.make_bare_step(world, work, Step::Start);
            self.note(world, Fact { at: self.now, what: Happening::Started { work, attempt } });
            begun(Begun::Started(Grant { work, attempt }));
            taken += 1;
        }
        taken
    }

    fn put_down_taken(&mut self, world: &mut World<'_>, cost: CostId, taken: u64) {
        if taken > 0 {
            world.capacity.put_down(self.client, &self.costs[cost.index()], taken, 0);
        }
    }

    /// Ends those of these attempts whose works have nothing to do with others, all of which went
    /// well, and forgets their works. The others stay in `grants`, and nothing has changed for them.
    pub fn succeed_and_forget(&mut self, world: &mut World<'_>, grants: &mut Vec<Grant>) {
        self.advance(world);
        let mut given_back: Option<(CostId, u64)> = None;
        grants.retain(|grant| {
            let Some(cost) = self.end_and_forget(world, *grant) else { return true };
            match &mut given_back {
                Some((known, times)) if *known == cost => *times += 1,
                other => {
                    let before = other.replace((cost, 1));
                    self.give_back_all(world, before);
                }
            }
            false
        });
        self.give_back_all(world, given_back);
    }

    fn give_back_all(&mut self, world: &mut World<'_>, given_back: Option<(CostId, u64)>) {
        let Some((cost, times)) = given_back else { return };
        let demand: &Demand = &self.costs[cost.index()];
        let wakes = world.capacity.give_back_often(self.client, demand, times);
        self.wake(world, &wakes);
    }

    /// What it took, which is given back later. None if there is more to it; then nothing has
    /// changed.
    #[inline]
    fn end_and_forget(&mut self, world: &mut World<'_>, grant: Grant) -> Option<CostId> {
        let Grant { work, attempt } = grant;
        let (works, dag) = (&mut self.works, &mut self.dag);
        let mut cost = None;
        works.forget_if(work.index(), |entry| {
            let plain = entry.is_plain();
            let runs = entry.phase == Phase::Running && entry.attempts == attempt;
            let ends = plain && runs && dag.forget_if_apart(work.index());
            if ends {
                cost = Some(entry.cost);
                self.metrics.leave(entry.phase.state(), entry.retries_left);
            }
            ends
        });
        let cost = cost?;
        self.metrics.forgotten += 1;
        if world.facts.is_some() || world.transitions.is_some() {
            self.tell_end(world, grant);
        }
        if !self.policies.is_empty() {
            self.policies.remove(&work);
        }
        if !self.spent.is_empty() {
            self.spent.remove(&work);
        }
        Some(cost)
    }

    /// A running work has succeeded, and is forgotten.
    fn tell_end(&mut self, world: &mut World<'_>, grant: Grant) {
        let Grant { work, attempt } = grant;
        let at = self.now;
        let ended = Happening::Ended { work, attempt, ending: Ending::Success };
        self.note(world, Fact { at, what: ended });
        if let Some(transitions) = &mut world.transitions {
            let to = Phase::Running.after(Step::Succeed).expect("what runs may succeed");
            let from = Some(Phase::Running.state());
            self.transitions += 1;
            transitions.push(Transition { at, work, attempt, from, to });
        }
        self.note(world, Fact { at, what: Happening::Forgotten { work } });
    }
}
