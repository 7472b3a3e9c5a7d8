//! Decides which work in line may start or go on: the first that fits what is free.
//!
//! A work that does not fit is passed over; what refused the first of all is set aside for it until
//! it starts or leaves, so that those behind it hold it up at most once for each thing it needs.
//! Works that go on stand before works that start.

use super::transfer::earlier;
use super::{Engine, Order};
use crate::capacity::{CapacityTree, Place, Refusal, Shortage};
use crate::fact::{Happening, World};
use crate::input::{Begun, Grant};
use crate::phase::Step;
use crate::queue::{Candidate, Cell, Line, Watch};
use crate::{ClientId, WorkId};

/// Where in its line the one who asks stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    Later,
}

impl Turn {
    fn place(self, line: Line) -> Place {
        match (line, self) {
            (Line::Starting, Turn::First) => Place::First,
            (Line::Starting, Turn::Later) => Place::Later,
            (Line::Resuming, Turn::First) => Place::Resuming,
            (Line::Resuming, Turn::Later) => Place::ResumingLater,
        }
    }
}

impl Engine {
    /// The most urgent work that fits now, with what it needs taken for it.
    ///
    /// Its attempt begins with [`Input::Begin`](crate::Input::Begin), unless the work is
    /// [`Running`](crate::Phase::Running) already: then it was suspended and goes on.
    pub fn take_next(&mut self, world: &mut World<'_>) -> Option<Grant> {
        let (line, next) = self.find_next(world)?;
        Some(match line {
            Line::Starting => {
                self.step(world, next.work, Step::Grant);
                Grant { work: next.work, attempt: self.works[next.work.index()].attempts + 1 }
            }
            Line::Resuming => self.resume(world, next.work),
        })
    }

    /// As [`Engine::take_next`], for whoever begins what it is granted in any case: the attempt has
    /// begun already.
    pub fn begin_next(&mut self, world: &mut World<'_>) -> Option<Begun> {
        let found = self.find_next(world)?;
        Some(self.begin_found(world, found))
    }

    /// Returns whether [`Engine::begin_next`] would do anything now: begin an attempt, or reserve or watch
    /// what a work lacks.
    #[must_use]
    pub fn may_begin(&self, capacity: &CapacityTree) -> bool {
        let Some((line, first)) = self.lines.first(self.now) else { return false };
        self.is_worth_a_try(capacity, line, first)
            || self.config.order == Order::PassOver && self.first_that_may_pass(capacity).is_some()
            || self.lines.has_unwatched()
    }

