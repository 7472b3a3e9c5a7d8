//! A random world: several engines on one capacity tree, made up from a seed.
//!
//! First everything goes wrong that can: graphs grow while they run, attempts fail, are cancelled,
//! lost or reported late, limits change, time jumps, wake-ups are slow, engines die and are rebuilt
//! from what they stored. Then the faults stop, and everything must reach an end. After every step
//! the engines are checked, and a shadow of each, fed nothing but the facts in their stored form,
//! must have the same digest. Whenever an engine says that nothing fits, nothing does.

use std::collections::VecDeque;
use std::time::Duration;

use windlass_core::{
    Ageing, Amount, CapacityTree, ClientId, CostId, Dependency, DependencyError, EdgeKind, Ending,
    Engine, EngineConfig, Fact, Grant, Happening, Input, Order, Outcome, Phase, Place, Quota,
    Random, Rate, Rejected, ResourceCost, SLOTS, Short, Submission, Timestamp, WorkId, WorkState,
    World,
};

use crate::report::Report;

/// Makes up the world of `seed`, lives through it, and tells what happened.
///
/// # Panics
///
/// If an invariant is broken, a replay differs, or something never ends. The last steps before it,
/// and the command that repeats them, are printed.
#[must_use]
pub fn live(seed: u64) -> Report {
    let mut world = RandomWorld::new(seed);
    for _ in 0..STEPS {
        world.disturb();
        world.verify();
    }
    world.calm_down();
    std::mem::take(&mut world.report)
}

const STEPS: usize = 150;
/// How many of the latest steps are told when something breaks.
const REMEMBERED: usize = 30;
const CALM_ROUNDS: usize = 10_000;

struct RandomWorld {
    seed: u64,
    random: Random,
    now: Timestamp,
    capacity: CapacityTree,
    sides: Vec<Side>,
    /// Wake-ups that have not arrived yet.
    wakes: Vec<ClientId>,
    report: Report,
    log: VecDeque<String>,
}

/// One engine, and what its driver knows.
struct Side {
    engine: Engine,
    order: Order,
    running: Vec<Grant>,
    past: Vec<Grant>,
    /// Whether there may be something to take.
    look: bool,
    shadow: Shadow,
}

/// An engine that only ever sees the stored facts, on a tree of its own.
struct Shadow {
    engine: Engine,
    capacity: CapacityTree,
}

fn amounts(pairs: &[(&str, u32)]) -> ResourceCost {
    pairs.iter().map(|&(name, n)| (name.to_owned(), Amount::from(n))).collect()
}

/// The same tree for everybody: a root, and a team with slots of its own for each side.
fn tree(sides: u64) -> (CapacityTree, Vec<ClientId>) {
    let mut tree = CapacityTree::new(&amounts(&[("cpu", 6), ("memory", 10)]));
    let (root, start) = (CapacityTree::ROOT, Timestamp::ZERO);
    let rate =
        Rate { amount: Amount::from(2), per: Duration::from_secs(1), burst: Amount::from(3) };
    tree.set_rate(root, "api", rate, start).expect("a rate that makes sense");
    let quota = Quota { amount: Amount::from(8), window: Duration::from_secs(20) };
    tree.set_quota(root, "daily", quota, start).expect("a quota that makes sense");
    let clients = (0..sides).map(|_| {
        let team = tree.add_level(CapacityTree::ROOT, &amounts(&[("cpu", 5), (SLOTS, 4)]));
        tree.add_client(team)
    });
    let clients = clients.collect();
    (tree, clients)
}

impl Side {
    fn new(random: &mut Random, client: ClientId, sides: u64) -> Self {
        let mut config = EngineConfig::default();
        let tenth: Amount = "0.001".parse().expect("an amount");
        config.ageing = match random.within(0..3) {
            0 => Ageing::NONE,
            1 => Ageing::new(tenth, None).expect("a small rate"),
            _ => Ageing::new(tenth, Some(Amount::from(2))).expect("a small rate"),
        };
        config.order = if random.one_in(5) { Order::Strict } else { Order::PassOver };
        let order = config.order;
        let engine = Engine::new(config, client);
        let shadow = Shadow { engine: engine.clone(), capacity: tree(sides).0 };
        Self { engine, order, running: Vec::new(), past: Vec::new(), look: false, shadow }
    }
}

