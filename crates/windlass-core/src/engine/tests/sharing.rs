use std::collections::VecDeque;

use super::*;

/// Engines that take from one limit. Each is asked only when it is woken, as a driver does it.
struct Sharing {
    capacity: CapacityTree,
    engines: Vec<Engine>,
    under_way: VecDeque<(usize, Grant)>,
    woken: VecDeque<ClientId>,
    /// How often an engine was woken by another one.
    wakes: usize,
    ended: usize,
}

const WORKS: usize = 10;

impl Sharing {
    /// Engines with [`WORKS`] works each, of which every third wants two slots.
    fn new(engines: usize) -> Self {
        let mut capacity = CapacityTree::new(&ResourceCost::new().with(SLOTS, Amount::from(4)));
        let clients: Vec<_> =
            (0..engines).map(|_| capacity.add_client(CapacityTree::ROOT)).collect();
        let new = |client| Engine::new(EngineConfig::default(), client);
        let engines = clients.into_iter().map(new).collect();
        let (under_way, woken) = (VecDeque::new(), VecDeque::new());
        let mut sharing = Self { capacity, engines, under_way, woken, wakes: 0, ended: 0 };
        for engine in 0..sharing.engines.len() {
            for work in 0..WORKS {
                let slots = Amount::from(if work % 3 == 2 { 2 } else { 1 });
                let cost = ResourceCost::new().with(SLOTS, slots);
                sharing.call(engine, |engine, world| {
                    let cost = engine.cost(world.capacity, &cost).expect("four slots are enough");
                    engine.submit(world, Submission::of(cost)).expect("it depends on nothing");
                });
            }
            sharing.begin_all(engine);
        }
        sharing
    }

    fn call<T>(&mut self, engine: usize, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: Timestamp::ZERO,
            capacity: &mut self.capacity,
            facts: None,
            transitions: None,
            wakes: &mut wakes,
        };
        let result = call(&mut self.engines[engine], &mut world);
        self.woken.extend(wakes);
        result
    }

    fn wake(&mut self, client: ClientId) {
        self.wakes += 1;
        let retry_search =
            |engine: &mut Engine, world: &mut World<'_>| engine.apply(world, Input::RetrySearch);
        self.call(client.index(), retry_search).expect("a search may always be retried");
        self.begin_all(client.index());
    }

    fn begin_all(&mut self, engine: usize) {
        while let Some(begun) = self.call(engine, Engine::begin_next) {
            let Begun::Started(grant) = begun else { unreachable!("no work is suspended") };
            self.under_way.push_back((engine, grant));
        }
    }

    fn run(mut self) -> Self {
        while let Some((engine, grant)) = self.under_way.pop_front() {
            let end = |engine: &mut Engine, world: &mut World<'_>| {
                engine.end(world, grant, Outcome::Success)
            };
            self.call(engine, end).expect("it is under way");
            self.ended += 1;
            self.begin_all(engine);
            while let Some(client) = self.woken.pop_front() {
                self.wake(client);
            }
            self.capacity.check();
        }
        self
    }
}

#[test]
fn a_release_wakes_few_engines_however_many_share_the_limit() {
    for engines in [2, 8, 64, 256] {
        let sharing = Sharing::new(engines).run();
        let works = engines * WORKS;
        assert_eq!(sharing.ended, works, "no engine waits for ever");
        // About one for each work: the engine whose reservation is the first.
        assert!(2 * sharing.wakes <= 3 * works, "{} wake-ups for {works} works", sharing.wakes);
    }
}
