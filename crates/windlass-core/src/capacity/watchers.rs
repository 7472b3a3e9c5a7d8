//! Who is to be told when there may be more of one resource at one level, in the order in which it
//! could be of use to them.
//!
//! Each watches from a turn: what is reserved for those before that turn binds it in any case. Some
//! are armed, which means that they know by themselves when time will bring what they want.

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

    /// From which turn `client` watches, if it does.
    pub(super) fn turn(&self, client: ClientId) -> Option<u64> {
        self.watches.get(&client).map(|watch| watch.turn)
    }

    /// One that watches already is told of everything that either would be told of.
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

    /// Moves those to `wakes` who watch from a turn that is `near`, up to the first that is not.
    pub(super) fn tell(&mut self, near: impl Fn(u64) -> bool, wakes: &mut Vec<ClientId>) {
        tell(&mut self.armed, &mut self.watches, &near, wakes);
        tell(&mut self.unarmed, &mut self.watches, &near, wakes);
    }

    /// As [`Watchers::tell`], after `giver` itself has made room: it is told, and goes on watching.
    pub(super) fn tell_others(
        &mut self,
        giver: ClientId,
        near: impl Fn(u64) -> bool,
        wakes: &mut Vec<ClientId>,
    ) {
        let own = self.watches.get(&giver).copied();
        if self.watches.len() > usize::from(own.is_some()) {
            self.remove(giver);
            self.tell(&near, wakes);
            own.into_iter().for_each(|own| self.add(giver, own));
        }
        wakes.extend(own.filter(|own| near(own.turn)).map(|_| giver));
    }

    /// As [`Watchers::tell`], without those who are armed.
    pub(super) fn tell_unarmed(&mut self, near: impl Fn(u64) -> bool, wakes: &mut Vec<ClientId>) {
        tell(&mut self.unarmed, &mut self.watches, &near, wakes);
    }

    fn list(&mut self, watch: Watch) -> &mut BTreeSet<(u64, ClientId)> {
        if watch.armed { &mut self.armed } else { &mut self.unarmed }
    }
}

fn tell(
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