impl RandomWorld {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sides = random.within(1..4);
        let (capacity, clients) = tree(sides);
        let sides = clients.iter().map(|&client| Side::new(&mut random, client, sides)).collect();
        Self {
            seed,
            random,
            now: Timestamp::ZERO,
            capacity,
            sides,
            wakes: Vec::new(),
            report: Report::default(),
            log: VecDeque::new(),
        }
    }

    fn disturb(&mut self) {
        let side = self.random.within(0..self.sides.len() as u64) as usize;
        match self.random.within(0..100) {
            0..24 => self.submit(side),
            24..28 => self.add_dependency(side),
            28..54 => self.take(side),
            54..72 => self.finish(side),
            72..76 => self.cancel(side),
            76..80 => self.forget(side),
            80..84 => self.report_late(side),
            84..90 => self.let_time_pass(),
            90..92 => self.change_team_limit(side),
            92..94 => self.change_root_limit(),
            94..95 => self.take_over(side),
            _ => self.deliver(),
        }
    }

    fn submit(&mut self, side: usize) {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        let mut after = Vec::new();
        for _ in 0..self.random.within(0..3) {
            // Mostly recent works: old ones have often failed, and would block everything.
            let recent = &works[works.len().saturating_sub(6)..];
            if !recent.is_empty() {
                let work = *self.random.pick(recent);
                let kinds =
                    [EdgeKind::Success, EdgeKind::Success, EdgeKind::Done, EdgeKind::Failed];
                after.push(Dependency { work, kind: *self.random.pick(&kinds) });
            }
        }
        let needs = self.needs();
        let priority = self.random.within(0..5).cast_signed() - 2;
        let retries = self.random.within(0..3) as u32;
        let Side { engine, shadow, .. } = &mut self.sides[side];
        // A limit may stand below what is asked for just now; such a work is refused.
        let Ok(cost) = engine.cost(&self.capacity, &needs) else { return };
        let same = shadow.cost(&needs);
        assert_eq!(same, cost, "the side table is filled before its fact");
        let submission = Submission { after: &after, priority, retries, ..Submission::of(cost) };
        shadow.engine.stage(submission);
        self.tell(format!("{side}: submit {submission:?}"));
        self.call(side, |engine, world| engine.submit(world, submission)).expect("known works");
    }

    fn needs(&mut self) -> ResourceCost {
        let mut needs = ResourceCost::new();
        let resources =
            [("cpu", 4, 2), ("memory", 8, 2), ("api", 3, 6), ("daily", 3, 8), (SLOTS, 3, 6)];
        for (name, most, rarity) in resources {
            if self.random.one_in(rarity) {
                needs = needs.with(name, Amount::from(self.random.within(1..most) as u32));
            }
        }
        needs
    }

    fn add_dependency(&mut self, side: usize) {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        if works.is_empty() {
            return;
        }
        let recent = &works[works.len().saturating_sub(8)..];
        let (work, on) = (*self.random.pick(recent), *self.random.pick(recent));
        self.tell(format!("{side}: {work} waits for {on}"));
        let before = self.sides[side].engine.digest();
        let added = self.call(side, |engine, world| engine.add_dependency(world, work, on.into()));
        match added {
            Ok(()) => return,
            Err(DependencyError::Cycle { path }) => {
                assert_eq!((path.first(), path.last()), (Some(&on), Some(&on)), "{path:?}");
                assert!(path.contains(&work), "{path:?}");
                self.report.count("dependency refused: cycle");
            }
            Err(DependencyError::Begun { .. }) => self.report.count("dependency refused: begun"),
            Err(error) => panic!("{error}"),
        }
        let tick = |engine: &mut Engine, world: &mut World<'_>| engine.apply(world, Input::Tick);
        self.call(side, tick).expect("time passes");
        let same = self.sides[side].engine.digest() == before || self.sides[side].look;
        assert!(same, "a refused dependency changes nothing");
    }

    fn take(&mut self, side: usize) {
        while let Some(grant) = self.take_one(side) {
            match self.random.within(0..10) {
                0 => {
                    self.report.count("refused outside");
                    self.apply(side, Input::Refuse(grant));
                }
                1 => {
                    self.apply(side, Input::Cancel(grant.work));
                    self.try_apply(side, Input::Begin(grant)).expect_err("it was cancelled");
                    self.report.count("stale grant");
                }
                2 => {
                    self.report.count("handed back");
                    self.apply(side, Input::HandBack(grant));
                    return;
                }
                _ => self.begin(side, grant),
            }
        }
        self.verify_that_nothing_fits(side);
        self.sides[side].look = false;
    }

    fn take_one(&mut self, side: usize) -> Option<Grant> {
        let grant = self.call(side, Engine::take_next)?;
        self.tell(format!("{side}: granted {grant:?}"));
        self.verify_limits(side, grant.work);
        Some(grant)
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
        let outcome = match self.random.within(0..12) {
            0 | 1 => Outcome::Failed,
            2 | 3 => Outcome::Retry { delay },
            4 => Outcome::Interrupted,
            5 => Outcome::Cancelled,
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
        if let Some(work) = self.any_work(side) {
            // It may have ended already.
            let _ = self.try_apply(side, Input::Cancel(work));
        }
    }

    fn forget(&mut self, side: usize) {
        for _ in 0..3 {
            let Some(work) = self.any_work(side) else { return };
            let ended = self.state(side, work).is_terminal();
            let forgotten = self.try_apply(side, Input::Forget(work));
            assert_eq!(forgotten.is_ok(), ended, "only ended works are forgotten");
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
        self.report.count("late result");
    }

    fn let_time_pass(&mut self) {
        let most = if self.random.one_in(6) { 60_000 } else { 1500 };
        self.now = self.now.after(Duration::from_millis(self.random.within(0..most)));
        // A driver would be woken by its timer.
        self.sides.iter_mut().for_each(|side| side.look = true);
    }

    fn change_team_limit(&mut self, side: usize) {
        let level = self.capacity.level_of(self.sides[side].engine.client());
        let cpu = self.capacity.resource("cpu").expect("it was declared");
        let limit = Amount::from(self.random.within(0..7) as u32);
        self.tell(format!("{side}: team limit {limit}"));
        self.call(side, |engine, world| engine.set_limit(world, level, cpu, limit));
        self.sides[side].look = true;
    }

    fn change_root_limit(&mut self) {
        let limits = amounts(&[("cpu", self.random.within(0..8) as u32)]);
        self.tell(format!("root limit {limits}"));
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &limits));
    }

    /// The engine dies; another one takes over with nothing but the stored facts. Its attempts are
    /// lost, and what it held is free.
    fn take_over(&mut self, side: usize) {
        self.tell(format!("{side}: take-over"));
        self.report.count("take-over");
        let client = self.sides[side].engine.client();
        let level = self.capacity.level_of(client);
        self.wakes.extend(self.capacity.remove_client(client));
        self.wakes.retain(|woken| *woken != client);
        assert_eq!(self.capacity.add_client(level), client, "its number is free");
        let successor = self.sides[side].shadow.engine.clone();
        let holds = |work: &WorkId| successor.phase(*work).is_some_and(Phase::holds);
        for work in successor.works().filter(holds) {
            self.capacity.take(client, successor.demand(work), self.now);
        }
        self.sides[side].engine = successor;
        self.sides[side].look = true;
        while !self.sides[side].running.is_empty() {
            self.end(side, 0, Outcome::Interrupted);
        }
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
        self.report.count("wake");
    }

    /// No more faults: everything that can go on does, until nothing is left.
    fn calm_down(&mut self) {
        self.tell("the faults stop".to_owned());
        let root = amounts(&[("cpu", 6)]);
        self.wakes.extend(self.capacity.set_limits(CapacityTree::ROOT, &root));
        for side in 0..self.sides.len() {
            let level = self.capacity.level_of(self.sides[side].engine.client());
            let cpu = self.capacity.resource("cpu").expect("it was declared");
            let limit = Amount::from(5);
            self.call(side, |engine, world| engine.set_limit(world, level, cpu, limit));
            self.sides[side].look = true;
        }
        for _ in 0..CALM_ROUNDS {
            if !self.calm_round() {
                return self.report_ends();
            }
        }
        panic!("not everything ends");
    }

    /// Everything moves a little; whether anything is left.
    fn calm_round(&mut self) -> bool {
        for client in std::mem::take(&mut self.wakes) {
            self.look_again(client);
        }
        let moved = (0..self.sides.len()).filter(|&side| self.go_on(side)).count() > 0;
        self.verify();
        if self.sides.iter().all(|side| side.engine.is_done()) {
            return false;
        }
        let due = self.sides.iter().filter_map(|side| side.engine.next_wakeup()).min();
        match due {
            _ if moved || !self.wakes.is_empty() => {}
            Some(due) => {
                assert!(due > self.now, "a wake-up that has passed must change something");
                self.now = due;
                self.sides.iter_mut().for_each(|side| side.look = true);
            }
            None => panic!("nothing moves, and not everything has ended"),
        }
        true
    }

    /// Starts what may start, and ends one attempt; whether anything happened.
    fn go_on(&mut self, side: usize) -> bool {
        let engine = &self.sides[side].engine;
        let phase = |work| engine.phase(work).expect("it is one of its works");
        let rung: Vec<_> = engine.works().filter(|&w| phase(w) == Phase::Ticketed).collect();
        let mut moved = !rung.is_empty();
        rung.iter().for_each(|&work| self.apply(side, Input::Ring(work)));
        self.apply(side, Input::Tick);
        if std::mem::take(&mut self.sides[side].look) {
            while let Some(grant) = self.take_one(side) {
                self.begin(side, grant);
                moved = true;
            }
            self.verify_that_nothing_fits(side);
        }
        if !self.sides[side].running.is_empty() {
            self.end(side, 0, Outcome::Success);
            moved = true;
        }
        moved
    }

    fn any_work(&mut self, side: usize) -> Option<WorkId> {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        (!works.is_empty()).then(|| *self.random.pick(&works))
    }

    fn state(&self, side: usize, work: WorkId) -> WorkState {
        self.sides[side].engine.phase(work).expect("it is one of its works").state()
    }

    fn apply(&mut self, side: usize, input: Input) {
        self.try_apply(side, input).unwrap_or_else(|error| panic!("{input:?}: {error}"));
    }

    fn try_apply(&mut self, side: usize, input: Input) -> Result<(), Rejected> {
        self.tell(format!("{side}: {input:?} at {}", self.now));
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
        let before = side.engine.metrics().clone();
        let result = call(&mut side.engine, &mut world);
        // Somebody became ready or gave something back: there may be something to take.
        side.look |= !transitions.is_empty();
        let after = side.engine.metrics();
        self.report.add("passed over", after.passed_over - before.passed_over);
        self.report.add("set aside", after.set_aside - before.set_aside);
        facts.iter().for_each(|fact| self.report.count(fact_name(fact)));
        side.shadow.follow(&facts);
        if !facts.is_empty() {
            assert_eq!(side.engine.digest(), side.shadow.engine.digest(), "a replay is the same");
        }
        result
    }

    fn verify(&self) {
        self.sides.iter().for_each(|side| side.engine.check(&self.capacity));
        self.verify_that_nobody_waits_in_a_circle();
    }

    /// Set-asides bind in one order, so of all who are first in line somewhere at least one is bound
    /// by nobody else's.
    fn verify_that_nobody_waits_in_a_circle(&self) {
        let firsts = self.sides.iter().filter(|side| side.engine.first_in_line().is_some());
        let bound: Vec<_> = firsts.map(|side| self.is_bound(&side.engine)).collect();
        assert!(bound.is_empty() || bound.contains(&false), "all wait for each other's set-asides");
    }

    /// Whether something that the first in line needs is set aside for another engine.
    fn is_bound(&self, engine: &Engine) -> bool {
        let first = engine.first_in_line().expect("someone waits");
        let client = engine.client();
        let levels = [self.capacity.level_of(client), CapacityTree::ROOT];
        engine.demand(first).iter().any(|(resource, _)| {
            levels.iter().any(|&level| {
                let free = self.capacity.free(level, self.capacity.name(resource));
                let room = self.capacity.room(client, level, resource, Place::First, self.now);
                free.is_some_and(|free| room < free)
            })
        })
    }

    /// What was granted just now is within every limit that bounds it.
    fn verify_limits(&self, side: usize, work: WorkId) {
        let Side { engine, .. } = &self.sides[side];
        let team = self.capacity.level_of(engine.client());
        for level in [team, CapacityTree::ROOT] {
            for (resource, _) in engine.demand(work).iter() {
                let name = self.capacity.name(resource);
                let free = self.capacity.free(level, name);
                assert!(free.is_none_or(|free| free >= 0), "{name} is over its limit");
            }
        }
    }

    /// The engine says that nothing fits: every ready work is really refused, unless word that there
    /// is more is still on its way.
    fn verify_that_nothing_fits(&mut self, side: usize) {
        let Side { engine, order, .. } = &self.sides[side];
        if self.wakes.contains(&engine.client()) {
            return;
        }
        let first = engine.first_in_line();
        for work in engine.works().filter(|&work| engine.phase(work) == Some(Phase::Ready)) {
            let place = if first == Some(work) { Place::First } else { Place::Later };
            if place == Place::Later && *order == Order::Strict {
                continue;
            }
            let mut trial = self.capacity.clone();
            let client = engine.client();
            let taken = trial.try_take(client, engine.demand(work), place, self.now);
            let refusal = taken.expect_err("a ready work that fits has to start");
            refusal.shortages.iter().for_each(|short| self.report.count(short_name(&short.why)));
        }
    }

    fn report_ends(&mut self) {
        for Side { engine, .. } in &self.sides {
            for work in engine.works() {
                let end = match engine.phase(work) {
                    Some(Phase::Skipped) => "end: skipped",
                    Some(Phase::Success) => "end: success",
                    Some(Phase::Failed) => "end: failed",
                    Some(Phase::Blocked) => "end: blocked",
                    Some(Phase::Cancelled) => "end: cancelled",
                    other => panic!("work {work} has not ended: {other:?}"),
                };
                self.report.count(end);
            }
        }
        let free = ["cpu", "memory"].map(|name| self.capacity.free(CapacityTree::ROOT, name));
        assert_eq!(free, [Some(6 * 10_000), Some(10 * 10_000)], "everything was given back");
    }

    fn tell(&mut self, what: String) {
        if self.log.len() == REMEMBERED {
            self.log.pop_front();
        }
        self.log.push_back(what);
    }
}

