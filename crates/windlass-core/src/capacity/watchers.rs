//! The clients to notify when one counter may have more room, in the order of their turns.
//!
//! Each client watches from a turn: earlier reservations bind it in any case, so it is notified
//! only if the room exceeds them. An armed client has a timer for the time at which a rate or quota
//! makes room for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ClientId;

#[derive(Clone, Debug, Default)]
pub(super) struct Watchers {
    watches: BTreeMap<ClientId, Watch>,
    armed: BTreeSet<(u64, ClientId)>,
    unarmed: BTreeSet<(u64, ClientId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) turn: u64,
    pub(super) armed: bool,
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ClientId> {
        self.watches.keys().copied()
    }

    /// Returns the turn from which `client` watches, if it does.
    pub(super) fn turn(&self, client: ClientId) -> Option<u64> {
        self.watches.get(&client).map(|watch| watch.turn)
    }

    /// Adds a watch. A client that watches already is then notified of everything that either watch
    /// covers.
    pub(super) fn add(&mut self, client: ClientId, watch: Watch) {
        let before = self.watches.get(&client).copied();
        let both = before.unwrap_or(watch);
        let (turn, armed) = (watch.turn.min(both.turn), watch.armed && both.armed);
        let watch = Watch { turn, armed };
        if before == Some(watch) {
            return;
        }
        self.remove(client);
        self.watches.insert(client, watch);
        self.list(watch).insert((watch.turn, client));
    }

    pub(super) fn remove(&mut self, client: ClientId) -> Option<Watch> {
        let watch = self.watches.remove(&client)?;
        self.list(watch).remove(&(watch.turn, client));
        Some(watch)
    }

    /// Moves clients to `wakes` in the order of their turns, up to the first turn that is not
    /// `near`.
    pub(super) fn notify(&mut self, near: impl Fn(u64) -> bool, wakes: &mut Vec<ClientId>) {
        notify(&mut self.armed, &mut self.watches, &near, wakes);
        notify(&mut self.unarmed, &mut self.watches, &near, wakes);
    }

    /// As [`Watchers::notify`], after `giver` itself has made room: it keeps watching. Returns
    /// whether it would be notified.
    pub(super) fn notify_others(
        &mut self,
        giver: ClientId,
        near: impl Fn(u64) -> bool,
        wakes: &mut Vec<ClientId>,
    ) -> bool {
        let own = self.watches.get(&giver).copied();
        if self.watches.len() > usize::from(own.is_some()) {
            self.remove(giver);
            self.notify(&near, wakes);
            own.into_iter().for_each(|own| self.add(giver, own));
        }
        own.is_some_and(|own| near(own.turn))
    }

    /// As [`Watchers::notify`], without armed clients.
    pub(super) fn notify_unarmed(&mut self, near: impl Fn(u64) -> bool, wakes: &mut Vec<ClientId>) {
        notify(&mut self.unarmed, &mut self.watches, &near, wakes);
    }

    fn list(&mut self, watch: Watch) -> &mut BTreeSet<(u64, ClientId)> {
        if watch.armed { &mut self.armed } else { &mut self.unarmed }
    }
}

fn notify(
    list: &mut BTreeSet<(u64, ClientId)>,
    watches: &mut BTreeMap<ClientId, Watch>,
    near: &impl Fn(u64) -> bool,
    wakes: &mut Vec<ClientId>,
) {
    while let Some(&(turn, client)) = list.first()
        && near(turn)
    {
        list.pop_first();
        watches.remove(&client);
        wakes.push(client);
    }
}
