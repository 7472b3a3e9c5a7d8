//! The queue of ready works: by effective priority, then in the order in which they became ready.
//!
//! *Groups and lanes.* Works of equal cost form a [group](group::Group): what refuses one refuses
//! all. Within a group, works of equal priority form a [lane](lane::Lane), first in, first out,
//! because they age alike. So only the heads of lanes have to be compared.
//!
//! *Tournaments.* A [`Tournament`] keeps the best head of many lanes or groups. With ageing there
//! are two bests, one still ageing and one at the cap (see `ageing`), and they are compared at the
//! time of the decision. `caps` holds the times at which lane heads reach the cap and change from
//! one order to the other.
//!
//! *Blocked groups.* A refused group moves from the tournament `open` to the [`Blocked`] groups of
//! the counter that refused it, keyed by the amount that it wants. These groups are candidates
//! again once that counter may have more, and then only those that want at most the room there is.
//! So a search visits neither a group that cannot start nor a counter that has not changed.
//!
//! Knows neither limits nor works: the caller passes the room of a counter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::ageing::Ageing;
use crate::{Amount, CostId, LevelId, ResourceId, Timestamp, WorkId};

mod blocked;
mod buckets;
mod group;
mod lane;
mod queues;
mod rank;
mod tournament;

use blocked::Blocked;
pub(crate) use blocked::{Unwatched, WatchState};
use group::{Changed, Group};
use lane::Lane;
pub(crate) use lane::Waiting;
pub(crate) use queues::{QueueKind, Queues};
pub(crate) use rank::Seq;
use rank::{Best, LaneId};
use tournament::{Contestant, Tournament};

#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyQueue {
    ageing: Ageing,
    /// By cost.
    groups: Vec<Group>,
    /// By cost: what blocks the group; `None` if it was not refused.
    blocked_by: Vec<Option<Block>>,
    /// The groups that were not refused.
    open: Tournament,
    /// The only group with works, if there is only one. It needs no comparison, so it is listed
    /// neither in `open` nor in `blocked`.
    sole: Option<CostId>,
    blocked: Blocked,
    /// When the heads of lanes reach the cap of their ageing.
    caps: BTreeSet<(Timestamp, LaneId)>,
    len: usize,
}

/// What can refuse a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterKey {
    /// One resource at one level.
    Resource { level: LevelId, resource: ResourceId },
    /// The workers, none of which has room for this cost. As an amount, the group wants
    /// [`ONE_WORKER`].
    Workers(CostId),
}

/// What a group wants that no worker has room for.
pub(crate) const ONE_WORKER: Amount = Amount::ONE;

/// The counter on which a group is blocked, and how much it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    place: u32,
    pub(crate) wanted: Amount,
}

/// The first work of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) work: WorkId,
    pub(crate) cost: CostId,
    pub(crate) blocked_by: Option<Block>,
}

/// The keys under which a work is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) cost: CostId,
    pub(crate) priority: i64,
}

