//! One resource at one level: its limit, rate or quota, what is in use, reservations and watchers.
//!
//! The kind that was set last applies. What is in use is counted in any case, so that nothing is
//! lost when the kind changes. Amounts are signed and in steps.
//!
//! Knows nothing of other levels or of names.

use super::Place;
use super::reservations::Reservations;
use super::watchers::{Watch, Watchers};
use crate::rate::{Bucket, Window};
use crate::{Amount, ClientId, Short, Timestamp};

#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    pub(super) in_use: i128,
    pub(super) kind: Kind,
    /// The number of refusals so far.
    pub(super) refusals: u64,
    /// Absent until a client has waited here, to keep other counters small.
    waiting: Option<Box<Contenders>>,
}

/// A take visits one counter per level and resource, so a counter fits in a cache line.
const _: () = assert!(size_of::<Counter>() <= 48);

/// What bounds a counter.
#[derive(Clone, Debug, Default)]
pub(super) enum Kind {
    /// Unlimited.
    #[default]
    Open,
    /// A maximum in use at a time.
    Limit(Amount),
    /// A token bucket; boxed, because few counters have one.
    Rate(Box<Bucket>),
    /// A maximum per window.
    Quota(Box<Window>),
}

#[derive(Clone, Debug, Default)]
struct Contenders {
    reservations: Reservations,
    /// The clients that were refused here and have not been notified since.
    watchers: Watchers,
}

impl Counter {
    /// Returns what is free without regard to reservations; the maximum where nothing bounds it.
    pub(super) fn free(&self, now: Timestamp) -> i128 {
        match &self.kind {
            Kind::Open => i128::MAX,
            Kind::Limit(limit) => i128::from(limit.steps()) - self.in_use,
            Kind::Rate(bucket) => bucket.free(now),
            Kind::Quota(window) => window.free(now),
        }
    }

    /// As [`Counter::free`], but 0 when in debt, and `None` where nothing bounds it.
    pub(super) fn available(&self, now: Timestamp) -> Option<Amount> {
        let free = match self.kind {
            Kind::Open => return None,
            _ => self.free(now).max(0),
        };
        Some(Amount::from_steps(u64::try_from(free).unwrap_or(u64::MAX)))
    }

    /// Returns the largest amount that can ever be taken at once, or `None` where nothing bounds
    /// it.
    pub(super) fn most(&self) -> Option<Amount> {
        match &self.kind {
            Kind::Open => None,
            Kind::Limit(limit) => Some(*limit),
            Kind::Rate(bucket) => Some(bucket.rate().burst),
            Kind::Quota(window) => Some(window.quota().amount),
        }
    }

    /// Returns whether `wanted` is free beside the reservations with turns before `before`.
    #[inline]
    pub(super) fn fits(&self, wanted: Amount, place: Place, before: u64, now: Timestamp) -> bool {
        let needed = i128::from(wanted.steps()) + self.reserved_before(before);
        match &self.kind {
            Kind::Open => true,
            Kind::Rate(_) | Kind::Quota(_) if place.is_resuming() => true,
            Kind::Limit(limit) => needed + self.in_use <= i128::from(limit.steps()),
            Kind::Rate(bucket) => bucket.has(needed, now),
            Kind::Quota(window) => needed <= window.free(now),
        }
    }

    /// Returns why `wanted` does not fit.
    pub(super) fn short(&self, wanted: Amount, before: u64, now: Timestamp) -> Short {
        match (&self.kind, self.when(wanted, before, now)) {
            (Kind::Rate(_), Some(at)) => Short::Rate { at },
            (Kind::Quota(_), Some(at)) => Short::Quota { at },
            _ => Short::Limit { free: self.free(now), reserved: self.reserved_before(before) },
        }
    }

