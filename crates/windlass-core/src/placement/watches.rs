//! The shapes that were refused, and the clients that could reserve no room.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::{Reserved, Shape, WorkerIndex, Workers};
use crate::ClientId;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    /// The watches of each shape; vacant where no client watches.
    groups: Vec<Group>,
    by_shape: BTreeMap<Arc<Shape>, usize>,
    vacant: Vec<usize>,
    /// The watch of each client and each of its keys.
    keys: BTreeMap<(ClientId, u32), Watch>,
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

/// Those that watch for one shape.
#[derive(Clone, Debug)]
struct Group {
    shape: Arc<Shape>,
    /// By turn, client, and the client's key.
    members: BTreeMap<(u64, ClientId, u32), Member>,
    /// A worker has got room since the watches with numbers up to this one began.
    room_since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Its number among all watches.
    number: u64,
    /// Its client was woken since.
    woken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    turn: u64,
    number: u64,
    group: usize,
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
        let keys = self.keys.range((client, 0)..=(client, u32::MAX));
        let keys: Vec<_> = keys.map(|((_, key), _)| *key).collect();
        keys.into_iter().for_each(|key| self.remove(client, key));
        self.to_wake.retain(|one| *one != client);
    }

    fn insert(&mut self, turn: u64, client: ClientId, key: u32, shape: &Arc<Shape>) {
        self.count += 1;
        let (group, number) = (self.group(shape), self.count);
        let member = Member { number, woken: false };
        self.groups[group].members.insert((turn, client, key), member);
        self.keys.insert((client, key), Watch { turn, number, group });
    }

    fn remove(&mut self, client: ClientId, key: u32) {
        let Some(Watch { turn, group, .. }) = self.keys.remove(&(client, key)) else { return };
        let Group { members, shape, .. } = &mut self.groups[group];
        members.remove(&(turn, client, key));
        if members.is_empty() {
            self.by_shape.remove(shape);
            self.vacant.push(group);
        }
    }

    /// Returns the group of a shape, which may be new.
    fn group(&mut self, shape: &Arc<Shape>) -> usize {
        if let Some(known) = self.by_shape.get(shape) {
            return *known;
        }
        let group = Group { shape: shape.clone(), members: BTreeMap::new(), room_since: 0 };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.groups[index] = group;
                index
            }
            None => {
                self.groups.push(group);
                self.groups.len() - 1
            }
        };
        self.by_shape.insert(shape.clone(), index);
        index
    }

    fn has_room(&self, watch: Watch) -> bool {
        watch.number <= self.groups[watch.group].room_since
    }
}

impl Group {
    /// Returns the first that was not woken, with a turn up to `last` and a number up to `until`, behind
    /// `after`.
    fn next(
        &self,
        after: Option<(u64, ClientId, u32)>,
        last: u64,
        until: u64,
    ) -> Option<(u64, ClientId, u32)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let members = self.members.range((begin, Bound::Unbounded));
        let mut members = members.take_while(|((turn, ..), _)| *turn <= last);
        let next = members.find(|(_, member)| !member.woken && member.number <= until);
        next.map(|(place, _)| *place)
    }
}

impl Workers {
    /// Has `client` told when a worker may have room for a shape, which it knows by a key.
    pub(crate) fn watch(&mut self, client: ClientId, key: u32, turn: u64, shape: &Arc<Shape>) {
        self.unwatch(client, key);
        self.watches.insert(turn, client, key, shape);
    }

    /// Returns the keys of the shapes of a client for which a worker has got room since they were refused.
    pub(crate) fn fitting(&self, client: ClientId) -> impl Iterator<Item = u32> {
        let watches = self.watches.keys.range((client, 0)..=(client, u32::MAX));
        watches.filter(|(_, watch)| self.watches.has_room(**watch)).map(|((_, key), _)| *key)
    }

    /// Returns whether no worker has got room for a shape since it was refused.
    pub(crate) fn lacks_room(&self, client: ClientId, key: u32) -> bool {
        let watch = self.watches.keys.get(&(client, key));
        watch.is_some_and(|watch| !self.watches.has_room(*watch))
    }

    /// Ends the watch of a shape.
    pub(crate) fn unwatch(&mut self, client: ClientId, key: u32) {
        self.watches.remove(client, key);
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
        let reserved = worker.reserved.as_ref();
        let mut heads = BTreeSet::new();
        for &group in watches.by_shape.values() {
            let Group { shape, .. } = &watches.groups[group];
            let fits = |bound: Option<&Reserved>| {
                let reserved = |column| bound.map_or(0, |one| one.shape.amount(column));
                shape.wants().all(|(column, steps)| steps <= free[column] - reserved(column))
            };
            if !worker.has_labels(&shape.labels) || !fits(None) {
                continue;
            }
            // Later turns are bound by what is reserved here.
            let last = reserved.filter(|_| !fits(reserved)).map_or(u64::MAX, |one| one.turn);
            let group_of = &mut watches.groups[group];
            if group_of.members.first_key_value().is_some_and(|((turn, ..), _)| *turn <= last) {
                group_of.room_since = group_of.room_since.max(until);
            }
            let head = group_of.next(None, last, until);
            heads.extend(head.map(|place| (place, group, last)));
        }
        // What woken clients leave, if each starts one work; it is offered again once they have searched.
        let mut left = free;
        let mut woken: BTreeSet<ClientId> = BTreeSet::new();
        while let Some((place, group, last)) = heads.pop_first() {
            let (_, client, _) = place;
            let of = &mut watches.groups[group];
            let fits = of.shape.wants().all(|(column, steps)| steps <= left[column]);
            if !woken.contains(&client) && !fits {
                // The others of this shape do not fit either.
                continue;
            }
            of.members.get_mut(&place).expect("it watches").woken = true;
            if woken.insert(client) {
                of.shape.wants().for_each(|(column, steps)| left[column] -= steps);
            }
            heads.extend(of.next(Some(place), last, until).map(|next| (next, group, last)));
        }
        wakes.extend(woken);
        wakes.len() > known
    }

    /// Returns the first client that wants a reservation and could have it at this worker: none is made there,
    /// or one of a later turn.
    fn call_for_reservation(&mut self, id: WorkerIndex) -> Option<ClientId> {
        let reserved = self.workers[id.index()].reserved.as_ref().map_or(u64::MAX, |one| one.turn);
        let earlier = self.watches.unreserved.iter().take_while(|((turn, _), _)| *turn < reserved);
        let mut able = earlier.filter(|((_, client), shape)| {
            !self.watches.called.contains(client) && self.could_take(id.index(), shape)
        });
        let client = able.next().map(|((_, client), _)| *client)?;
        self.watches.called.insert(client);
        Some(client)
    }
}
