//! The two choices: where a work starts, and where its room is reserved.

use std::cmp::Reverse;
use std::sync::Arc;

use super::labels::LabelId;
use super::{Intake, SLOTS_COLUMN, Shape, Worker, WorkerIndex, Workers};
use crate::ClientId;

/// What is reserved at a worker.
#[derive(Clone, Debug)]
pub(super) struct Reserved {
    pub(super) turn: u64,
    pub(super) client: ClientId,
    pub(super) shape: Arc<Shape>,
}

/// A demand as it is tested against workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) shape: &'a Shape,
    /// Reservations with turns before this one bind it.
    pub(crate) before: u64,
    /// Whether it is that of an attempt that goes on, which its worker takes also while it is closed.
    pub(crate) goes_on: bool,
}

impl Worker {
    /// Returns whether it has all the labels of a shape.
    #[inline]
    pub(super) fn has_labels(&self, wanted: &[LabelId]) -> bool {
        wanted.iter().all(|label| self.labels.binary_search(label).is_ok())
    }

    #[inline]
    fn takes(&self, asked: Asked<'_>) -> bool {
        let is_open = match self.intake {
            Some(Intake::Open) => true,
            Some(Intake::Closed) => asked.goes_on,
            None => false,
        };
        is_open && self.has_labels(&asked.shape.labels)
    }
}

impl Workers {
    /// Returns the worker at which a demand starts, if one has room for it: the one that is left with the
    /// least.
    pub(crate) fn find(&self, asked: Asked<'_>) -> Option<WorkerIndex> {
        let mut best = None;
        // Most workers are full: that is seen in one row of amounts.
        let mut wants = asked.shape.wants();
        let (column, least) = wants.next().unwrap_or((SLOTS_COLUMN, i128::MIN));
        for (index, free) in self.rooms.free[column].iter().enumerate() {
            if *free < least {
                continue;
            }
            let worker = &self.workers[index];
            if worker.takes(asked) && self.has_room(index, asked.shape, asked.before) {
                let left = self.left(index, worker, asked.shape);
                if best.is_none_or(|(least, _)| left < least) {
                    best = Some((left, index));
                }
            }
        }
        best.map(|(_, index)| WorkerIndex::at(index))
    }

    /// Returns the name of the worker with the most free slots, of those that take works.
    pub(crate) fn idlest(&self) -> Option<&str> {
        let open = (0..self.workers.len())
            .filter(|index| self.workers[*index].intake == Some(Intake::Open));
        let free = |index: &usize| (self.rooms.free[SLOTS_COLUMN][*index], Reverse(*index));
        open.max_by_key(free).map(|index| &*self.workers[index].name)
    }

    /// Returns whether a worker has room for a shape that reservations with turns before this one bind.
    #[inline]
    pub(super) fn has_room(&self, index: usize, shape: &Shape, before: u64) -> bool {
        let free = &self.rooms.free;
        match &self.workers[index].reserved {
            Some(reserved) if reserved.turn < before => {
                let reserved = |column| reserved.shape.amount(column);
                shape.wants().all(|(column, steps)| steps <= free[column][index] - reserved(column))
            }
            _ => shape.wants().all(|(column, steps)| steps <= free[column][index]),
        }
    }

    /// Returns how much a worker is left with that takes a shape: resources that it does not use, then
    /// what is free of those that it does, without slots and with them.
    #[inline]
    fn left(&self, index: usize, worker: &Worker, shape: &Shape) -> (usize, i128, i128) {
        let (mut scarce, mut slots) = (0, 0);
        for (column, steps) in shape.wants() {
            let left = self.rooms.free[column][index] - steps;
            if column == SLOTS_COLUMN { slots = left } else { scarce += left }
        }
        (worker.kinds.saturating_sub(shape.wants().len()), scarce, slots)
    }

    /// Returns whether a worker could take a shape if it executed nothing.
    pub(super) fn could_take(&self, index: usize, shape: &Shape) -> bool {
        let (worker, total) = (&self.workers[index], &self.rooms.total);
        worker.intake == Some(Intake::Open)
            && worker.has_labels(&shape.labels)
            && shape.wants().all(|(column, steps)| steps <= total[column][index])
    }

    /// Reserves the room of a shape for the first work of a client. What is reserved for it stays where it
    /// is.
    pub(crate) fn reserve(&mut self, client: ClientId, turn: u64, shape: &Arc<Shape>) {
        self.watches.want_no_reservation(client);
        if let Some(&id) = self.reservations.get(&client) {
            let known = self.workers[id.index()].reserved.as_ref();
            if known.is_some_and(|known| known.turn == turn && known.shape == *shape) {
                return;
            }
        }
        self.withdraw(client);
        let Some(id) = self.where_to_reserve(turn, shape) else {
            self.watches.want_reservation(turn, client, shape);
            return;
        };
        let reserved = Reserved { turn, client, shape: shape.clone() };
        let displaced = self.workers[id.index()].reserved.replace(reserved);
        self.reservations.insert(client, id);
        if let Some(Reserved { turn, client, shape }) = displaced {
            self.reservations.remove(&client);
            self.watches.want_reservation(turn, client, &shape);
            self.watches.call(client);
            self.release(id);
        }
    }

    /// Returns the worker at which the least has to be given back until a shape fits: one without a
    /// reservation, or else one with that of a later turn.
    fn where_to_reserve(&self, turn: u64, shape: &Shape) -> Option<WorkerIndex> {
        let able = (0..self.workers.len()).filter(|index| self.could_take(*index, shape));
        let key = |index: usize| {
            let free = &self.rooms.free;
            let missing = shape.wants().map(|(column, steps)| (steps - free[column][index]).max(0));
            let missing: i128 = missing.sum();
            match &self.workers[index].reserved {
                None => Some((false, missing, index)),
                Some(reserved) if reserved.turn > turn => Some((true, missing, index)),
                Some(_) => None,
            }
        };
        able.filter_map(key).min().map(|(_, _, index)| WorkerIndex::at(index))
    }

    /// Returns whether a client may reserve room now that it could not when it was refused.
    pub(crate) fn may_reserve(&self, client: ClientId) -> bool {
        self.watches.is_called(client)
    }

    /// Releases what watches for room at a worker that has changed, and ends a reservation there if it takes
    /// that work no more.
    pub(super) fn changed(&mut self, id: WorkerIndex) {
        let reserved = self.workers[id.index()].reserved.as_ref();
        if let Some(shape) = reserved.map(|reserved| reserved.shape.clone())
            && !self.could_take(id.index(), &shape)
        {
            let Reserved { turn, client, shape } =
                self.workers[id.index()].reserved.take().expect("it has a reservation");
            self.reservations.remove(&client);
            self.watches.want_reservation(turn, client, &shape);
            self.watches.call(client);
        }
        self.release(id);
    }
}
