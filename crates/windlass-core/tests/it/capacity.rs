//! Compares the capacity tree with a naive model: after every step of a random run, each query must
//! return what the lists of permits and reservations give.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{
    Amount, CapacityTree, ClientId, Demand, LevelId, Place, Quota, Rate, Refusal, ResourceCost,
    Short, Timestamp,
};

use crate::support::cases;

mod compare;
mod model;
mod step;

use model::{Amounts, Kind, Model, NAMES, PARENTS, Request, Spot};
use step::{Step, Then, step};

/// The tree and the model, side by side.
struct World {
    tree: CapacityTree,
    model: Model,
    levels: Vec<LevelId>,
    clients: Vec<ClientId>,
    /// The watches whose client has not been notified since.
    watches: BTreeSet<(ClientId, Spot)>,
    /// The clients that have ever watched: a client that was notified of one spot may still watch
    /// another.
    watchers: BTreeSet<ClientId>,
    /// What the queued and watching clients want, until they are notified.
    queued: BTreeMap<ClientId, Queued>,
    now: u64,
}

/// A client that waits as an `acquire` does: with a reservation and a timer of its own.
struct Queued {
    amounts: Amounts,
    /// Where it was refused, and when time would make enough room.
    spots: BTreeMap<Spot, Option<Timestamp>>,
}

/// The work for which a queued client reserves.
const OWNER: u64 = 9;

fn cost(amounts: Amounts) -> ResourceCost {
    let named = NAMES.into_iter().zip(amounts).filter(|(_, steps)| *steps > 0);
    named.map(|(name, steps)| (name.to_owned(), Amount::from_steps(steps))).collect()
}

