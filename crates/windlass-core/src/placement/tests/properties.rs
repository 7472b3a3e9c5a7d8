//! What holds in every random world after every step.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::world::{Wants, World, offer};
use super::{Intake, WorkerOffer, id};
use crate::{
    CapacityTree, Engine, EngineConfig, Extras, Outcome, Phase, Place, Random, Submission,
};

const WORKERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const OFFERS: [&str; 6] = [
    "slots=1",
    "slots=2",
    "slots=4 zone:x",
    "slots=2 gpu=2 zone:y",
    "slots=4 gpu=1 zone:x",
    "slots=3 disk=5 gpu=2 zone:x",
];
const WANTS: [&str; 10] = [
    "",
    "",
    "slots=2",
    "slots=4",
    "gpu=1",
    "gpu=2",
    "zone:x slots=2",
    "zone:y",
    "run:own disk=2",
    "@c",
];

/// How many worlds there are.
const CASES: u32 = 30;

/// A worker with what was running there when a client reserved it.
type Watched = (WorkerOffer, String, BTreeSet<(usize, u64)>);

struct Check {
    world: World,
    random: Random,
    /// Whether works go beside others. Which of them is ready first depends on the order of ends.
    beside: bool,
    /// For each engine, the first work and its reservation, while its worker has what it had.
    reserved: BTreeMap<usize, (u64, Watched)>,
}

