//! The shapes that were refused, and the clients that could reserve no room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{SLOTS_COLUMN, Shape, WorkerIndex, Workers};
use crate::ClientId;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    /// The refused shapes, by turn, client, and the client's key.
    shapes: BTreeMap<(u64, ClientId, u32), Watched>,
    turns: BTreeMap<(ClientId, u32), u64>,
    /// How many of them take no slot.
    without_slots: usize,
    /// The clients that have no reservation although their first work was refused, by turn.
    unreserved: BTreeMap<(u64, ClientId), Arc<Shape>>,
    unreserved_turns: BTreeMap<ClientId, u64>,
    /// Those of them that may get one now.
    called: BTreeSet<ClientId>,
    /// Clients to wake when room is next offered.
    to_wake: Vec<ClientId>,
    /// The workers at which there is room to offer, to watches with numbers up to this one.
    offered: BTreeMap<WorkerIndex, u64>,
    count: u64,
}

#[derive(Clone, Debug)]
struct Watched {
    shape: Arc<Shape>,
    /// Its number among all watches.
    number: u64,
    /// A worker has got room for it since, but its client was not woken: others come first.
    may_fit: bool,
}

impl Watches {
    pub(super) fn want_reservation(&mut self, turn: u64, client: ClientId, shape: &Arc<Shape>) {
        self.want_no_reservation(client);
        self.unreserved.insert((turn, client), shape.clone());
        self.unreserved_turns.insert(client, turn);
    }

    pub(super) fn want_no_reservation(&mut self, client: ClientId) {
        self.called.remove(&client);
        if let Some(turn) = self.unreserved_turns.remove(&client) {
            self.unreserved.remove(&(turn, client));
        }
    }

    /// Has a client search again that may reserve room.
    pub(super) fn call(&mut self, client: ClientId) {
        self.called.insert(client);
        self.to_wake.push(client);
    }

    pub(super) fn is_called(&self, client: ClientId) -> bool {
        self.called.contains(&client)
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        let keys = self.turns.range((client, 0)..=(client, u32::MAX));
        let keys: Vec<_> = keys.map(|((_, key), turn)| (*key, *turn)).collect();
        keys.into_iter().for_each(|(key, turn)| self.remove(turn, client, key));
        self.to_wake.retain(|one| *one != client);
    }

    fn insert(&mut self, turn: u64, client: ClientId, key: u32, shape: &Arc<Shape>) {
        self.count += 1;
        self.without_slots += usize::from(shape.amount(SLOTS_COLUMN) == 0);
        self.turns.insert((client, key), turn);
        let watched = Watched { shape: shape.clone(), number: self.count, may_fit: false };
        self.shapes.insert((turn, client, key), watched);
    }

    fn remove(&mut self, turn: u64, client: ClientId, key: u32) {
        self.turns.remove(&(client, key));
        if let Some(Watched { shape, .. }) = self.shapes.remove(&(turn, client, key)) {
            self.without_slots -= usize::from(shape.amount(SLOTS_COLUMN) == 0);
        }
    }
}

impl Workers {
    /// Has `client` told when a worker may have room for a shape, which it knows by a key.
    pub(crate) fn watch(&mut self, client: ClientId, key: u32, turn: u64, shape: &Arc<Shape>) {
        self.unwatch(client, key);
        self.watches.insert(turn, client, key, shape);
    }

    /// Returns whether no worker has got room for a shape since it was refused.
    pub(crate) fn lacks_room(&self, client: ClientId, key: u32) -> bool {
        let turn = self.watches.turns.get(&(client, key));
        turn.is_some_and(|turn| !self.watches.shapes[&(*turn, client, key)].may_fit)
    }

    /// Ends the watch of a shape.
    pub(crate) fn unwatch(&mut self, client: ClientId, key: u32) {
        if let Some(&turn) = self.watches.turns.get(&(client, key)) {
            self.watches.remove(turn, client, key);
        }
    }

    /// Has the room at a worker offered to all that watch.
    pub(super) fn release(&mut self, id: WorkerIndex) {
        self.watches.offered.insert(id, u64::MAX);
    }

    /// Offers the room that workers have got, and what woken clients have left of it. Returns the clients to
    /// wake, which then search; none once all room was offered to all that watched for it.
    pub(crate) fn pass_on(&mut self) -> Vec<ClientId> {
        let mut wakes = std::mem::take(&mut self.watches.to_wake);
        for (id, until) in std::mem::take(&mut self.watches.offered) {
            let until = until.min(self.watches.count);
            if self.offer(id, until, &mut wakes) {
                self.watches.offered.insert(id, until);
            }
        }
        wakes
    }

    /// Offers the room at a worker to watches with numbers up to `until`, and its reservation to a client
    /// without one. Appends the clients to wake, and returns whether there are any.
    fn offer(&mut self, id: WorkerIndex, until: u64, wakes: &mut Vec<ClientId>) -> bool {
        let (index, known) = (id.index(), wakes.len());
        if self.workers[index].intake.is_none() {
            return false;
        }
        wakes.extend(self.call_for_reservation(id));
        let Self { workers, rooms, watches, .. } = self;
        let (worker, free) = (&workers[index], rooms.free(index));
        // What woken clients leave, if each starts one work; it is offered again once they have searched.
        let mut left = free.to_vec();
        let mut woken: BTreeMap<ClientId, Vec<_>> = BTreeMap::new();
        for (&(turn, client, key), watched) in &mut watches.shapes {
            if free[SLOTS_COLUMN] <= 0 && watches.without_slots == 0 {
                break;
            }
            let bound = worker.reserved.as_ref().filter(|one| one.turn < turn);
            let reserved = |column| bound.map_or(0, |reserved| reserved.shape.amount(column));
            let shape = &watched.shape;
            let fits = |room: &[i128]| {
                shape.wants().all(|(column, steps)| steps <= room[column] - reserved(column))
            };
            if watched.number > until || !worker.has_labels(&shape.labels) || !fits(free) {
                continue;
            }
            watched.may_fit = true;
            if let Some(keys) = woken.get_mut(&client) {
                keys.push((turn, key));
            } else if fits(&left) {
                shape.wants().for_each(|(column, steps)| left[column] -= steps);
                woken.insert(client, vec![(turn, key)]);
            }
        }
        for (client, keys) in woken {
            keys.into_iter().for_each(|(turn, key)| watches.remove(turn, client, key));
            wakes.push(client);
        }
        wakes.len() > known
    }

    /// Returns the first client that wants a reservation and could have it at this worker.
    fn call_for_reservation(&mut self, id: WorkerIndex) -> Option<ClientId> {
        if self.workers[id.index()].reserved.is_some() {
            return None;
        }
        let able = self.watches.unreserved.iter().find(|((_, client), shape)| {
            !self.watches.called.contains(client) && self.could_take(id.index(), shape)
        });
        let client = able.map(|((_, client), _)| *client)?;
        self.watches.called.insert(client);
        Some(client)
    }
}
