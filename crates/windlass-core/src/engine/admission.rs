//! Decides which ready work may start: the first in line that fits what is free.
//!
//! A work that does not fit is passed over; what refused the first of all is set aside for it until
//! it starts or leaves, so that those behind it hold it up at most once for each thing it needs.

use super::{Engine, Order};
use crate::ClientId;
use crate::capacity::{Place, Refusal, Shortage};
use crate::fact::World;
use crate::input::Grant;
use crate::phase::Step;
use crate::queue::{Candidate, Cell};

impl Engine {
    /// The most urgent work that fits now, with what it needs taken for it. Its attempt begins with
    /// [`Input::Begin`](crate::Input::Begin).
    pub fn take_next(&mut self, world: &mut World<'_>) -> Option<Grant> {
        self.advance(world);
        self.queue.advance(self.now);
        let first = self.queue.first(self.now)?;
        if self.is_worth_a_try(world, first)
            && let Some(grant) = self.try_start(world, first, Place::First)
        {
            return Some(grant);
        }
        while self.config.order == Order::PassOver
            && let Some(next) = self.first_that_may_pass(world)
        {
            if let Some(grant) = self.try_start(world, next, Place::Later) {
                return Some(grant);
            }
        }
        self.watch_what_refused(world);
        None
    }

    /// Whether trying the first in line can change anything: it may fit, or something has yet to be
    /// set aside for it.
    fn is_worth_a_try(&self, world: &World<'_>, first: Candidate) -> bool {
        let Some(parked) = first.parked else { return true };
        let room = |cell| self.room(world, cell, Place::First);
        let must_stand = self.standing != Some(first.work) && self.binds_somebody(world, first);
        must_stand || self.queue.may_fit(parked, room)
    }

    /// Whether there is anybody whom a set-aside for the first in line would hold back.
    fn binds_somebody(&self, world: &World<'_>, first: Candidate) -> bool {
        world.capacity.is_shared() || !self.queue.is_all_of(first.cost)
    }

    fn first_that_may_pass(&self, world: &World<'_>) -> Option<Candidate> {
        self.queue.first_open(self.now, |cell| self.room(world, cell, Place::Later))
    }

    fn room(&self, world: &World<'_>, cell: Cell, place: Place) -> i128 {
        world.capacity.room(self.client, cell.level, cell.resource, place, self.now)
    }

    fn try_start(
        &mut self,
        world: &mut World<'_>,
        candidate: Candidate,
        place: Place,
    ) -> Option<Grant> {
        let Candidate { work, cost, .. } = candidate;
        let demand = &self.costs[cost.index()];
        match world.capacity.try_take(self.client, demand, place, self.now) {
            Ok(()) => {
                self.metrics.passed_over += u64::from(place == Place::Later);
                self.step(world, work, Step::Grant);
                Some(Grant { work, attempt: self.works[work.index()].attempts + 1 })
            }
            Err(refusal) => {
                let Shortage { level, resource, wanted, .. } = refusal.shortages[0];
                self.metrics.refusals += 1;
                if place == Place::First {
                    self.set_aside(world, candidate, refusal);
                }
                self.queue.park(cost, Cell { level, resource }, wanted);
                None
            }
        }
    }

    /// Sets everything aside that has refused the first in line; or remembers it until there is
    /// somebody whom that holds back.
    fn set_aside(&mut self, world: &mut World<'_>, first: Candidate, mut refusal: Refusal) {
        if let Some((_, owed)) = self.owed.take_if(|(owner, _)| *owner == first.work) {
            let known = |short: &Shortage| (short.level, short.resource);
            let fresh = |owed: &Shortage| refusal.shortages.iter().all(|s| known(s) != known(owed));
            let owed: Vec<_> = owed.shortages.into_iter().filter(fresh).collect();
            refusal.shortages.extend(owed);
        }
        if self.standing != Some(first.work) && !self.binds_somebody(world, first) {
            self.owed = Some((first.work, refusal));
            return;
        }
        self.metrics.set_aside += 1;
        let wakes = world.capacity.stand(self.client, first.work.get(), &refusal);
        self.standing = Some(first.work);
        self.wake(world, &wakes);
    }

    /// Nothing fits: from now on we are told when there may be more of what refused somebody, or
    /// know when time will bring it.
    fn watch_what_refused(&mut self, world: &mut World<'_>) {
        let (client, now) = (self.client, self.now);
        let may_pass = self.config.order == Order::PassOver;
        let first = self.queue.first(now).and_then(|first| first.parked);
        let first = first.map(|parked| (self.queue.cell(parked), parked.wanted));
        self.queue.close_lots(|cell, least| {
            let Cell { level, resource } = cell;
            world.capacity.watch(client, level, resource);
            let when =
                |wanted, place| world.capacity.when(client, level, resource, wanted, place, now);
            let first = first.filter(|(refused, _)| *refused == cell);
            let first = first.and_then(|(_, wanted)| when(wanted, Place::First));
            let later = may_pass.then(|| when(least, Place::Later)).flatten();
            later.into_iter().chain(first).min()
        });
    }

    /// The work that something was set aside for starts or leaves.
    pub(super) fn withdraw(&mut self, world: &mut World<'_>) {
        self.standing = None;
        let wakes = world.capacity.withdraw(self.client);
        self.wake(world, &wakes);
    }

    /// Looks again ourselves, and has the driver tell the others.
    pub(super) fn wake(&mut self, world: &mut World<'_>, clients: &[ClientId]) {
        for &client in clients {
            if client == self.client {
                self.queue.open_lots();
            } else {
                world.wakes.push(client);
            }
        }
    }
}
