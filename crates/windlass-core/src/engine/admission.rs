//! Decides which work may start or resume: the first of the queue that fits the free capacity.
//!
//! A work that does not fit is passed over. What refused the first work is reserved for it until it
//! starts or leaves, so that later works delay it at most once for each resource. Attempts that
//! resume come before works that start.
//!
//! Knows neither facts nor edges. [`Effects`](super::effects::Effects) updates the queues when
//! works change their phases.

use super::costs::Costs;
use super::effects::Move;
use super::state::{At, Work};
use super::{EngineConfig, Order};
use crate::capacity::{CapacityTree, CostError, Demand, Place, Refusal, Shortage};
use crate::fact::World;
use crate::metrics::AdmissionCounts;
use crate::phase::{Phase, Step};
use crate::placement::Selector;
use crate::queue::{
    Candidate, CounterKey, Listing, ONE_WORKER, QueueKind, Queues, Unwatched, WatchState,
};
use crate::{
    Ageing, Amount, ClientId, CostId, ResourceCost, Timestamp, WorkId, WorkerId, WorkerKind,
};

mod clock;
mod placed;
mod transfer;

use clock::TreeClock;
use placed::Placed;
pub use transfer::Arrival;

/// The queues of an engine, and its use of the capacity.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    client: ClientId,
    clock: TreeClock,
    order: Order,
    ageing: Ageing,
    queues: Queues,
    costs: Costs,
    /// The work for which the capacity reserves something.
    reserved_for: Option<WorkId>,
    /// What has refused the first work, while a reservation would bind no other work.
    pending_reservation: Option<(WorkId, Refusal)>,
    /// Set after a search that found nothing, until the queues or the capacity change.
    idle: Option<Idle>,
    counts: AdmissionCounts,
    placed: Placed,
}

/// When a search that found nothing would find nothing again.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// Before this time.
    until: Timestamp,
    /// While the tree is still shared, or still is not.
    shared: bool,
}

/// The position of a candidate in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    First,
    Later,
}

impl Position {
    fn place(self, queue: QueueKind) -> Place {
        match (queue, self) {
            (QueueKind::Starting, Position::First) => Place::First,
            (QueueKind::Starting, Position::Later) => Place::Later,
            (QueueKind::Resuming, Position::First) => Place::Resuming,
            (QueueKind::Resuming, Position::Later) => Place::ResumingLater,
        }
    }
}

/// Returns the queue of works in this phase.
#[inline]
fn queue_of(phase: Phase) -> Option<QueueKind> {
    match phase {
        Phase::Ready => Some(QueueKind::Starting),
        Phase::Resuming => Some(QueueKind::Resuming),
        _ => None,
    }
}

impl Admission {
    pub(super) fn new(config: &EngineConfig, client: ClientId) -> Self {
        Self {
            client,
            clock: TreeClock::default(),
            order: config.order,
            ageing: config.ageing,
            queues: Queues::new(config.ageing),
            costs: Costs::default(),
            reserved_for: None,
            pending_reservation: None,
            idle: None,
            counts: AdmissionCounts::default(),
            placed: Placed::default(),
        }
    }

    /// Returns the id of a cost on the engine's tree, see [`Costs::number`].
    pub(super) fn cost(
        &mut self,
        capacity: &CapacityTree,
        cost: &ResourceCost,
    ) -> Result<CostId, CostError> {
        self.costs.number(capacity, capacity.level_of(self.client), cost)
    }

    /// As [`Admission::cost`], for works that go to workers.
    pub(super) fn placed_cost(
        &mut self,
        capacity: &mut CapacityTree,
        cost: &ResourceCost,
        on: &Selector,
    ) -> Result<CostId, CostError> {
        let level = capacity.level_of(self.client);
        let demand = capacity.placed_demand(level, &Costs::with_slot(cost), on)?;
        Ok(self.costs.number_of(demand))
    }

