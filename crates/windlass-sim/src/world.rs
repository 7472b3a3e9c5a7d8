//! A random world: two engines on one capacity tree, made up from a seed.
//!
//! First everything goes wrong that can: graphs grow while they run, attempts fail, are cancelled,
//! lost or reported late, limits change, time jumps, wake-ups are slow. Then the faults stop, and
//! everything must reach an end. After every step the engines are checked, and a shadow of each,
//! fed nothing but the facts in their stored form, must have the same digest.

use std::time::Duration;

use windlass_core::{
    Amount, CapacityTree, ClientId, Engine, EngineConfig, Fact, Grant, Input, Outcome, Phase,
    ResourceCost, SLOTS, Submission, Timestamp, WorkId, WorkState, World,
};

use crate::random::Random;

/// What a world went through.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Facts journaled.
    pub facts: usize,
    /// Wake-ups from one engine to the other.
    pub wakes: usize,
    /// Results that came too late and were refused.
    pub late: usize,
    /// Works in each end state: succeeded, failed, blocked, cancelled.
    pub ends: [usize; 4],
}

/// Makes up the world of `seed`, lives through it, and tells what happened.
///
/// # Panics
///
/// If an invariant is broken, a replay differs, or something never ends.
#[must_use]
pub fn live(seed: u64) -> Report {
    let mut world = RandomWorld::new(seed);
    for _ in 0..STEPS {
        world.disturb();
        world.verify();
    }
    world.calm_down();
    world.report
}

const STEPS: usize = 150;
const SIDES: u64 = 2;

struct RandomWorld {
    random: Random,
    now: Timestamp,
    capacity: CapacityTree,
    sides: Vec<Side>,
    /// Wake-ups that have not arrived yet.
    wakes: Vec<ClientId>,
    report: Report,
}

/// One engine, and what its driver knows.
struct Side {
    engine: Engine,
    running: Vec<Grant>,
    past: Vec<Grant>,
    /// Whether there may be something to take.
    look: bool,
    shadow: Shadow,
}

/// An engine that only ever sees the stored facts.
struct Shadow {
    engine: Engine,
    capacity: CapacityTree,
}

fn tree() -> (CapacityTree, Vec<ClientId>) {
    let amounts = |cpu: u32| ResourceCost::new().with("cpu", Amount::from(cpu));
    let mut tree = CapacityTree::new(&amounts(6).with("memory", Amount::from(10)));
    let clients = (0..SIDES).map(|_| {
        let team = amounts(5).with(SLOTS, Amount::from(4));
        let level = tree.add_level(CapacityTree::ROOT, &team);
        tree.add_client(level)
    });
    let clients = clients.collect();
    (tree, clients)
}

impl RandomWorld {
    fn new(seed: u64) -> Self {
        let (capacity, clients) = tree();
        let sides = clients.into_iter().map(|client| Side {
            engine: Engine::new(EngineConfig::default(), client),
            running: Vec::new(),
            past: Vec::new(),
            look: false,
            shadow: Shadow {
                engine: Engine::new(EngineConfig::default(), client),
                capacity: tree().0,
            },
        });
        Self {
            random: Random::new(seed),
            now: Timestamp::ZERO,
            capacity,
            sides: sides.collect(),
            wakes: Vec::new(),
            report: Report::default(),
        }
    }

    fn disturb(&mut self) {
        let side = self.random.within(0..SIDES) as usize;
        match self.random.within(0..16) {
            0..4 => self.submit(side),
            4..8 => self.take(side),
            8..11 => self.finish(side),
            11 => self.cancel(side),
            12 => self.report_late(side),
            13 => self.now = self.now.after(Duration::from_millis(self.random.within(0..3000))),
            14 => self.change_limits(),
            _ => self.deliver(),
        }
    }

    fn submit(&mut self, side: usize) {
        let known = self.sides[side].engine.works().count() as u64;
        let sources = self.random.within(0..3).min(known);
        let after = (0..sources).map(|_| self.random.within(0..known) as usize);
        let after: Vec<_> = after.map(WorkId::from_index).collect();
        let priority = self.random.within(0..5).cast_signed() - 2;
        let retries = self.random.within(0..3) as u32;
        let mut needs = ResourceCost::new();
        for (name, most) in [("cpu", 4), ("memory", 8)] {
            if self.random.one_in(2) {
                needs = needs.with(name, Amount::from(self.random.within(1..most) as u32));
            }
        }
        let Side { engine, shadow, .. } = &mut self.sides[side];
        // A limit may stand below what is asked for just now; such a work is refused.
        let Ok(cost) = engine.cost(&self.capacity, &needs) else { return };
        let same = shadow.engine.cost(&shadow.capacity, &needs);
        assert_eq!(same, Ok(cost), "the side table is filled before its fact");
        let submission = Submission { after: &after, cost, priority, retries };
        shadow.engine.stage(submission);
        self.call(side, |engine, world| engine.submit(world, submission)).expect("known works");
    }

    fn take(&mut self, side: usize) {
        self.sides[side].look = false;
        while let Some(grant) = self.call(side, Engine::take_next) {
            match self.random.within(0..8) {
                0 => self.apply(side, Input::Refuse(grant)),
                1 => {
                    self.apply(side, Input::Cancel(grant.work));
                    self.try_apply(side, Input::Begin(grant)).expect_err("it was cancelled");
                }
                _ => self.begin(side, grant),
            }
        }
    }

    fn begin(&mut self, side: usize, grant: Grant) {
        self.apply(side, Input::Begin(grant));
        self.sides[side].running.push(grant);
    }