impl Check {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let engines: Vec<_> = (0..random.within(1..4)).map(|_| *random.pick(&[0, 0, 3])).collect();
        let world = World::with_engines(&[], &engines);
        Self { world, random, beside: true, reserved: BTreeMap::new() }
    }

    fn step(&mut self) {
        let Self { world, random, beside, .. } = self;
        let index = random.within(0..world.engines.len() as u64) as usize;
        match random.within(0..10) {
            0..=4 => {
                let mut wants = Wants::of(random.pick::<&str>(&WANTS));
                wants.priority = random.within(0..12) as i64 / 10;
                let running = world.works(index, Phase::holds);
                if *beside && random.one_in(8) && !running.is_empty() {
                    wants.beside = Some(*random.pick(&running));
                }
                world.submit(index, &wants);
            }
            5..=7 => {
                for _ in 0..random.within(1..4) {
                    let running = world.running();
                    if running.is_empty() {
                        break;
                    }
                    let (index, work, _) = random.pick(&running).clone();
                    let outcome = match random.one_in(9) {
                        true => Outcome::Interrupted,
                        false => Outcome::Success,
                    };
                    world.end_as(index, work, outcome);
                }
            }
            8 if random.one_in(2) => {
                let waiting = world.works(index, |phase| phase == Phase::Ready);
                if !waiting.is_empty() {
                    let work = *random.pick(&waiting);
                    world.apply(index, crate::Input::Cancel(work));
                }
            }
            _ => {
                let name = *random.pick(&WORKERS);
                match random.within(0..4) {
                    0 if world.offers.contains_key(name) => world.drain(name),
                    1 => world.remove(name),
                    _ => world.put(name, random.pick::<&str>(&OFFERS)),
                }
            }
        }
    }

    /// Each start was at a worker that was there, took works, had the labels, and had room.
    fn check_starts(&mut self, before: &World) {
        let world = &self.world;
        let mut used: BTreeMap<(String, &str), u64> = BTreeMap::new();
        let starts = world.starts.iter().skip(before.starts.len());
        // What has ended since gave its room back before anything started.
        let running = before.running().into_iter().filter(|(index, work, at)| {
            world.worker_of(*index, *work) == Some(&**at)
                && !starts.clone().any(|(i, w, _)| (i, w) == (index, work))
        });
        let mut add = |index: usize, work: crate::WorkId, at: &str| {
            let wants = &world.engines[index].wants[work.index()];
            for resource in ["slots", "gpu", "disk"] {
                *used.entry((at.to_owned(), resource)).or_default() += wants.takes(resource);
            }
            used.clone()
        };
        running.for_each(|(index, work, at)| drop(add(index, work, &at)));
        for (index, work, at) in starts {
            let wants = &world.engines[*index].wants[work.index()];
            let offer = world.offers.get(at).unwrap_or_else(|| panic!("{at} is gone"));
            assert_eq!(offer.intake, Intake::Open, "{at} takes nothing new");
            let has = |(key, value): (&String, &String)| offer.labels.get(key) == Some(value);
            assert!(wants.on.labels.iter().all(has), "{at} lacks a label of {wants:?}");
            assert!(wants.on.worker.as_ref().is_none_or(|name| name == at), "{at} is another one");
            let used = add(*index, *work, at);
            for resource in ["slots", "gpu", "disk"].into_iter().filter(|r| wants.takes(r) > 0) {
                let has = offer.capacity.amount(resource).unwrap_or_default().steps();
                assert!(used[&(at.clone(), resource)] <= has, "{at} has too little {resource}");
            }
        }
    }

    /// No waiting work fits anywhere, unless what it needs is reserved for an earlier one.
    fn check_waits(&self) {
        let world = &self.world;
        for (index, member) in world.engines.iter().enumerate() {
            for work in world.works(index, |phase| phase == Phase::Ready) {
                let (engine, wants) = (&member.engine, &member.wants[work.index()]);
                let place = engine.queue_place(work);
                let reasons = engine.explain(&world.tree, work);
                let waits = reasons.iter().any(|r| !matches!(r, crate::Reason::Queued { .. }));
                assert!(waits, "work {} of {index} could start: {reasons:?}", id(work));
                if !engine.shortages(&world.tree, work).is_empty() || wants.beside.is_some() {
                    continue;
                }
                for (name, offer) in &world.offers {
                    let has = |(k, v): (&String, &String)| offer.labels.get(k) == Some(v);
                    let fits = offer.intake == Intake::Open
                        && wants.on.labels.iter().all(has)
                        && wants.on.worker.as_ref().is_none_or(|wanted| wanted == name)
                        && ["slots", "gpu", "disk"]
                            .iter()
                            .all(|r| self.free(name, r) >= i128::from(wants.takes(r)));
                    let workers = world.tree.workers();
                    let reserved = &workers.workers[workers.numbers[&**name].index()].reserved;
                    let bound = reserved.as_ref().is_some_and(|reserved| {
                        let own = reserved.client == engine.client();
                        place == Place::Later || !own
                    });
                    assert!(!fits || bound, "{name} has room for work {} of {index}", id(work));
                }
            }
        }
    }

    fn free(&self, worker: &str, resource: &str) -> i128 {
        let has = self.world.offers[worker].capacity.amount(resource).unwrap_or_default();
        let used = self.world.running().into_iter().filter(|(_, _, at)| at == worker);
        let used = used.map(|(i, w, _)| self.world.engines[i].wants[w.index()].takes(resource));
        i128::from(has.steps()) - i128::from(used.sum::<u64>())
    }

    /// A client has at most one reservation, at a worker that takes works; it stays there until its owner
    /// starts or leaves; and the owner starts once all has ended that ran there at first.
    fn check_reservations(&mut self) {
        let world = &self.world;
        let workers = world.tree.workers();
        let clients: Vec<_> =
            workers.workers.iter().filter_map(|w| Some(w.reserved.as_ref()?.client)).collect();
        let unique: BTreeSet<_> = clients.iter().collect();
        assert_eq!(unique.len(), clients.len(), "one reservation for each client");
        assert_eq!(workers.reservations.len(), clients.len());
        let running = world.running();
        for (index, member) in world.engines.iter().enumerate() {
            let owner = member.engine.reserved_for_work();
            let at = world.reserved_at(index).map(str::to_owned);
            let Some((owner, at)) = owner.zip(at) else {
                self.reserved.remove(&index);
                continue;
            };
            assert_eq!(world.offers[&at].intake, Intake::Open, "{at} takes nothing");
            let offer = world.offers[&at].clone();
            let there = running.iter().filter(|(_, _, of)| *of == at);
            let there: BTreeSet<_> = there.map(|(i, work, _)| (*i, id(*work))).collect();
            // What is more urgent comes before the owner, whenever it was submitted.
            let priority = |id: u64| member.wants[id as usize - 1].priority;
            let overtakes =
                |(i, other): &(usize, u64)| *i == index && priority(*other) > priority(id(owner));
            let known = self.reserved.get(&index);
            if known.is_some_and(|(_, (_, _, since))| {
                there.iter().any(|one| !since.contains(one) && overtakes(one))
            }) {
                self.reserved.remove(&index);
            }
            match self.reserved.get_mut(&index) {
                Some((known, (had, known_at, since)))
                    if *known == id(owner) && *known_at == at && *had == offer =>
                {
                    since.retain(|one| there.contains(one));
                    let short = member.engine.shortages(&world.tree, owner);
                    let mine = member.engine.first_in_queue() == Some(owner);
                    let other_changes = world.engines.len() > 1;
                    assert!(
                        !since.is_empty() || !short.is_empty() || !mine || other_changes,
                        "work {} of {index} could have started at {at}",
                        id(owner)
                    );
                }
                _ => drop(self.reserved.insert(index, (id(owner), (offer, at, there)))),
            }
        }
    }

    /// A replay has the same digest with the same workers, with others, and with none.
    fn check_replay(&mut self) {
        for member in &self.world.engines {
            for workers in [&WORKERS[..], &["z"], &[]] {
                let mut tree = CapacityTree::new(&crate::ResourceCost::new());
                let limits = crate::ResourceCost::new().with("own", 3);
                let level = tree.add_level(CapacityTree::ROOT, &limits);
                workers.iter().for_each(|name| tree.put_worker(name, &offer("slots=1")));
                let mut replayed = Engine::new(EngineConfig::default(), tree.add_client(level));
                member.engine.worker_names().for_each(|name| _ = replayed.name_worker(name));
                for wants in &member.wants {
                    let cost = replayed.placed_cost(&mut tree, &wants.cost, &wants.on);
                    let after: Vec<_> = wants.beside.iter().map(|work| (*work).into()).collect();
                    let extras = Extras { beside: wants.beside, ..Extras::default() };
                    replayed.stage(Submission {
                        after: &after,
                        priority: wants.priority,
                        extras: Some(&extras),
                        ..Submission::of(cost.expect("the level has it"))
                    });
                }
                let mut wakes = Vec::new();
                for fact in &member.facts {
                    let (facts, transitions) = (None, None);
                    let (now, capacity, wakes) = (fact.at, &mut tree, &mut wakes);
                    replayed.evolve(
                        &mut crate::World { now, capacity, facts, transitions, wakes },
                        fact,
                    );
                }
                replayed.check(&tree);
                assert_eq!(replayed.digest(), member.engine.digest());
            }
        }
    }
}

