//! Standing requests: a client's place in line, and who is to be told when there may be more.
//!
//! A set-aside binds only those who stand later: other clients by their turn, the client's own
//! later works behind it. So the first of all is bound by nothing. Whoever goes on has a turn before
//! everybody who starts.

use super::cell::Cell;
use super::{CapacityTree, Place, Refusal, in_order};
use crate::{Amount, ClientId, LevelId, ResourceId};

/// The place in line of a client's first refused work.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) turn: u64,
    owner: u64,
    pub(super) cells: Vec<(LevelId, ResourceId)>,
}

/// The turns that were given out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    going_on: u64,
    starting: u64,
}

/// Those who start have turns from here on, those who go on the ones before.
const FIRST_TO_START: u64 = 1 << 63;

impl Standing {
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
        self.levels[level.index()].cell_mut(resource).watch(client);
    }

    /// Has `client` told once when there may be more of anything that binds it, also of names that are
    /// yet to be declared.
    pub fn watch_everything(&mut self, client: ClientId) {
        self.subscribers.insert(client);
        let names = self.names.len();
        self.climb(self.level_of(client), |level| {
            (0..names).for_each(|resource| level.cell_mut(ResourceId::at(resource)).watch(client));
        });
    }

    /// Has `client` told once when there may be room here for one who stands where it does in line,
    /// or at its end. Where time makes room it is told only when [`CapacityTree::when`] may have
    /// become earlier. For one who stands for a single thing: it is told no more once its standing
    /// request ends. And not for one that resumes: nothing set aside binds that.
    ///
    /// # Panics
    ///
    /// If the level is not one that binds the client.
    pub fn watch_in_line(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        let standing = self.client(client).standing.as_ref();
        let end_of_line = FIRST_TO_START + self.turns.starting + 1;
        let turn = standing.map_or(end_of_line, |standing| standing.turn);
        self.levels[level.index()].cell_mut(resource).watch_from(client, turn);
    }

    /// Sets what refused the first work of `client` aside for it. `owner` names that work: the same
    /// one again adds to its request, another takes over its place in line. Returns who should
    /// look again.
    pub fn stand(&mut self, client: ClientId, owner: u64, refusal: &Refusal) -> Vec<ClientId> {
        let known = self.client(client).standing.as_ref().filter(|known| !known.goes_on());
        let turn = known.map(|known| known.turn).unwrap_or_else(|| {
            self.turns.starting += 1;
            FIRST_TO_START + self.turns.starting
        });
        self.stand_at(turn, client, owner, refusal)
    }

    /// As [`CapacityTree::stand`], for a work that has begun already and goes on: it stands before
    /// all that start, whoever's they are.
    pub fn stand_to_go_on(
        &mut self,
        client: ClientId,
        owner: u64,
        refusal: &Refusal,
    ) -> Vec<ClientId> {
        let known = self.client(client).standing.as_ref().filter(|known| known.goes_on());
        let turn = known.map(|known| known.turn).unwrap_or_else(|| {
            self.turns.going_on += 1;
            self.turns.going_on
        });
        self.stand_at(turn, client, owner, refusal)
    }

    fn stand_at(
        &mut self,
        turn: u64,
        client: ClientId,
        owner: u64,
        refusal: &Refusal,
    ) -> Vec<ClientId> {
        let same = |known: &Standing| (known.turn, known.owner) == (turn, owner);
        let mut wakes = match &self.client(client).standing {
            Some(known) if !same(known) => self.withdraw(client),
            _ => Vec::new(),
        };
        if self.client(client).standing.is_none() {
            let standing = Standing { turn, owner, cells: Vec::new() };
            self.client_mut(client).standing = Some(standing);
            self.climb(self.level_of(client), |level| level.standing += 1);
        }
        for short in &refusal.shortages {
            let cell = self.levels[short.level.index()].cell_mut(short.resource);
            if cell.line_mut().set(turn, short.wanted) > short.wanted {
                cell.wake(&mut wakes);
            }
        }
        let standing = self.client_mut(client).standing.as_mut().expect("it stands now");
        standing.cells.extend(refusal.shortages.iter().map(|short| (short.level, short.resource)));
        standing.cells.sort_unstable();
        standing.cells.dedup();
        in_order(wakes)
    }

    /// Ends the client's standing request, if it has one, and what it watches in line for it.
    /// Returns who should look again.
    pub fn withdraw(&mut self, client: ClientId) -> Vec<ClientId> {
        self.stop_standing(client, Cell::wake)
    }

    /// As [`CapacityTree::withdraw`], because the client has just taken what it stood for. That
    /// changes less for those behind it, so fewer have to look again.
    pub fn serve(&mut self, client: ClientId) -> Vec<ClientId> {
        self.stop_standing(client, Cell::wake_next)
    }

    fn stop_standing(
        &mut self,
        client: ClientId,
        wake: impl Fn(&mut Cell, &mut Vec<ClientId>),
    ) -> Vec<ClientId> {
        let Some(standing) = self.client_mut(client).standing.take() else {
            return Vec::new();
        };
        self.climb(self.level_of(client), |level| level.standing -= 1);
        let mut wakes = Vec::new();
        for (level, resource) in standing.cells {
            let cell = self.levels[level.index()].cell_mut(resource);
            cell.line_mut().set(standing.turn, Amount::ZERO);
            cell.unwatch_from(client, standing.turn);
            wake(cell, &mut wakes);
        }
        in_order(wakes)
    }

    fn expect_bound(&self, client: ClientId, level: LevelId) {
        let binds = self.chain(self.level_of(client)).any(|bound| bound == level);
        assert!(binds, "a client watches what binds it: its own level and those above");
    }

    /// What is set aside of this resource at this level for `client` itself, in steps of 1/10 000.
    #[must_use]
    pub fn set_aside_for(&self, client: ClientId, level: LevelId, resource: ResourceId) -> i128 {
        let own = self.client(client).standing.as_ref().map(|own| own.turn);
        let cell = self.cell(level, resource);
        own.zip(cell).map_or(0, |(turn, cell)| cell.set_aside(turn + 1) - cell.set_aside(turn))
    }

    /// Requests with turns before this one bind the one who asks.
    #[inline]
    pub(super) fn bound(&self, client: ClientId, place: Place) -> u64 {
        let own = self.client(client).standing.as_ref();
        let own = own.filter(|own| own.goes_on() == place.is_resuming());
        match (own, place) {
            (None, Place::Resuming | Place::ResumingLater) => FIRST_TO_START,
            (None, Place::First | Place::Later) => u64::MAX,
            (Some(own), Place::Resuming | Place::First) => own.turn,
            (Some(own), Place::ResumingLater | Place::Later) => own.turn + 1,
        }
    }
}