    /// Returns the number of the worker at which a work starts that was granted, or found just now.
    #[inline]
    pub(super) fn number_for(&mut self, capacity: &CapacityTree, work: WorkId) -> Option<WorkerId> {
        self.placed.number_for(capacity, work)
    }

    pub(super) fn placed(&self) -> &Placed {
        &self.placed
    }

    pub(super) fn placed_mut(&mut self) -> &mut Placed {
        &mut self.placed
    }

    /// As [`Costs::may_be_vacated`].
    #[inline]
    pub(super) fn costs_may_be_vacated(&self, works: usize) -> bool {
        self.costs.may_be_vacated(works)
    }

    /// Forgets the costs that are not in use, and their groups in the queues.
    pub(super) fn vacate_costs(&mut self, used: impl Iterator<Item = CostId>) {
        let pinned: Vec<_> = self.placed.pinned_costs().collect();
        for cost in self.costs.vacate(used.chain(pinned)) {
            self.queues.vacate(cost);
        }
    }

    /// Returns the first work that fits, and its queue. Blocks the groups that do not fit, and
    /// reserves what refused the first work.
    #[inline]
    pub(super) fn find_next(
        &mut self,
        world: &mut World<'_>,
        now: Timestamp,
    ) -> Option<(QueueKind, WorkId)> {
        // The second search is for a blocked work that fits by now without a notification: the
        // first search notices that when it computes its wake-up time.
        for _ in 0..2 {
            if !self.may_find(world.capacity, now) {
                return None;
            }
            if let Some(found) = self.search(world, now) {
                return Some(found);
            }
        }
        None
    }

    #[inline]
    fn search(&mut self, world: &mut World<'_>, now: Timestamp) -> Option<(QueueKind, WorkId)> {
        self.queues.advance(now);
        let (queue, first) = self.queues.first(now)?;
        if self.is_worth_a_try(world.capacity, now, queue, first)
            && self.fits(world, now, queue, first, Position::First)
        {
            return Some((queue, first.work));
        }
        // What refuses the first work refuses all works of equal cost.
        while self.order == Order::PassOver
            && !self.queues.are_all_like(queue, first)
            && let Some((queue, next)) = self.first_that_may_pass(world.capacity, now)
        {
            if self.fits(world, now, queue, next, Position::Later) {
                self.watch_what_refused(world, now, Unwatched::Tried);
                return Some((queue, next.work));
            }
        }
        self.watch_what_refused(world, now, Unwatched::All);
        let until = self.queues.next_wakeup(now).unwrap_or(Timestamp::MAX);
        self.idle = Some(Idle { until, shared: world.capacity.is_shared() });
        None
    }

    /// Returns whether [`Admission::find_next`] would do anything: find a work, or reserve or watch
    /// what one lacks.
    #[inline]
    pub(super) fn may_find(&self, capacity: &CapacityTree, now: Timestamp) -> bool {
        let is_over = |idle: Idle| now >= idle.until || idle.shared != capacity.is_shared();
        self.queues.len() > 0 && self.idle.is_none_or(is_over)
    }

    /// As [`Admission::may_find`], for a driver that asks before it searches: also false if all works
    /// still lack what they were refused. Nothing is reserved for works that are all alike, unless
    /// the tree is shared, and they are watched for already.
    pub(super) fn may_begin(&self, capacity: &CapacityTree, now: Timestamp) -> bool {
        let lacks = |(queue, counter, wanted): (_, _, Amount)| {
            let room = self.room(capacity, now, counter, Position::First.place(queue));
            room < i128::from(wanted.steps())
        };
        let is_simple = !capacity.is_shared() && !capacity.is_timed();
        self.may_find(capacity, now)
            && !(is_simple && self.queues.awaited_by_all().is_some_and(lacks))
    }