impl ReadyQueue {
    pub(crate) fn new(ageing: Ageing) -> Self {
        Self { ageing, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, listing: Listing, waiting: Waiting, now: Timestamp) {
        let Listing { cost, priority } = listing;
        if self.groups.len() <= cost.index() {
            self.add_groups_up_to(cost);
        }
        if self.len == 0 {
            self.sole = Some(cost);
        } else if self.sole.is_some_and(|sole| sole != cost) {
            self.list_sole();
        }
        self.len += 1;
        if let Some(changed) = self.groups[cost.index()].insert(priority, waiting) {
            self.relist(cost, &changed, now);
        }
    }

    /// Lists the only group with works, because a second one arrives.
    fn list_sole(&mut self) {
        if let Some(sole) = self.sole.take() {
            self.list(sole);
        }
    }

    #[cold]
    fn add_groups_up_to(&mut self, cost: CostId) {
        for number in self.groups.len()..=cost.index() {
            self.groups.push(Group::new(CostId::at(number), &self.ageing));
            self.blocked_by.push(None);
        }
    }

    /// Frees the memory of the group of a cost that no work has.
    pub(crate) fn vacate(&mut self, cost: CostId) {
        if let Some(group) = self.groups.get_mut(cost.index()) {
            assert_eq!(group.len(), 0, "a work in queue has its cost");
            *group = Group::new(cost, &self.ageing);
        }
    }

    /// Removes a work that starts or leaves.
    pub(crate) fn remove(&mut self, listing: Listing, seq: Seq, now: Timestamp) {
        let Listing { cost, priority } = listing;
        self.len -= 1;
        if let Some(changed) = self.groups[cost.index()].remove(priority, seq) {
            self.relist(cost, &changed, now);
        }
        if self.groups[cost.index()].len() == 0 {
            self.unblock(cost);
        }
    }

    /// Moves lane heads that reached the cap by `now` to the capped order, and opens blocked groups
    /// whose wake-up is due.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        if !self.caps.is_empty() || !self.blocked.is_empty() {
            self.advance_to(now);
        }
    }

    fn advance_to(&mut self, now: Timestamp) {
        while let Some(&(at, lane)) = self.caps.first()
            && at <= now
        {
            self.caps.pop_first();
            self.groups[lane.cost.index()].refresh(lane.lane, &self.ageing, now);
            self.list(lane.cost);
        }
        self.blocked.advance(now);
    }

    /// Returns the first work of the queue, blocked or not.
    #[inline]
    pub(crate) fn first(&self, now: Timestamp) -> Option<Candidate> {
        if self.len == 0 {
            return None;
        }
        let fixed = self.sole.and_then(|sole| self.groups[sole.index()].best_lane());
        self.candidate(fixed.or_else(|| self.best().at(&self.ageing, now))?)
    }

    /// Returns the first work that is not blocked, or that may fit by now. `room` returns the room
    /// of a counter. Counters where nothing fits are tried then.
    pub(crate) fn first_open(
        &mut self,
        now: Timestamp,
        room: impl Fn(CounterKey) -> i128,
    ) -> Option<Candidate> {
        if self.sole.is_some() {
            let first = self.first(now)?;
            let fits = first.blocked_by.is_none_or(|blocked_by| self.may_fit(blocked_by, room));
            return Some(first).filter(|_| fits);
        }
        // Counters whose best group does not fit, and the best of those that do.
        let (mut passed, mut fitting) = (Vec::new(), Best::default());
        let first = loop {
            let best = self.open.best().or(self.blocked.best_open()).or(fitting);
            let Some(lane) = best.at(&self.ageing, now) else { break None };
            match self.blocked_by[lane.cost.index()] {
                Some(Block { place, wanted })
                    if room(self.blocked.counter(place)) < i128::from(wanted.steps()) =>
                {
                    fitting =
                        fitting.or(self.blocked.pass_by(place, room(self.blocked.counter(place))));
                    passed.push(place);
                }
                _ => break Some(lane),
            }
        };
        self.blocked.return_to_contest(passed);
        self.candidate(first?)
    }

    /// Returns whether a blocked group may fit by now.
    pub(crate) fn may_fit(&self, blocked_by: Block, room: impl Fn(CounterKey) -> i128) -> bool {
        let Block { place, wanted } = blocked_by;
        !self.blocked.is_watched(place)
            && i128::from(wanted.steps()) <= room(self.blocked.counter(place))
    }

    /// Blocks a refused group until `counter` may have as much as it wants.
    pub(crate) fn block(&mut self, cost: CostId, counter: CounterKey, wanted: Amount) {
        let place = self.blocked.refusing(counter);
        let block = Some(Block { place, wanted });
        if self.blocked_by[cost.index()] != block {
            self.unlist(cost);
            self.blocked_by[cost.index()] = block;
            self.list(cost);
        }
    }

    /// Makes the groups that a counter refused candidates again.
    pub(crate) fn unblock_at(&mut self, counter: CounterKey, watch: WatchState) {
        self.blocked.open(counter, watch);
    }

    /// Makes all blocked groups candidates again.
    pub(crate) fn unblock_all(&mut self, watch: WatchState) {
        self.blocked.open_all(watch);
    }

    /// Marks blocked groups as no candidates. For each of their counters, calls `watch` with whether
    /// it is watched already and the least amount that a blocked group wants. `watch` subscribes to
    /// the counter, and returns when time alone will make that much room.
    pub(crate) fn watch_blocked(
        &mut self,
        which: Unwatched,
        watch: &mut impl FnMut(CounterKey, WatchState, Amount) -> Option<Timestamp>,
    ) {
        let at = |block: Block| (block.place, block.wanted);
        let sole = self.sole_block().map(|block| block.map(at));
        self.blocked.watch(which, sole, watch);
    }

    /// Returns what the works of this queue lack, and the counter, if they are all alike, were
    /// refused, and the engine is notified when there may be more.
    pub(crate) fn awaited_by_all(&self) -> Option<(CounterKey, Amount)> {
        let Block { place, wanted } = self.sole_block()??;
        self.blocked.notifies(place).then(|| (self.blocked.counter(place), wanted))
    }

    fn has_blocked(&self) -> bool {
        match self.sole_block() {
            Some(block) => block.is_some(),
            None => self.blocked.has_groups(),
        }
    }

    /// Returns what blocks the only group with works; `None` if there are several groups.
    fn sole_block(&self) -> Option<Option<Block>> {
        self.sole.map(|sole| self.blocked_by[sole.index()])
    }

    /// Returns when time alone may let a blocked group fit, or may change which work is first.
    #[inline]
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        if self.blocked.is_empty() { None } else { self.next_chance(now) }
    }

    fn next_chance(&self, now: Timestamp) -> Option<Timestamp> {
        let fits = self.blocked.next_wake();
        if self.ageing == Ageing::NONE {
            // Without ageing, no work overtakes another by waiting.
            return fits.filter(|_| self.len > 0);
        }
        if !self.has_blocked() {
            return None;
        }
        let top = self.caps.first().map(|(at, _)| *at);
        let overtaken = self.best().overtaken_at(&self.ageing, now);
        [fits, top, overtaken].into_iter().flatten().min()
    }

    /// Returns whether all works of the queue have this cost.
    pub(crate) fn is_all_of(&self, cost: CostId) -> bool {
        self.groups[cost.index()].len() == self.len
    }

    /// Returns the counter that refused a group.
    pub(crate) fn counter(&self, blocked_by: Block) -> CounterKey {
        self.blocked.counter(blocked_by.place)
    }

    /// Iterates over all works of the queue.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.groups.iter().flat_map(Group::iter)
    }

    /// Returns how many works are before the one with these keys. Searches each lane once, so the
    /// cost grows with the number of lanes, and only logarithmically with the works in them.
    pub(crate) fn ahead(&self, listing: Listing, of: Waiting, now: Timestamp) -> usize {
        let own = self.rank(listing.priority, &of, now);
        let before = |lane: &Lane| lane.count_while(|one| self.rank(lane.priority, one, now) < own);
        self.lanes().map(before).sum()
    }

    /// Returns the first work at `now`, blocked or not.
    ///
    /// If the queue has been [advanced](Self::advance) to `now`, the tournament knows it. Otherwise
    /// lanes that have reached the cap since are listed too high, so the heads of all lanes are
    /// compared.
    pub(crate) fn foremost(&self, now: Timestamp) -> Option<WorkId> {
        if self.caps.first().is_none_or(|(at, _)| *at > now) {
            return self.first(now).map(|first| first.work);
        }
        let heads = self.lanes().filter_map(|lane| Some((lane.priority, lane.first()?)));
        heads
            .min_by_key(|(priority, head)| self.rank(*priority, head, now))
            .map(|(_, one)| one.work)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.groups.iter().flat_map(Group::lanes)
    }

    fn rank(&self, priority: i64, of: &Waiting, now: Timestamp) -> (Reverse<i128>, Seq) {
        (Reverse(self.ageing.effective(priority, of.since, now)), of.seq)
    }

    fn best(&self) -> Best {
        if let Some(sole) = self.sole {
            return self.groups[sole.index()].best();
        }
        self.open.best().or(self.blocked.best())
    }

    #[inline]
    fn candidate(&self, lane: LaneId) -> Option<Candidate> {
        let cost = lane.cost;
        let first = self.groups[cost.index()].lane(lane.lane).first()?;
        Some(Candidate { work: first.work, cost, blocked_by: self.blocked_by[cost.index()] })
    }

    /// Lists everything above a lane again after its head has changed.
    #[inline(always)]
    fn relist(&mut self, cost: CostId, changed: &Changed, now: Timestamp) {
        if self.sole.is_none() || self.groups[cost.index()].is_contest() {
            self.relist_lane(cost, changed, now);
        }
    }

    #[inline(never)]
    fn relist_lane(&mut self, cost: CostId, changed: &Changed, now: Timestamp) {
        if self.ageing != Ageing::NONE {
            self.keep_cap(cost, changed, now);
        }
        self.groups[cost.index()].refresh(changed.lane, &self.ageing, now);
        self.list(cost);
    }

    /// Records when the head of a lane reaches the cap of its ageing.
    fn keep_cap(&mut self, cost: CostId, changed: &Changed, now: Timestamp) {
        let group = &self.groups[cost.index()];
        let lane = LaneId { cost, lane: changed.lane };
        if let Some(top) = changed.first.and_then(|since| self.ageing.capped_at(since)) {
            self.caps.remove(&(top, lane));
        }
        let first = group.lane(lane.lane).first().map(|first| first.since);
        if let Some(top) = first.and_then(|since| self.ageing.capped_at(since)).filter(|&t| t > now)
        {
            self.caps.insert((top, lane));
        }
    }

    /// Lists a group under its first work, unless it is empty or the only one.
    fn list(&mut self, cost: CostId) {
        if self.sole.is_some() {
            return;
        }
        let group = &self.groups[cost.index()];
        if group.len() == 0 {
            return self.unlist(cost);
        }
        let best = group.best();
        let contestant = self.contestant(cost);
        match self.blocked_by[cost.index()] {
            None => self.open.set(contestant, best),
            Some(block) => self.blocked.set(block.place, contestant, best),
        }
    }

    fn unlist(&mut self, cost: CostId) {
        if self.sole.is_some() {
            return;
        }
        let contestant = self.contestant(cost);
        match self.blocked_by[cost.index()] {
            None => self.open.remove(contestant),
            Some(block) => self.blocked.remove(block.place, contestant),
        }
    }

    /// Returns the key of a group in the tournament in which it is listed.
    fn contestant(&self, cost: CostId) -> Contestant {
        let size = self.blocked_by[cost.index()].map_or(0, |block| block.wanted.steps());
        Contestant { size, number: cost.0 }
    }

    /// Removes an empty group from the blocked ones.
    #[inline]
    fn unblock(&mut self, cost: CostId) {
        if let Some(Block { place, .. }) = self.blocked_by[cost.index()] {
            self.unlist(cost);
            self.blocked_by[cost.index()] = None;
            self.blocked.settle(place);
        }
    }
}

#[cfg(test)]
mod tests;