fn check(seed: u64) {
    let mut check = Check::new(seed);
    for step in 0..150 {
        let before = check.world.clone();
        check.step();
        let (mut quiet, after_step) = (check.world.clone(), check.world.starts.len());
        assert_eq!(after_step, before.starts.len(), "nothing starts before the engines search");
        check.world.settle();
        quiet.settle();
        assert_eq!(quiet.starts, check.world.starts, "equal inputs give equal decisions");
        check.check_starts(&before);
        check.check_waits();
        check.check_reservations();
        check.world.engines.iter().for_each(|one| one.engine.check(&check.world.tree));
        if step % 50 == 49 {
            check.check_replay();
        }
    }
}

/// Ends that come in one round, in two orders, start the same works at the same workers.
fn check_orders(seed: u64) {
    let mut check = Check { beside: false, ..Check::new(seed) };
    for _ in 0..80 {
        check.step();
        check.world.settle();
        let running = check.world.running();
        if running.len() < 2 {
            continue;
        }
        let starts = |order: &mut dyn Iterator<Item = &(usize, crate::WorkId, String)>| {
            let mut world = check.world.clone();
            order.for_each(|(index, work, _)| world.end(*index, *work));
            world.settle();
            world.starts
        };
        let (one, other) = (starts(&mut running.iter()), starts(&mut running.iter().rev()));
        assert_eq!(one, other);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn random_worlds_keep_the_rules(seed: u64) {
        check(seed);
    }

    #[test]
    fn equal_news_in_any_order_give_the_same_decisions(seed: u64) {
        check_orders(seed);
    }
}