impl Drop for RandomWorld {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let steps: Vec<_> = self.log.iter().map(String::as_str).collect();
            let repeat = format!("cargo run --release -p windlass-sim -- --seed {}", self.seed);
            eprintln!("the last steps:\n  {}\nrepeat with: {repeat}", steps.join("\n  "));
        }
    }
}

impl Shadow {
    fn cost(&mut self, needs: &ResourceCost) -> CostId {
        // The shadow's tree has other limits at times, so the demand is made where there are none.
        self.engine.cost(&self.capacity, needs).expect("it is declared here too")
    }

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

fn fact_name(fact: &Fact) -> &'static str {
    match fact.what {
        Happening::Submitted { .. } => "fact: submitted",
        Happening::EdgeAdded { .. } => "fact: edge added",
        Happening::Started { .. } => "fact: started",
        Happening::Ended { ending: Ending::Success, .. } => "fact: succeeded",
        Happening::Ended { ending: Ending::Failed, .. } => "fact: failed",
        Happening::Ended { ending: Ending::Retry { .. }, .. } => "fact: retried",
        Happening::Ended { ending: Ending::Cancelled, .. } => "fact: stopped",
        Happening::Ended { ending: Ending::Interrupted, .. } => "fact: interrupted",
        Happening::CancelAsked { .. } => "fact: cancel asked",
        Happening::LimitSet { .. } => "fact: limit set",
        Happening::Forgotten { .. } => "fact: forgotten",
        _ => "fact: unknown",
    }
}

fn short_name(why: &Short) -> &'static str {
    match why {
        Short::Limit { set_aside, .. } if *set_aside > 0 => "refused: set aside",
        Short::Limit { .. } => "refused: limit",
        Short::Rate { .. } => "refused: rate",
        Short::Quota { .. } => "refused: quota",
        _ => "refused: unknown",
    }
}
