//! Reservations: a client's place in the queue, and who is to be told when there may be more.
//!
//! A reservation binds only what comes later: other clients by their turn, the client's own
//! later works behind it. So the first of all is bound by nothing. Whoever goes on has a turn before
//! everybody who starts.

use super::counter::Counter;
use super::{CapacityTree, Place, Refusal, in_order};
use crate::{Amount, ClientId, LevelId, ResourceId};

/// The place in the queue of a client's first refused work.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) turn: u64,
    owner: u64,
    pub(super) counters: Vec<(LevelId, ResourceId)>,
}

/// The turns that were given out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    going_on: u64,
    starting: u64,
}

/// Those who start have turns from here on, those who go on the ones before.
const FIRST_TO_START: u64 = 1 << 63;

impl Reservation {
    fn goes_on(&self) -> bool {
        self.turn < FIRST_TO_START
    }
}

impl CapacityTree {
    /// Has `client` told once when there may be more of this resource at this level.
    ///
    /// # Panics
    ///
    /// If the level is not one that binds the client.
    pub fn watch(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        self.levels[level.index()].counter_mut(resource).watch(client);
    }

    /// Has `client` told once when there may be more of anything that binds it, also of names that are
    /// yet to be declared.
    pub fn watch_everything(&mut self, client: ClientId) {
        self.subscribers.insert(client);
        let names = self.names.len();
        self.climb(self.level_of(client), |level| {
            (0..names)
                .for_each(|resource| level.counter_mut(ResourceId::at(resource)).watch(client));
        });
    }

    /// Has `client` told once when there may be room here for one who stands where it does in the queue,
    /// or at its end. Where time makes room it is told only when [`CapacityTree::when`] may have
    /// become earlier. For one who stands for a single thing: it is told no more once its standing
    /// reservation ends. And not for one that resumes: nothing reserved binds that.
    ///
    /// # Panics
    ///
    /// If the level is not one that binds the client.
    pub fn watch_in_line(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        let reservation = self.client(client).reservation.as_ref();
        let end_of_line = FIRST_TO_START + self.turns.starting + 1;
        let turn = reservation.map_or(end_of_line, |reservation| reservation.turn);
        self.levels[level.index()].counter_mut(resource).watch_from(client, turn);
    }

    /// Sets what refused the first work of `client` aside for it. `owner` names that work: the same
    /// one again adds to its request, another takes over its place in the queue. Returns who should
    /// look again.
    pub fn reserve(&mut self, client: ClientId, owner: u64, refusal: &Refusal) -> Vec<ClientId> {
        let known = self.client(client).reservation.as_ref().filter(|known| !known.goes_on());
        let turn = known.map(|known| known.turn).unwrap_or_else(|| {
            self.turns.starting += 1;
            FIRST_TO_START + self.turns.starting
        });
        self.reserve_at(turn, client, owner, refusal)
    }

    /// As [`CapacityTree::stand`], for a work that has begun already and goes on: it stands before
    /// all that start, whoever's they are.
    pub fn reserve_to_resume(
        &mut self,
        client: ClientId,
        owner: u64,
        refusal: &Refusal,
    ) -> Vec<ClientId> {
        let known = self.client(client).reservation.as_ref().filter(|known| known.goes_on());
        let turn = known.map(|known| known.turn).unwrap_or_else(|| {
            self.turns.going_on += 1;
            self.turns.going_on
        });
        self.reserve_at(turn, client, owner, refusal)
    }

    fn reserve_at(
        &mut self,
        turn: u64,
        client: ClientId,
        owner: u64,
        refusal: &Refusal,
    ) -> Vec<ClientId> {
        let same = |known: &Reservation| (known.turn, known.owner) == (turn, owner);
        let mut wakes = match &self.client(client).reservation {
            Some(known) if !same(known) => self.withdraw(client),
            _ => Vec::new(),
        };
        if self.client(client).reservation.is_none() {
            let reservation = Reservation { turn, owner, counters: Vec::new() };
            self.client_mut(client).reservation = Some(reservation);
            self.climb(self.level_of(client), |level| level.reservation += 1);
        }
        for short in &refusal.shortages {
            let counter = self.levels[short.level.index()].counter_mut(short.resource);
            if counter.reservations_mut().set(turn, short.wanted) > short.wanted {
                counter.wake(&mut wakes);
            }
        }
        let reservation = self.client_mut(client).reservation.as_mut().expect("it reserves now");
        reservation
            .counters
            .extend(refusal.shortages.iter().map(|short| (short.level, short.resource)));
        reservation.counters.sort_unstable();
        reservation.counters.dedup();
        in_order(wakes)
    }

    /// Ends the client's reservation, if it has one, and what it watches in the queue for it.
    /// Returns who should look again.
    pub fn withdraw(&mut self, client: ClientId) -> Vec<ClientId> {
        self.end_reservation(client, Counter::wake)
    }

    /// As [`CapacityTree::withdraw`], because the client has just taken what it stood for. That
    /// changes less for those behind it, so fewer have to look again.
    pub fn serve(&mut self, client: ClientId) -> Vec<ClientId> {
        self.end_reservation(client, Counter::wake_next)
    }

    fn end_reservation(
        &mut self,
        client: ClientId,
        wake: impl Fn(&mut Counter, &mut Vec<ClientId>),
    ) -> Vec<ClientId> {
        let Some(reservation) = self.client_mut(client).reservation.take() else {
            return Vec::new();
        };
        self.climb(self.level_of(client), |level| level.reservation -= 1);
        let mut wakes = Vec::new();
        for (level, resource) in reservation.counters {
            let counter = self.levels[level.index()].counter_mut(resource);
            counter.reservations_mut().set(reservation.turn, Amount::ZERO);
            counter.unwatch_from(client, reservation.turn);
            wake(counter, &mut wakes);
        }
        in_order(wakes)
    }

    fn expect_bound(&self, client: ClientId, level: LevelId) {
        let binds = self.chain(self.level_of(client)).any(|bound| bound == level);
        assert!(binds, "a client watches what binds it: its own level and those above");
    }

    /// What is reserved of this resource at this level for `client` itself, in steps of 1/10 000.
    #[must_use]
    pub fn reserved_for(&self, client: ClientId, level: LevelId, resource: ResourceId) -> i128 {
        let own = self.client(client).reservation.as_ref().map(|own| own.turn);
        let counter = self.counter(level, resource);
        own.zip(counter)
            .map_or(0, |(turn, counter)| counter.set_aside(turn + 1) - counter.set_aside(turn))
    }

    /// Requests with turns before this one bind the one who asks.
    #[inline]
    pub(super) fn bound(&self, client: ClientId, place: Place) -> u64 {
        let own = self.client(client).reservation.as_ref();
        let own = own.filter(|own| own.goes_on() == place.is_resuming());
        match (own, place) {
            (None, Place::Resuming | Place::ResumingLater) => FIRST_TO_START,
            (None, Place::First | Place::Later) => u64::MAX,
            (Some(own), Place::Resuming | Place::First) => own.turn,
            (Some(own), Place::ResumingLater | Place::Later) => own.turn + 1,
        }
    }
}
