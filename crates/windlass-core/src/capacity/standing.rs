//! Standing requests: a client's place in line, and who is to be told when there may be more.
//!
//! A set-aside binds only those who stand later: other clients by their turn, the client's own
//! later works behind it. So the first of all is bound by nothing.

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
    /// become earlier. Not for one that resumes: nothing set aside binds that.
    ///
    /// # Panics
    ///
    /// If the level is not one that binds the client.
    pub fn watch_in_line(&mut self, client: ClientId, level: LevelId, resource: ResourceId) {
        self.expect_bound(client, level);
        let standing = self.client(client).standing.as_ref();
        let turn = standing.map_or(self.turns + 1, |standing| standing.turn);
        self.levels[level.index()].cell_mut(resource).watch_from(client, turn);
    }

    /// Sets what refused the first work of `client` aside for it. `owner` names that work: the same
    /// one again adds to its request, another takes over its place in line. Returns who should
    /// look again.
    pub fn stand(&mut self, client: ClientId, owner: u64, refusal: &Refusal) -> Vec<ClientId> {
        let before = self.client(client).standing.as_ref().map(|known| (known.turn, known.owner));
        let (turn, mut wakes) = match before {
            None => (self.next_turn(), Vec::new()),
            Some((turn, known)) if known == owner => (turn, Vec::new()),
            Some((turn, _)) => (turn, self.withdraw(client)),
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

    /// Requests with turns before this one bind the one who asks.
    #[inline]
    pub(super) fn bound(&self, client: ClientId, place: Place) -> u64 {
        match (&self.client(client).standing, place) {
            (_, Place::Resuming) => 0,
            (None, _) => u64::MAX,
            (Some(standing), Place::First) => standing.turn,
            (Some(standing), Place::Later | Place::ResumingLater) => standing.turn + 1,
        }
    }

    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}