    #[inline]
    fn begin_found(&mut self, world: &mut World<'_>, (line, next): (Line, Candidate)) -> Begun {
        match line {
            Line::Starting => Begun::Started(self.begin(world, next.work)),
            Line::Resuming => Begun::Resumed(self.resume(world, next.work)),
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, world: &mut World<'_>, work: WorkId) -> Grant {
        let attempt = self.works[work.index()].attempts + 1;
        self.record(world, Happening::Started { work, attempt });
        Grant { work, attempt }
    }

    fn resume(&mut self, world: &mut World<'_>, work: WorkId) -> Grant {
        let attempt = self.works[work.index()].attempts;
        self.record(world, Happening::Resumed { work, attempt });
        Grant { work, attempt }
    }

    /// The first in line that fits. What does not is parked, and what refused the first of all is
    /// set aside for it.
    fn find_next(&mut self, world: &mut World<'_>) -> Option<(Line, Candidate)> {
        self.advance(world);
        self.lines.advance(self.now);
        let (line, first) = self.lines.first(self.now)?;
        if self.is_worth_a_try(world.capacity, line, first)
            && self.fits(world, line, first, Turn::First)
        {
            return Some((line, first));
        }
        while self.config.order == Order::PassOver
            && let Some((line, next)) = self.first_that_may_pass(world.capacity)
        {
            if self.fits(world, line, next, Turn::Later) {
                return Some((line, next));
            }
        }
        self.watch_what_refused(world);
        None
    }

    /// Whether trying the first in line can change anything: it may fit, or something has yet to be
    /// set aside for it.
    fn is_worth_a_try(&self, capacity: &CapacityTree, line: Line, first: Candidate) -> bool {
        if first.parked.is_none() {
            return true;
        }
        let room = |cell| self.room(capacity, cell, Turn::First.place(line));
        let must_stand =
            self.standing != Some(first.work) && self.binds_somebody(capacity, line, first);
        must_stand || self.lines.may_fit(line, first, room)
    }

    /// Whether there is anybody whom a set-aside for the first in line would hold back.
    fn binds_somebody(&self, capacity: &CapacityTree, line: Line, first: Candidate) -> bool {
        capacity.is_shared() || !self.lines.are_all_like(line, first)
    }

    fn first_that_may_pass(&self, capacity: &CapacityTree) -> Option<(Line, Candidate)> {
        let room = |line, cell| self.room(capacity, cell, Turn::Later.place(line));
        self.lines.first_open(self.now, room)
    }

    fn room(&self, capacity: &CapacityTree, cell: Cell, place: Place) -> i128 {
        capacity.room(self.client, cell.level, cell.resource, place, self.there())
    }

    /// Whether one in line fits; if not, it is parked.
    fn fits(
        &mut self,
        world: &mut World<'_>,
        line: Line,
        candidate: Candidate,
        turn: Turn,
    ) -> bool {
        let demand = &self.costs[candidate.cost.index()];
        match world.capacity.fit(self.client, demand, turn.place(line), self.there()) {
            Ok(()) => {
                self.metrics.passed_over += u64::from(turn == Turn::Later);
                true
            }
            Err(refusal) => {
                let Shortage { level, resource, wanted, .. } = refusal.shortages[0];
                self.metrics.refusals += 1;
                if turn == Turn::First {
                    self.set_aside(world, line, candidate, refusal);
                }
                self.lines.park(line, candidate, Cell { level, resource }, wanted);
                false
            }
        }
    }

    /// Sets everything aside that has refused the first in line; or remembers it until there is
    /// somebody whom that holds back.
    fn set_aside(
        &mut self,
        world: &mut World<'_>,
        line: Line,
        first: Candidate,
        mut refusal: Refusal,
    ) {
        if let Some((_, owed)) = self.owed.take_if(|(owner, _)| *owner == first.work) {
            let known = |short: &Shortage| (short.level, short.resource);
            let fresh = |owed: &Shortage| refusal.shortages.iter().all(|s| known(s) != known(owed));
            let owed: Vec<_> = owed.shortages.into_iter().filter(fresh).collect();
            refusal.shortages.extend(owed);
        }
        if self.standing != Some(first.work) && !self.binds_somebody(world.capacity, line, first) {
            self.owed = Some((first.work, refusal));
            return;
        }
        self.metrics.set_aside += 1;
        let owner = first.work.get();
        let wakes = match line {
            Line::Starting => world.capacity.stand(self.client, owner, &refusal),
            Line::Resuming => world.capacity.stand_to_go_on(self.client, owner, &refusal),
        };
        self.standing = Some(first.work);
        self.wake(world, &wakes, Watch::Gone);
    }

    /// Nothing fits: from now on we are told when there may be more of what refused somebody, or
    /// know when time will bring it.
    fn watch_what_refused(&mut self, world: &mut World<'_>) {
        let (client, now, ahead) = (self.client, self.there(), self.ahead);
        let may_pass = self.config.order == Order::PassOver;
        let first = self.lines.first(self.now);
        let first = first.and_then(|(line, first)| self.lines.refused_by(line, first));
        self.lines.close_lots(|cell, least| {
            let Cell { level, resource } = cell;
            world.capacity.watch(client, level, resource);
            let when =
                |wanted, place| world.capacity.when(client, level, resource, wanted, place, now);
            let first = first.filter(|(refused, _)| *refused == cell);
            let first = first.and_then(|(_, wanted)| when(wanted, Place::First));
            let later = may_pass.then(|| when(least, Place::Later)).flatten();
            later.into_iter().chain(first).min().map(|at| earlier(at, ahead))
        });
    }

    /// The work that something was set aside for starts or leaves.
    pub(super) fn withdraw(&mut self, world: &mut World<'_>) {
        self.standing = None;
        let wakes = world.capacity.withdraw(self.client);
        self.wake(world, &wakes, Watch::Gone);
    }

    /// Looks again ourselves, and has the driver tell the others. `watch` says whether our own watch
    /// outlives being told.
    pub(super) fn wake(&mut self, world: &mut World<'_>, clients: &[ClientId], watch: Watch) {
        for &client in clients {
            if client == self.client {
                self.lines.open_lots(watch);
            } else {
                world.wakes.push(client);
            }
        }
    }
}
