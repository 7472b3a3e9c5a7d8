//! A naive capacity tree: lists of takes and reservations, from which every answer is recomputed.

use std::collections::BTreeMap;

use windlass_core::{ClientId, Place};

/// In the order of their ids in the tree.
pub(crate) const NAMES: [&str; 3] = ["slots", "disk", "gpu"];
/// The root, two levels under it, and one under the second of these.
pub(crate) const PARENTS: [Option<usize>; 4] = [None, Some(0), Some(0), Some(2)];

/// Steps, by resource.
pub(crate) type Amounts = [u64; NAMES.len()];
/// A level and a resource.
pub(crate) type Spot = (usize, usize);

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) kinds: BTreeMap<Spot, Kind>,
    /// Each client's level.
    pub(crate) clients: BTreeMap<ClientId, usize>,
    pub(crate) priorities: BTreeMap<ClientId, i16>,
    pub(crate) permits: Vec<Permit>,
    /// In the order of their turns.
    pub(crate) queue: Vec<Request>,
}

#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) client: ClientId,
    pub(crate) amounts: Amounts,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) client: ClientId,
    pub(crate) owner: u64,
    /// Whether it is that of a resumed attempt, which comes before all starts.
    pub(crate) resumes: bool,
    pub(crate) wanted: BTreeMap<Spot, u64>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Limit(u64),
    Rate(Bucket),
    Quota(Window),
}

/// All charges to a rate since it was set.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) amount: u64,
    pub(crate) per: u64,
    pub(crate) burst: u64,
    /// When it was set, and with how much.
    pub(crate) start: (u64, i128),
    pub(crate) charges: Vec<(u64, i128)>,
}

/// All charges to a quota; what the first window had used comes first.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) amount: u64,
    pub(crate) length: u64,
    pub(crate) charges: Vec<(u64, i128)>,
}

impl Bucket {
    pub(crate) fn latest(&self) -> u64 {
        self.charges.last().map_or(self.start.0, |charge| charge.0)
    }

    /// In closed form: the minimum over what there would be if the bucket had last been full now,
    /// just before or just after any charge, or never since its start. In steps times the period,
    /// so that all numbers are whole.
    pub(crate) fn free(&self, now: u64) -> i128 {
        let [amount, per, burst] = [self.amount, self.per, self.burst].map(i128::from);
        let now = now.max(self.latest());
        let after = |level: i128, since: u64, charges: &[(u64, i128)]| {
            let charged: i128 = charges.iter().map(|charge| charge.1).sum();
            (level - charged) * per + i128::from(now - since) * amount
        };
        let (start, level) = self.start;
        let mut least = (burst * per).min(after(level, start, &self.charges));
        for (place, &(at, _)) in self.charges.iter().enumerate() {
            let full_before = after(burst, at, &self.charges[place..]);
            let full_after = after(burst, at, &self.charges[place + 1..]);
            least = least.min(full_before).min(full_after);
        }
        least.div_euclid(per)
    }
}

impl Window {
    pub(crate) fn latest(&self) -> u64 {
        self.charges.last().expect("there is always a first").0
    }

    pub(crate) fn used(&self, now: u64) -> i128 {
        let window = now.max(self.latest()) / self.length;
        let charges = self.charges.iter().filter(|charge| charge.0 / self.length == window);
        charges.fold(0, |used, charge| (used + charge.1).max(0))
    }
}