    /// Returns when time alone makes room for `wanted`, or `None` if time does not.
    pub(super) fn when(&self, wanted: Amount, before: u64, now: Timestamp) -> Option<Timestamp> {
        let needed = i128::from(wanted.steps()) + self.reserved_before(before);
        match &self.kind {
            Kind::Open | Kind::Limit(_) => None,
            _ if wanted == Amount::ZERO => Some(now),
            Kind::Rate(bucket) => Some(bucket.when(needed, now)),
            Kind::Quota(window) => Some(window.when(needed, now)),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, steps: i128, now: Timestamp) {
        self.in_use += steps;
        match &mut self.kind {
            Kind::Open | Kind::Limit(_) => {}
            Kind::Rate(bucket) => bucket.charge(steps, now),
            Kind::Quota(window) => window.charge(steps, now),
        }
    }

    /// Releases what `giver` had in use; rates and quotas get nothing back. Appends the other
    /// watchers that may have room now to `wakes`. Returns whether the giver watches and may have
    /// room; it keeps watching.
    #[inline]
    pub(super) fn give_back(
        &mut self,
        giver: ClientId,
        steps: i128,
        wakes: &mut Vec<ClientId>,
    ) -> bool {
        self.in_use -= steps;
        if let Kind::Limit(_) = self.kind
            && let Some(waiting) = &mut self.waiting
            && !waiting.watchers.is_empty()
        {
            let horizon = horizon(&self.kind, self.in_use);
            let Contenders { reservations, watchers } = &mut **waiting;
            let near = |turn| turn == 0 || reservations.sum_before(turn) < horizon;
            return watchers.notify_others(giver, near, wakes);
        }
        false
    }

    /// Returns the sum of the reservations with turns before `before`.
    #[inline]
    pub(super) fn reserved_before(&self, before: u64) -> i128 {
        match &self.waiting {
            Some(waiting) => waiting.reservations.sum_before(before),
            _ => 0,
        }
    }

    pub(super) fn reservations(&self) -> Option<&Reservations> {
        self.waiting.as_ref().map(|waiting| &waiting.reservations)
    }

    pub(super) fn reservations_mut(&mut self) -> &mut Reservations {
        &mut self.waiting.get_or_insert_default().reservations
    }

    pub(super) fn watchers(&self) -> impl Iterator<Item = ClientId> {
        self.waiting.iter().flat_map(|waiting| waiting.watchers.iter())
    }

    /// Has `client` told when there may be room for a demand at `turn`.
    pub(super) fn watch(&mut self, client: ClientId, turn: u64) {
        self.waiting.get_or_insert_default().watchers.add(client, Watch { turn, armed: false });
    }

    /// As [`Counter::watch`], for a client that looks again by itself at the time that
    /// [`Counter::when`] returns for its reservation.
    pub(super) fn watch_armed(&mut self, client: ClientId, turn: u64) {
        let needed = self.reserved_before(turn + 1);
        let timed = matches!(self.kind, Kind::Rate(_) | Kind::Quota(_));
        let waiting = self.waiting.get_or_insert_default();
        let armed =
            timed && waiting.reservations.reserves(turn) && needed <= horizon(&self.kind, 0);
        waiting.watchers.add(client, Watch { turn, armed });
    }

    pub(super) fn unwatch(&mut self, client: ClientId) {
        if let Some(waiting) = &mut self.waiting {
            waiting.watchers.remove(client);
        }
    }

    /// Ends the watch from `turn`, unless the client watches from an earlier turn.
    pub(super) fn unwatch_from(&mut self, client: ClientId, turn: u64) {
        if let Some(waiting) = &mut self.waiting
            && waiting.watchers.turn(client) == Some(turn)
        {
            waiting.watchers.remove(client);
        }
    }

    /// Moves the watchers that may have room now to `wakes`.
    #[inline]
    pub(super) fn wake(&mut self, wakes: &mut Vec<ClientId>) {
        if let Some(waiting) = &mut self.waiting
            && !waiting.watchers.is_empty()
        {
            waiting.wake(horizon(&self.kind, self.in_use), wakes);
        }
    }

    /// Changes the kind, and moves all watchers to `wakes`.
    pub(super) fn become_kind(&mut self, kind: Kind, wakes: &mut Vec<ClientId>) {
        self.kind = kind;
        if let Some(waiting) = &mut self.waiting {
            waiting.watchers.notify(|_| true, wakes);
        }
    }

    /// As [`Counter::wake`], after a client has taken what was reserved for it. At a rate or a
    /// quota this changes nothing for armed clients.
    pub(super) fn wake_next(&mut self, wakes: &mut Vec<ClientId>) {
        if let Some(Contenders { reservations, watchers }) = self.waiting.as_deref_mut() {
            let horizon = horizon(&self.kind, self.in_use);
            watchers
                .notify_unarmed(|turn| turn == 0 || reservations.sum_before(turn) < horizon, wakes);
        }
    }
}

/// Returns how much may be reserved before a turn for which there may still be room, now or in
/// time.
fn horizon(kind: &Kind, in_use: i128) -> i128 {
    match kind {
        Kind::Open => i128::MAX,
        Kind::Limit(limit) => i128::from(limit.steps()) - in_use,
        Kind::Rate(bucket) => i128::from(bucket.rate().burst.steps()),
        Kind::Quota(window) => i128::from(window.quota().amount.steps()),
    }
}

impl Contenders {
    /// Separate, so that a release stays small where no client watches.
    #[cold]
    fn wake(&mut self, horizon: i128, wakes: &mut Vec<ClientId>) {
        let Self { reservations, watchers } = self;
        watchers.notify(|turn| turn == 0 || reservations.sum_before(turn) < horizon, wakes);
    }
}