impl World {
    fn new() -> Self {
        let mut tree = CapacityTree::new(&ResourceCost::new());
        let mut model = Model::default();
        let mut levels = vec![CapacityTree::ROOT];
        for parent in PARENTS.into_iter().skip(1) {
            let parent = levels[parent.expect("only the root has none")];
            levels.push(tree.add_level(parent, &ResourceCost::new()));
        }
        // Declares each name once, so that it has an id.
        for (resource, name) in NAMES.into_iter().enumerate() {
            tree.set_limits(levels[1], &ResourceCost::new().with(name, 1));
            model.kinds.insert((1, resource), Kind::Limit(10_000));
        }
        let mut world = Self {
            tree,
            model,
            levels,
            clients: vec![],
            watches: BTreeSet::new(),
            watchers: BTreeSet::new(),
            queued: BTreeMap::new(),
            now: 0,
        };
        (0..PARENTS.len()).for_each(|level| world.add_client(level, 0));
        world
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn add_client(&mut self, level: usize, priority: i16) {
        let client = self.tree.add_client_with(self.levels[level], priority);
        self.clients.push(client);
        self.model.priorities.insert(client, priority);
        let before = self.model.clients.insert(client, level);
        assert_eq!(before, None, "a number is used again only after its client is gone");
    }

    fn client(&self, number: usize) -> Option<ClientId> {
        (!self.clients.is_empty()).then(|| self.clients[number % self.clients.len()])
    }

    fn level_of(&self, client: ClientId) -> LevelId {
        self.levels[self.model.clients[&client]]
    }

    /// Returns the demand, if the client's levels declare every name of it.
    fn demand(&self, client: ClientId, amounts: Amounts) -> Option<Demand> {
        let spots =
            |resource| Model::chain(self.model.clients[&client]).map(move |l| (l, resource));
        let most = |resource| spots(resource).filter_map(|spot| self.model.most(spot)).min();
        let named = || (0..NAMES.len()).filter(|resource| amounts[*resource] > 0);
        let known = named().all(|resource| resource == 0 || most(resource).is_some());
        let possible = named().all(|r| most(r).is_none_or(|most| amounts[r] <= most));
        let level = self.level_of(client);
        let checked = self.tree.demand(level, &cost(amounts));
        assert_eq!(checked.is_ok(), known && possible, "{checked:?}");
        let demand = self.tree.actual(level, &cost(amounts));
        assert_eq!(demand.is_ok(), known, "{demand:?}");
        demand.ok()
    }

    /// Takes one step on both, and compares all queries and the clients to wake.
    fn step(&mut self, step: &Step) {
        let rooms = self.watched_rooms();
        let wakes = self.apply(step).unwrap_or_default();
        assert!(wakes.is_sorted_by(|a, b| a < b), "each once, in order: {wakes:?}");
        assert!(wakes.iter().all(|c| self.watchers.contains(c)), "only watchers are notified");
        let moved = !matches!(step, Step::Wait { .. } | Step::TurnBack { .. });
        for (watch, before) in rooms.into_iter().filter(|_| moved) {
            let more = self.model.clients.contains_key(&watch.0)
                && self.rooms(watch).iter().zip(before).any(|(after, before)| *after > before);
            assert!(
                !more || wakes.contains(&watch.0),
                "a client with more room is notified: {watch:?}"
            );
        }
        self.watches.retain(|watch| !wakes.contains(&watch.0));
        self.queued.retain(|client, _| !wakes.contains(client));
        self.compare();
        self.compare_queued();
    }

    fn rooms(&self, (client, spot): (ClientId, Spot)) -> [i128; 2] {
        [Place::First, Place::Later].map(|place| self.model.room(client, spot, place, self.now))
    }

    fn watched_rooms(&self) -> BTreeMap<(ClientId, Spot), [i128; 2]> {
        self.watches.iter().map(|watch| (*watch, self.rooms(*watch))).collect()
    }

    /// Returns `None` if the step finds nothing to act on.
    fn apply(&mut self, step: &Step) -> Option<Vec<ClientId>> {
        let now = self.now();
        match *step {
            Step::AddClient { level, priority } => self.add_client(level, priority),
            Step::RemoveClient { client } => return self.remove(client),
            Step::Ask { client, amounts, place, then } => {
                return self.ask(self.client(client)?, amounts, place, then);
            }
            Step::Force { client, amounts } => {
                let client = self.client(client)?;
                let demand = self.demand(client, amounts)?;
                self.tree.take(client, &demand, now);
                self.model.take(client, amounts, Place::First, self.now);
            }
            Step::GiveBack { permit } => return self.give_back(permit),
            Step::GiveBackMore { client, amounts } => {
                let client = self.client(client)?;
                let mut more = self.model.held(client);
                (0..NAMES.len()).for_each(|resource| more[resource] += amounts[resource]);
                if amounts != Amounts::default() {
                    let demand = self.demand(client, more)?;
                    assert!(self.tree.try_give_back(client, &demand).is_err());
                    assert!(self.tree.reconcile(client, &demand, &demand, now).is_err());
                }
            }
            Step::Reconcile { permit, actual } => return self.reconcile(permit, actual),
            Step::Withdraw { client } => {
                let client = self.client(client)?;
                self.queued.remove(&client);
                self.model.withdraw(client);
                return Some(self.tree.withdraw(client));
            }
            Step::AskAgain { client } => return self.ask_again(client),
            Step::SetLimit { .. } | Step::SetRate { .. } | Step::SetQuota { .. } => {
                return Some(self.set(step));
            }
            Step::Wait { nanos } => self.now += nanos,
            Step::TurnBack { nanos } => self.now = self.now.saturating_sub(nanos),
        }
        None
    }

    fn remove(&mut self, client: usize) -> Option<Vec<ClientId>> {
        let client = self.client(client)?;
        self.clients.retain(|known| *known != client);
        self.queued.remove(&client);
        self.model.withdraw(client);
        self.model.permits.retain(|permit| permit.client != client);
        self.model.clients.remove(&client);
        self.watches.retain(|watch| watch.0 != client);
        self.watchers.remove(&client);
        Some(self.tree.remove_client(client))
    }

    fn ask(
        &mut self,
        client: ClientId,
        amounts: Amounts,
        place: Place,
        then: Then,
    ) -> Option<Vec<ClientId>> {
        let demand = self.demand(client, amounts)?;
        let place = if matches!(then, Then::ReserveAndWatch) { Place::First } else { place };
        let short = self.model.short(client, amounts, place, self.now);
        let now = self.now();
        assert_eq!(self.tree.can_take(client, &demand, place, now), short.is_empty());
        let Err(refusal) = self.tree.try_take(client, &demand, place, now) else {
            assert_eq!(short, [], "it was taken");
            self.model.take(client, amounts, place, self.now);
            return None;
        };
        self.compare_refusal(client, amounts, place, &refusal);
        match then {
            Then::Leave => None,
            Then::Watch => {
                for (short, spot) in refusal.shortages.iter().zip(short) {
                    self.tree.watch(client, short.level, short.resource);
                    self.watches.insert((client, spot));
                    self.watchers.insert(client);
                }
                None
            }
            Then::Reserve { owner } => {
                self.queued.remove(&client);
                Some(self.reserve(client, owner, amounts, place, &refusal))
            }
            Then::ReserveAndWatch => {
                let wakes = self.reserve(client, OWNER, amounts, place, &refusal);
                self.watch_with_timer(client, amounts, &short);
                Some(wakes)
            }
        }
    }

    fn reserve(
        &mut self,
        client: ClientId,
        owner: u64,
        amounts: Amounts,
        place: Place,
        refusal: &Refusal,
    ) -> Vec<ClientId> {
        let short = self.model.short(client, amounts, place, self.now);
        let wanted = short.iter().map(|spot| (*spot, amounts[spot.1])).collect();
        let resumes = matches!(place, Place::Resuming | Place::ResumingLater);
        self.model.reserve(Request { client, owner, resumes, wanted });
        match resumes {
            true => self.tree.reserve_to_resume(client, owner, refusal),
            false => self.tree.reserve(client, owner, refusal),
        }
    }

    fn watch_with_timer(&mut self, client: ClientId, amounts: Amounts, short: &[Spot]) {
        self.watchers.insert(client);
        for spot in short {
            let resource = self.tree.resource(NAMES[spot.1]).expect("every name is declared");
            self.tree.watch_with_timer(client, self.levels[spot.0], resource);
        }
        let spots = short.iter().map(|spot| (*spot, self.when(client, amounts, *spot))).collect();
        self.queued.insert(client, Queued { amounts, spots });
    }

    fn when(&self, client: ClientId, amounts: Amounts, spot: Spot) -> Option<Timestamp> {
        let resource = self.tree.resource(NAMES[spot.1]).expect("every name is declared");
        let wanted = Amount::from_steps(amounts[spot.1]);
        let level = self.levels[spot.0];
        self.tree.when(client, level, resource, wanted, Place::First, self.now())
    }

    /// Acts as an `acquire` that was woken: takes and is served, or keeps waiting.
    fn ask_again(&mut self, client: usize) -> Option<Vec<ClientId>> {
        let client = *self.queued.keys().nth(client.checked_rem(self.queued.len())?)?;
        let amounts = self.queued[&client].amounts;
        let demand = self.demand(client, amounts)?;
        let now = self.now();
        if self.tree.can_take(client, &demand, Place::First, now) {
            self.tree.take(client, &demand, now);
            self.model.take(client, amounts, Place::First, self.now);
            self.queued.remove(&client);
            self.model.withdraw(client);
            return Some(self.tree.serve(client));
        }
        self.ask(client, amounts, Place::First, Then::ReserveAndWatch)
    }

    /// No queued client that was not notified could take what it was refused, and no timer fires
    /// too late.
    fn compare_queued(&self) {
        for (client, queued) in &self.queued {
            for (spot, armed) in &queued.spots {
                let when = self.when(*client, queued.amounts, *spot);
                match when {
                    Some(when) => assert!(armed.is_none_or(|armed| armed <= when.max(self.now()))),
                    None => {
                        let room = self.model.room(*client, *spot, Place::First, self.now);
                        assert!(
                            room < i128::from(queued.amounts[spot.1]),
                            "{client:?} at {spot:?}"
                        );
                    }
                }
            }
        }
    }

    fn give_back(&mut self, permit: usize) -> Option<Vec<ClientId>> {
        let place = permit.checked_rem(self.model.permits.len())?;
        let (client, amounts) =
            (self.model.permits[place].client, self.model.permits[place].amounts);
        let demand = self.demand(client, amounts)?;
        self.model.permits.swap_remove(place);
        Some(self.tree.try_give_back(client, &demand).expect("it holds that"))
    }

    fn reconcile(&mut self, permit: usize, actual: Amounts) -> Option<Vec<ClientId>> {
        let place = permit.checked_rem(self.model.permits.len())?;
        let (client, amounts) =
            (self.model.permits[place].client, self.model.permits[place].amounts);
        let [from, to] = [self.demand(client, amounts)?, self.demand(client, actual)?];
        let change = |r: usize| i128::from(actual[r]) - i128::from(amounts[r]);
        self.model.charge(client, std::array::from_fn(change), self.now);
        self.model.permits[place].amounts = actual;
        Some(self.tree.reconcile(client, &from, &to, self.now()).expect("it holds that"))
    }

    fn set(&mut self, step: &Step) -> Vec<ClientId> {
        let now = self.now();
        match *step {
            Step::SetLimit { spot, limit } => {
                self.model.kinds.insert(spot, Kind::Limit(limit));
                let limits = ResourceCost::new().with(NAMES[spot.1], Amount::from_steps(limit));
                self.tree.set_limits(self.levels[spot.0], &limits)
            }
            Step::SetRate { spot, rate: (amount, per, burst) } => {
                self.model.set_rate(spot, (amount, per, burst), self.now);
                let [amount, burst] = [amount, burst].map(Amount::from_steps);
                let rate = Rate { amount, per: Duration::from_nanos(per), burst };
                let set = self.tree.set_rate(self.levels[spot.0], NAMES[spot.1], rate, now);
                set.expect("nothing is zero")
            }
            Step::SetQuota { spot, quota: (amount, length) } => {
                self.model.set_quota(spot, (amount, length), self.now);
                let amount = Amount::from_steps(amount);
                let quota = Quota { amount, window: Duration::from_nanos(length) };
                let set = self.tree.set_quota(self.levels[spot.0], NAMES[spot.1], quota, now);
                set.expect("nothing is zero")
            }
            _ => unreachable!("only what sets something"),
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_tree_says_what_the_lists_of_permits_and_requests_say(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
    }
}