    /// Removes a work from the queue that its step has made it leave.
    #[inline(always)]
    pub(super) fn dequeue(
        &mut self,
        world: &mut World<'_>,
        now: Timestamp,
        step: Move,
        entry: &Work,
    ) {
        let Some(queue) = queue_of(step.from) else { return };
        self.idle = None;
        self.queues.remove(queue, self.listing(step.work, entry), step.place, now);
        self.placed.unpin(step.work);
        self.pending_reservation.take_if(|(owner, _)| *owner == step.work);
        if self.reserved_for == Some(step.work) {
            self.withdraw(world);
        }
    }

    /// Adds a work to the queue of its phase, if it has one.
    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        capacity: &mut CapacityTree,
        now: Timestamp,
        work: WorkId,
        entry: &Work,
        at: At,
    ) {
        if let Some(queue) = queue_of(entry.phase()) {
            self.idle = None;
            self.pin(capacity, work, entry, at);
            self.queues.insert(queue, self.listing(work, entry), entry.waiting(work), now);
        }
    }

    /// Has a work queued under a cost of its own if it has to go to a certain worker.
    fn pin(&mut self, capacity: &mut CapacityTree, work: WorkId, entry: &Work, at: At) {
        let Some(worker) = at.pin else { return };
        if let Some(name) = self.placed.name_of(worker) {
            let demand = self.costs.demand(entry.cost);
            let Some(shape) = demand.shape() else { return };
            let pinned = demand.clone().with_shape(capacity.workers_mut().pinned(shape, name));
            let cost = self.costs.number_of(pinned);
            self.placed.pin(work, cost);
        }
    }

    /// Returns the keys under which a work is queued.
    #[inline]
    fn listing(&self, work: WorkId, entry: &Work) -> Listing {
        let own = entry.listing();
        Listing { cost: self.placed.pinned(work).unwrap_or(own.cost), ..own }
    }

    /// Takes or releases the cost of the work. A grant has taken it already; a replayed start has
    /// not. A grant that never began is not charged to rates, and neither is an attempt that
    /// resumes.
    #[inline(always)]
    pub(super) fn hold(
        &mut self,
        world: &mut World<'_>,
        now: Timestamp,
        Move { work, from, step, at, .. }: Move,
        entry: &Work,
    ) {
        let (held, holds) = (from.holds(), entry.phase().holds());
        if held == holds {
            return;
        }
        let demand = self.costs.demand(entry.cost);
        let there = self.clock.there(now);
        match holds {
            true => self.placed.take(world.capacity, self.client, work, demand, at.latest),
            false => self.placed.give_back(world.capacity, self.client, work, demand),
        }
        match (holds, from, step) {
            (true, _, Step::Resume) => world.capacity.take_again(self.client, demand),
            (true, _, _) => world.capacity.take(self.client, demand, there),
            (false, Phase::Granted, _) => {
                let wakes = world.capacity.take_back(self.client, demand, there);
                self.wake(world, &wakes, WatchState::Gone);
            }
            (false, _, _) => {
                let known = world.wakes.len();
                if world.capacity.give_back_to(self.client, demand, world.wakes) {
                    self.idle = None;
                    let own = world.capacity.level_of(self.client);
                    for level in world.capacity.levels_from(own) {
                        for (resource, _) in demand.iter() {
                            let counter = CounterKey::Resource { level, resource };
                            self.queues.unblock_at(counter, WatchState::Kept);
                        }
                    }
                }
                if world.wakes.len() > known + 1 {
                    world.wakes[known..].sort_unstable();
                    world.wakes.dedup();
                }
            }
        }
    }

    /// Takes what a restored work holds; rates were charged for it before.
    pub(super) fn hold_again(&mut self, world: &mut World<'_>, work: WorkId, entry: &Work, at: At) {
        if entry.phase().holds() {
            let demand = self.costs.demand(entry.cost);
            self.placed.take(world.capacity, self.client, work, demand, at.latest);
            world.capacity.take_again(self.client, demand);
        }
    }

    /// Returns whether testing the first work can change anything: it may fit, or something has yet
    /// to be reserved for it.
    fn is_worth_a_try(
        &self,
        capacity: &CapacityTree,
        now: Timestamp,
        queue: QueueKind,
        first: Candidate,
    ) -> bool {
        if first.blocked_by.is_none() {
            return true;
        }
        let room = |counter| self.room(capacity, now, counter, Position::First.place(queue));
        // The first is never passed over because nothing was offered to it.
        if let Some((CounterKey::Workers(cost), _)) = self.queues.refused_by(queue, first)
            && capacity
                .worker_for(self.client, self.demand(cost), Position::First.place(queue))
                .is_some()
        {
            return true;
        }
        let must_reserve = match self.reserved_for == Some(first.work) {
            true => capacity.workers().may_reserve(self.client),
            false => self.binds_another(capacity, queue, first),
        };
        must_reserve || self.queues.may_fit(queue, first, room)
    }

    /// Returns whether a reservation for the first work would delay any other work or client.
    fn binds_another(&self, capacity: &CapacityTree, queue: QueueKind, first: Candidate) -> bool {
        capacity.is_shared() || !self.queues.are_all_like(queue, first)
    }

    fn first_that_may_pass(
        &mut self,
        capacity: &CapacityTree,
        now: Timestamp,
    ) -> Option<(QueueKind, Candidate)> {
        let Self { queues, costs, clock, client, .. } = self;
        let there = clock.there(now);
        queues.first_open(now, |queue, counter| {
            room(costs, capacity, *client, counter, Position::Later.place(queue), there)
        })
    }

    fn room(
        &self,
        capacity: &CapacityTree,
        now: Timestamp,
        counter: CounterKey,
        place: Place,
    ) -> i128 {
        room(&self.costs, capacity, self.client, counter, place, self.clock.there(now))
    }

    /// Returns whether a work fits; blocks its group if not.
    fn fits(
        &mut self,
        world: &mut World<'_>,
        now: Timestamp,
        queue: QueueKind,
        candidate: Candidate,
        turn: Position,
    ) -> bool {
        let demand = self.costs.demand(candidate.cost);
        let there = self.clock.there(now);
        match world.capacity.fit(self.client, demand, turn.place(queue), there) {
            Ok(worker) => {
                self.placed.choose(worker);
                self.counts.passed_over += u64::from(turn == Position::Later);
                true
            }
            Err(refusal) => {
                let (counter, wanted) = match refusal.shortages.first() {
                    Some(&Shortage { level, resource, wanted, .. }) => {
                        (CounterKey::Resource { level, resource }, wanted)
                    }
                    None => (CounterKey::Workers(candidate.cost), ONE_WORKER),
                };
                self.counts.refusals += 1;
                if turn == Position::First {
                    self.reserve(world, queue, candidate, refusal);
                }
                self.queues.block(queue, candidate, counter, wanted);
                false
            }
        }
    }

    /// Reserves everything that has refused the first work, or remembers it while a reservation
    /// would bind no other work.
    fn reserve(
        &mut self,
        world: &mut World<'_>,
        queue: QueueKind,
        first: Candidate,
        mut refusal: Refusal,
    ) {
        if let Some((_, pending_reservation)) =
            self.pending_reservation.take_if(|(owner, _)| *owner == first.work)
        {
            let known = |short: &Shortage| (short.level, short.resource);
            let fresh = |pending_reservation: &Shortage| {
                refusal.shortages.iter().all(|s| known(s) != known(pending_reservation))
            };
            let pending_reservation: Vec<_> =
                pending_reservation.shortages.into_iter().filter(fresh).collect();
            refusal.shortages.extend(pending_reservation);
        }
        if self.reserved_for != Some(first.work)
            && !self.binds_another(world.capacity, queue, first)
        {
            self.pending_reservation = Some((first.work, refusal));
            return;
        }
        self.counts.reservations += 1;
        let is_another = self.reserved_for != Some(first.work);
        let mut changed = self.reserved_at(world.capacity);
        let key =
            |&Shortage { level, resource, .. }: &Shortage| CounterKey::Resource { level, resource };
        changed.extend(refusal.shortages.iter().map(key));
        let owner = first.work.get();
        let wakes = match queue {
            QueueKind::Starting => world.capacity.reserve(self.client, owner, &refusal),
            QueueKind::Resuming => {
                if is_another {
                    // Its turn is before the one from which the counters are watched.
                    self.retry_search();
                }
                world.capacity.reserve_to_resume(self.client, owner, &refusal)
            }
        };
        self.reserved_for = Some(first.work);
        if is_another {
            self.retry_search_at(world, &changed, &wakes);
        } else {
            self.wake(world, &wakes, WatchState::Gone);
        }
    }

    /// Returns the counters that reserve something for this engine.
    fn reserved_at(&self, capacity: &CapacityTree) -> Vec<CounterKey> {
        let counters = capacity.reserved_counters(self.client).iter();
        counters.map(|&(level, resource)| CounterKey::Resource { level, resource }).collect()
    }

    /// Watches counters that refused works, and records when time will make room, after nothing was
    /// found there that fits.
    fn watch_what_refused(&mut self, world: &mut World<'_>, now: Timestamp, which: Unwatched) {
        let (client, clock, there) = (self.client, self.clock, self.clock.there(now));
        let may_pass = self.order == Order::PassOver;
        let is_timed = world.capacity.is_timed();
        let first = if is_timed { self.queues.first(now) } else { None };
        let first = first.and_then(|(queue, first)| self.queues.refused_by(queue, first));
        let costs = &self.costs;
        self.queues.watch_blocked(which, |counter, watch, least| {
            let (level, resource) = match counter {
                CounterKey::Resource { level, resource } => (level, resource),
                // A cost may have another shape than when it was watched.
                CounterKey::Workers(cost) => {
                    world.capacity.watch_workers(client, cost.number(), costs.demand(cost));
                    return None;
                }
            };
            if watch == WatchState::Gone {
                world.capacity.watch_in_turn(client, level, resource);
            }
            if !is_timed {
                return None;
            }
            let when =
                |wanted, place| world.capacity.when(client, level, resource, wanted, place, there);
            let first = first.filter(|(refused, _)| *refused == counter);
            let first = first.and_then(|(_, wanted)| when(wanted, Place::First));
            let later = may_pass.then(|| when(least, Place::Later)).flatten();
            later.into_iter().chain(first).min().map(|at| clock.here(at))
        });
    }

    /// Ends the reservation of a work that starts or leaves. Its watches end with it, so we look again
    /// without being woken.
    fn withdraw(&mut self, world: &mut World<'_>) {
        self.reserved_for = None;
        let changed = self.reserved_at(world.capacity);
        let wakes = world.capacity.withdraw(self.client);
        self.retry_search_at(world, &changed, &wakes);
    }

    /// Retries the search, and has the driver wake the other clients.
    #[inline]
    fn wake(&mut self, world: &mut World<'_>, clients: &[ClientId], watch: WatchState) {
        for &client in clients {
            if client == self.client {
                self.idle = None;
                self.queues.unblock_all(watch);
            } else {
                world.wakes.push(client);
            }
        }
    }

    /// As [`Admission::wake`], after a limit has changed.
    pub(super) fn wake_after_change(&mut self, world: &mut World<'_>, clients: &[ClientId]) {
        self.wake(world, clients, WatchState::Gone);
    }

    /// Retries the search after the reservation has changed at some counters. Elsewhere nothing fits that did
    /// not before: a new turn comes after those of all reservations that bind. In strict order, time
    /// wakes the engine only for the first work, which may be another now.
    fn retry_search_at(
        &mut self,
        world: &mut World<'_>,
        changed: &[CounterKey],
        wakes: &[ClientId],
    ) {
        if self.order == Order::Strict {
            self.retry_search();
        }
        self.idle = None;
        for &counter in changed {
            self.queues.unblock_at(counter, WatchState::Gone);
        }
        world.wakes.extend(wakes.iter().filter(|client| **client != self.client));
    }

    /// Makes all blocked groups candidates again.
    pub(super) fn retry_search(&mut self) {
        self.idle = None;
        self.queues.unblock_all(WatchState::Gone);
    }

    /// Makes the groups candidates again for which a worker has got room.
    pub(super) fn retry_placement(&mut self, capacity: &CapacityTree) {
        self.idle = None;
        for key in capacity.workers().fitting(self.client) {
            self.queues.unblock_at(CounterKey::Workers(CostId(key)), WatchState::Gone);
        }
    }

    /// Advances the queues to `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.queues.advance(now);
    }

    /// Returns when time alone may change what [`Admission::find_next`] finds.
    #[inline]
    pub(super) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.queues.next_wakeup(now)
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    pub(super) fn demand(&self, cost: CostId) -> &Demand {
        self.costs.demand(cost)
    }

    pub(super) fn counts(&self) -> &AdmissionCounts {
        &self.counts
    }

    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Returns the work for which the capacity reserves something.
    pub(super) fn reserved_for(&self) -> Option<WorkId> {
        self.reserved_for
    }

    /// Returns everything that a queued work lacks.
    pub(super) fn shortages(
        &self,
        capacity: &CapacityTree,
        now: Timestamp,
        entry: &Work,
        place: Place,
    ) -> Vec<Shortage> {
        let there = self.clock.there(now);
        capacity.shortages(self.client, self.demand(entry.cost), place, there).shortages
    }

    /// Returns what each kind of worker lacks for a queued work; nothing if one has room, or it goes to none.
    pub(super) fn lacking_workers(
        &self,
        capacity: &CapacityTree,
        work: WorkId,
        entry: &Work,
        place: Place,
    ) -> Vec<WorkerKind> {
        let cost = self.listing(work, entry).cost;
        capacity.lacking_workers(self.client, self.demand(cost), place)
    }

    /// Returns whether a queued work goes to workers, of which there are none.
    pub(super) fn has_no_worker(&self, capacity: &CapacityTree, entry: &Work) -> bool {
        self.demand(entry.cost).shape().is_some() && capacity.workers().names().next().is_none()
    }

    /// Returns the position from which `work` is tested: behind the first work if something is
    /// reserved for that one. A reservation for a work that is no longer first does not bind; it
    /// ends at the next search.
    pub(super) fn place(&self, now: Timestamp, work: WorkId, phase: Phase) -> Place {
        let first = self.queues.foremost(now);
        let bound = first != Some(work) && first.is_some() && self.reserved_for == first;
        let turn = if bound { Position::Later } else { Position::First };
        turn.place(queue_of(phase).unwrap_or(QueueKind::Starting))
    }

    /// Returns how many works are queued before this one, or `None` if it is not queued.
    pub(super) fn ahead(&self, now: Timestamp, work: WorkId, entry: &Work) -> Option<usize> {
        let queue = queue_of(entry.phase())?;
        Some(self.queues.ahead(queue, self.listing(work, entry), entry.waiting(work), now))
    }
}

/// Returns the room of a counter for a demand at this place. For workers, this is that of one cost, or
/// nothing, which is known while no worker has got more room.
fn room(
    costs: &Costs,
    capacity: &CapacityTree,
    client: ClientId,
    counter: CounterKey,
    place: Place,
    there: Timestamp,
) -> i128 {
    match counter {
        CounterKey::Resource { level, resource } => {
            capacity.room(client, level, resource, place, there)
        }
        CounterKey::Workers(cost) => {
            let is_found = !capacity.workers().lacks_room(client, cost.number())
                && capacity.worker_for(client, costs.demand(cost), place).is_some();
            if is_found { i128::from(ONE_WORKER.steps()) } else { 0 }
        }
    }
}