impl Model {
    /// Iterates over the levels that bind the clients of `level`.
    pub(crate) fn chain(level: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(level), |level| PARENTS[*level])
    }

    pub(crate) fn held(&self, client: ClientId) -> Amounts {
        let own = self.permits.iter().filter(|permit| permit.client == client);
        own.fold(Amounts::default(), |sum, permit| {
            std::array::from_fn(|resource| sum[resource] + permit.amounts[resource])
        })
    }

    pub(crate) fn in_use(&self, (level, resource): Spot) -> i128 {
        let below =
            |permit: &&Permit| Self::chain(self.clients[&permit.client]).any(|l| l == level);
        let permits = self.permits.iter().filter(below);
        permits.map(|permit| i128::from(permit.amounts[resource])).sum()
    }

    /// Returns what is free, without regard to reservations; `None` where the resource is
    /// unlimited.
    pub(crate) fn free(&self, spot: Spot, now: u64) -> Option<i128> {
        Some(match self.kinds.get(&spot)? {
            Kind::Limit(limit) => i128::from(*limit) - self.in_use(spot),
            Kind::Rate(bucket) => bucket.free(now),
            Kind::Quota(window) => i128::from(window.amount) - window.used(now),
        })
    }

    /// Returns the maximum that can be taken at once.
    pub(crate) fn most(&self, spot: Spot) -> Option<u64> {
        Some(match self.kinds.get(&spot)? {
            Kind::Limit(limit) => *limit,
            Kind::Rate(bucket) => bucket.burst,
            Kind::Quota(window) => window.amount,
        })
    }

    pub(crate) fn reserved(&self, client: ClientId, spot: Spot, place: Place) -> i128 {
        let resumes = matches!(place, Place::Resuming | Place::ResumingLater);
        let is_own = |request: &Request| request.client == client && request.resumes == resumes;
        let before = match (self.queue.iter().position(is_own), place) {
            (None, _) => self.place_behind_equals(client, resumes),
            (Some(own), Place::First | Place::Resuming) => own,
            (Some(own), Place::Later | Place::ResumingLater) => own + 1,
        };
        let wanted = self.queue[..before].iter().filter_map(|request| request.wanted.get(&spot));
        wanted.map(|wanted| i128::from(*wanted)).sum()
    }

    pub(crate) fn room(&self, client: ClientId, spot: Spot, place: Place, now: u64) -> i128 {
        let free = self.free(spot, now);
        free.map_or(i128::MAX, |free| free - self.reserved(client, spot, place))
    }

    /// Returns where `amounts` do not fit, from the client's level upwards.
    pub(crate) fn short(
        &self,
        client: ClientId,
        amounts: Amounts,
        place: Place,
        now: u64,
    ) -> Vec<Spot> {
        let spots = Self::chain(self.clients[&client])
            .flat_map(|level| (0..NAMES.len()).map(move |resource| (level, resource)));
        let resuming = matches!(place, Place::Resuming | Place::ResumingLater);
        let counts_starts =
            |spot: &Spot| matches!(self.kinds.get(spot), Some(Kind::Rate(_) | Kind::Quota(_)));
        let short = |spot: &Spot| {
            let wanted = amounts[spot.1];
            let binds = !(resuming && counts_starts(spot));
            binds && wanted > 0 && i128::from(wanted) > self.room(client, *spot, place, now)
        };
        spots.filter(short).collect()
    }

    /// Charges rates and quotas on the client's chain.
    pub(crate) fn charge(&mut self, client: ClientId, changes: [i128; NAMES.len()], now: u64) {
        for level in Self::chain(self.clients[&client]) {
            for (resource, change) in changes.into_iter().enumerate().filter(|(_, n)| *n != 0) {
                match self.kinds.get_mut(&(level, resource)) {
                    Some(Kind::Rate(bucket)) => {
                        bucket.charges.push((now.max(bucket.latest()), change));
                    }
                    Some(Kind::Quota(window)) => {
                        window.charges.push((now.max(window.latest()), change));
                    }
                    _ => {}
                }
            }
        }
    }

    /// A resumed attempt is not a start, so nothing is charged for it.
    pub(crate) fn take(&mut self, client: ClientId, amounts: Amounts, place: Place, now: u64) {
        if matches!(place, Place::First | Place::Later) {
            self.charge(client, amounts.map(i128::from), now);
        }
        self.permits.push(Permit { client, amounts });
    }

    pub(crate) fn reserve(&mut self, new: Request) {
        self.queue.retain(|old| old.client != new.client || old.resumes == new.resumes);
        match self.queue.iter_mut().find(|request| request.client == new.client) {
            Some(request) if request.owner == new.owner => request.wanted.extend(new.wanted),
            Some(request) => *request = new,
            None => {
                let place = self.place_behind_equals(new.client, new.resumes);
                self.queue.insert(place, new);
            }
        }
    }

    /// Returns the place behind all requests that come before a new one of this client.
    fn place_behind_equals(&self, client: ClientId, resumes: bool) -> usize {
        let own = self.priorities[&client];
        self.queue.partition_point(|request| {
            request.resumes || (!resumes && self.priorities[&request.client] >= own)
        })
    }

    pub(crate) fn withdraw(&mut self, client: ClientId) {
        self.queue.retain(|request| request.client != client);
    }

    pub(crate) fn set_rate(&mut self, spot: Spot, (amount, per, burst): (u64, u64, u64), now: u64) {
        let start = match self.kinds.get(&spot) {
            Some(Kind::Rate(before)) => {
                (now.max(before.latest()), before.free(now).min(i128::from(burst)))
            }
            _ => (now, i128::from(burst)),
        };
        let bucket = Bucket { amount, per, burst, start, charges: Vec::new() };
        self.kinds.insert(spot, Kind::Rate(bucket));
    }

    pub(crate) fn set_quota(&mut self, spot: Spot, (amount, length): (u64, u64), now: u64) {
        let first = match self.kinds.get(&spot) {
            Some(Kind::Quota(before)) => (now.max(before.latest()), before.used(now)),
            _ => (now, 0),
        };
        self.kinds.insert(spot, Kind::Quota(Window { amount, length, charges: vec![first] }));
    }
}