    fn finish(&mut self, side: usize) {
        if self.sides[side].running.is_empty() {
            return;
        }
        let place = self.random.within(0..self.sides[side].running.len() as u64) as usize;
        let delay = Duration::from_millis(self.random.within(0..2000));
        let outcome = match self.random.within(0..8) {
            0 => Outcome::Failed,
            1 | 2 => Outcome::Retry { delay },
            3 => Outcome::Interrupted,
            4 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        self.end(side, place, outcome);
    }

    fn end(&mut self, side: usize, place: usize, outcome: Outcome) {
        let grant = self.sides[side].running.swap_remove(place);
        self.sides[side].past.push(grant);
        self.apply(side, Input::Finished { grant, outcome });
    }

    fn cancel(&mut self, side: usize) {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        if !works.is_empty() {
            let work = *self.random.pick(&works);
            // It may have ended already.
            let _ = self.try_apply(side, Input::Cancel(work));
        }
    }

    fn report_late(&mut self, side: usize) {
        if self.sides[side].past.is_empty() {
            return;
        }
        let grant = *self.random.pick(&self.sides[side].past);
        self.apply(side, Input::Tick);
        let before = self.sides[side].engine.digest();
        let late = Input::Finished { grant, outcome: Outcome::Success };
        self.try_apply(side, late).expect_err("that attempt has ended");
        assert_eq!(self.sides[side].engine.digest(), before, "a late result changes nothing");
        self.report.late += 1;
    }

    fn change_limits(&mut self) {
        let limits = ResourceCost::new().with("cpu", Amount::from(self.random.within(0..8) as u32));
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &limits));
    }

    /// Some of the wake-ups on their way arrive.
    fn deliver(&mut self) {
        for client in std::mem::take(&mut self.wakes) {
            if self.random.one_in(3) {
                self.wakes.push(client);
            } else {
                self.look_again(client);
            }
        }
    }

    fn look_again(&mut self, client: ClientId) {
        let side = self.sides.iter().position(|side| side.engine.client() == client);
        let side = side.expect("one of ours");
        self.apply(side, Input::LookAgain);
        self.sides[side].look = true;
        self.report.wakes += 1;
    }

    /// No more faults: everything that can go on does, until nothing is left.
    fn calm_down(&mut self) {
        let enough = ResourceCost::new().with("cpu", Amount::from(6));
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &enough));
        loop {
            while let Some(client) = self.wakes.pop() {
                self.look_again(client);
            }
            let moved = (0..self.sides.len()).any(|side| self.go_on(side));
            self.verify();
            if self.sides.iter().all(|side| side.engine.is_done()) {
                break;
            }
            let due = self.sides.iter().filter_map(|side| side.engine.next_wakeup()).min();
            match due {
                _ if moved || !self.wakes.is_empty() => {}
                Some(due) => self.now = self.now.max(due),
                None => panic!("nothing moves, and not everything has ended"),
            }
        }
        self.report_ends();
    }

    /// Starts what may start, and ends one attempt; whether anything happened.
    fn go_on(&mut self, side: usize) -> bool {
        let engine = &self.sides[side].engine;
        let phase = |work| engine.phase(work).expect("it is one of its works");
        let rung: Vec<_> = engine.works().filter(|&w| phase(w) == Phase::Ticketed).collect();
        rung.iter().for_each(|&work| self.apply(side, Input::Ring(work)));
        self.apply(side, Input::Tick);
        let mut moved = std::mem::take(&mut self.sides[side].look);
        while moved && let Some(grant) = self.call(side, Engine::take_next) {
            self.begin(side, grant);
        }
        if !self.sides[side].running.is_empty() {
            self.end(side, 0, Outcome::Success);
            moved = true;
        }
        moved
    }

    fn apply(&mut self, side: usize, input: Input) {
        self.try_apply(side, input).unwrap_or_else(|error| panic!("{input:?}: {error}"));
    }

    fn try_apply(&mut self, side: usize, input: Input) -> Result<(), windlass_core::Rejected> {
        self.call(side, |engine, world| engine.apply(world, input))
    }

    fn call<T>(&mut self, side: usize, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut facts = Vec::new();
        let mut transitions = Vec::new();
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: Some(&mut facts),
            transitions: Some(&mut transitions),
            wakes: &mut self.wakes,
        };
        let side = &mut self.sides[side];
        let result = call(&mut side.engine, &mut world);
        // Somebody became ready or gave something back: there may be something to take.
        side.look |= !transitions.is_empty();
        self.report.facts += facts.len();
        side.shadow.follow(&facts);
        if !facts.is_empty() {
            assert_eq!(side.engine.digest(), side.shadow.engine.digest(), "a replay is the same");
        }
        result
    }

    fn verify(&self) {
        for Side { engine, .. } in &self.sides {
            engine.check(&self.capacity);
        }
    }

    fn report_ends(&mut self) {
        let ends =
            [WorkState::Success, WorkState::Failed, WorkState::Blocked, WorkState::Cancelled];
        for Side { engine, .. } in &self.sides {
            let counts = ends.map(|state| engine.metrics().count(state));
            (0..ends.len()).for_each(|end| self.report.ends[end] += counts[end]);
        }
    }
}

impl Shadow {
    fn follow(&mut self, facts: &[Fact]) {
        for fact in facts {
            let stored = windlass_store::encode(fact);
            let fact = windlass_store::decode(&stored).expect("it was encoded just now");
            let mut world = World {
                now: fact.at,
                capacity: &mut self.capacity,
                facts: None,
                transitions: None,
                wakes: &mut Vec::new(),
            };
            self.engine.evolve(&mut world, &fact);
            self.engine.check(&self.capacity);
        }
    }
}
