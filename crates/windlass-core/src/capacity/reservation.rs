//! Reservations and watches of clients.
//!
//! A reservation binds only later demands: those of other clients by its turn, and the client's own
//! later works. So no reservation binds the first of all. Resumed attempts have turns before all
//! starts, and starts of clients of greater priority before those of others.

use super::counter::Counter;
use super::{CapacityTree, Place, Refusal, in_order};
use crate::{Amount, ClientId, LevelId, ResourceId};

/// The reservation for a client's first refused work.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) turn: u64,
    owner: u64,
    pub(super) counters: Vec<(LevelId, ResourceId)>,
}

/// The turns issued so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    going_on: u64,
    starting: u64,
}

/// Starts have turns from here on, resumed attempts the ones before.
const FIRST_TO_START: u64 = 1 << 63;

/// How many turns there are for the starts of clients of one priority.
const PER_PRIORITY: u64 = 1 << 47;

/// Returns the turn that comes after those of all smaller numbers and of all greater priorities.
fn turn(priority: i16, number: u64) -> u64 {
    let class = u64::from(i16::MAX.abs_diff(priority));
    FIRST_TO_START + class * PER_PRIORITY + number
}

/// A watch from this turn is told of whatever makes room: nothing is reserved before it.
const ANY_TURN: u64 = 0;

impl Reservation {
    fn goes_on(&self) -> bool {
        self.turn < FIRST_TO_START
    }
}

impl CapacityTree {
    /// Registers `client` for one notification when this resource may have more room at this level.
    ///
    /// # Panics
    ///
    /// Panics if the level does not bind the client.
    pub fn watch(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        self.levels[level.index()].counter_mut(resource).watch(client, ANY_TURN);
    }

    /// Registers `client` for one notification when any resource that binds it may have more room,
    /// including resources that are not declared yet.
    pub fn watch_everything(&mut self, client: ClientId) {
        self.subscribers.insert(client);
        let names = self.names.len();
        self.climb(self.level_of(client), |level| {
            let all = (0..names).map(ResourceId::at);
            all.for_each(|resource| level.counter_mut(resource).watch(client, ANY_TURN));
        });
    }

    /// Registers `client` for one notification when this counter may have room for its reservation,
    /// or for one at the end of the queue. Where time makes room, only if [`CapacityTree::when`]
    /// may have become earlier. For a client that waits for a single demand: the watch ends with its
    /// reservation. Not for a demand that resumes, because reservations of starts do not bind it.
    ///
    /// # Panics
    ///
    /// Panics if the level does not bind the client.
    pub fn watch_with_timer(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        let turn = self.turn_of(client);
        self.levels[level.index()].counter_mut(resource).watch_armed(client, turn);
    }

    /// As [`CapacityTree::watch_with_timer`], for a client that waits for several things and so may not know
    /// when time makes room for each of them: it is told whatever happens before its turn.
    pub(crate) fn watch_in_turn(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        let turn = self.turn_of(client);
        self.levels[level.index()].counter_mut(resource).watch(client, turn);
    }

    /// Returns the turn of the client's reservation, or the one that its next reservation would have.
    pub(super) fn turn_of(&self, client: ClientId) -> u64 {
        let reservation = self.client(client).reservation.as_ref();
        let next = || turn(self.client(client).priority, self.turns.starting + 1);
        reservation.map_or_else(next, |reservation| reservation.turn)
    }

    /// Reserves what refused the first work of `client`. `owner` identifies that work: the same one
    /// again extends its reservation, and another takes it over with its turn. Returns the clients
    /// to wake.
    pub fn reserve(&mut self, client: ClientId, owner: u64, refusal: &Refusal) -> Vec<ClientId> {
        let known = self.client(client).reservation.as_ref().filter(|known| !known.goes_on());
        let turn = known.map(|known| known.turn).unwrap_or_else(|| {
            self.turns.starting += 1;
            turn(self.client(client).priority, self.turns.starting)
        });
        self.reserve_at(turn, client, owner, refusal)
    }

    /// As [`CapacityTree::reserve`], for an attempt that resumes: its turn is before those of all
    /// starts of all clients.
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
        if let Some(shape) = &refusal.shape {
            self.workers.reserve(client, turn, shape);
        }
        in_order(wakes)
    }

    /// Ends the client's reservation, if it has one, and the watches that belong to it. Returns the
    /// clients to wake.
    pub fn withdraw(&mut self, client: ClientId) -> Vec<ClientId> {
        self.end_reservation(client, Counter::wake)
    }

    /// As [`CapacityTree::withdraw`], after the client has taken what was reserved for it. Later
    /// demands gain less than by a withdrawal, so fewer clients are woken.
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
        self.workers.withdraw(client);
        in_order(wakes)
    }

    /// Returns the turn of the client's reservation, if it has one; the smallest comes first.
    #[must_use]
    pub fn reservation_turn(&self, client: ClientId) -> Option<u64> {
        self.client(client).reservation.as_ref().map(|reservation| reservation.turn)
    }

    fn expect_bound(&self, client: ClientId, level: LevelId) {
        let binds = self.chain(self.level_of(client)).any(|bound| bound == level);
        assert!(binds, "a client watches what binds it: its own level and those above");
    }

    /// Returns the counters that reserve something for `client`, or did at an earlier refusal.
    pub(crate) fn reserved_counters(&self, client: ClientId) -> &[(LevelId, ResourceId)] {
        self.client(client).reservation.as_ref().map_or(&[], |own| &own.counters)
    }

    /// Returns what is reserved of this resource at this level for `client` itself, in steps of
    /// 1/10 000.
    #[must_use]
    pub fn reserved_for(&self, client: ClientId, level: LevelId, resource: ResourceId) -> i128 {
        let own = self.client(client).reservation.as_ref().map(|own| own.turn);
        let counter = self.counter(level, resource);
        own.zip(counter).map_or(0, |(turn, counter)| {
            counter.reserved_before(turn + 1) - counter.reserved_before(turn)
        })
    }

    /// Returns the turn before which reservations bind a demand at this place.
    #[inline]
    pub(super) fn bound(&self, client: ClientId, place: Place) -> u64 {
        match &self.client(client).reservation {
            Some(own) if own.goes_on() == place.is_resuming() => match place {
                Place::Resuming | Place::First => own.turn,
                Place::ResumingLater | Place::Later => own.turn + 1,
            },
            _ if place.is_resuming() => FIRST_TO_START,
            _ => turn(self.client(client).priority, PER_PRIORITY - 1),
        }
    }
}
