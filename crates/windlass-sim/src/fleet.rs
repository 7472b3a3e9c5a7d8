//! Many workers in virtual time: runs of random steps on a fleet whose workers come, drain and go.
//!
//! Every start is checked against what the worker has, counted apart from the engine; every work ends; and the
//! time of each decision is measured. Knows nothing of stores and processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;
use std::time::{Duration, Instant};

use windlass_core::{
    Amount, CapacityTree, ClientId, Engine, EngineConfig, Grant, Input, Intake, Outcome, Random,
    ResourceCost, SLOTS, Selector, Submission, Timestamp, WORKER, WorkId, WorkerOffer, World,
};

/// How large a fleet is, and what it has to do.
#[derive(Clone, Copy, Debug)]
pub struct FleetSize {
    /// How many workers there are at first.
    pub workers: u64,
    /// How many works all runs have together.
    pub works: u64,
    /// How many runs there are.
    pub runs: u64,
}

/// What a simulated fleet did.
#[derive(Clone, Debug)]
pub struct FleetReport {
    /// How many attempts were started.
    pub started: usize,
    /// How many attempts were lost with their workers.
    pub lost: usize,
    /// How long each search for a step took, in nanoseconds, in order.
    searches: Vec<u64>,
    /// How long it took that all works have ended, in virtual time.
    pub span: Duration,
}

impl FleetReport {
    /// Returns the time of the search that was longer than `percent` of all.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        let at = (self.searches.len() as f64 * percent / 100.0) as usize;
        Duration::from_nanos(self.searches[at.min(self.searches.len() - 1)])
    }
}

impl fmt::Display for FleetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} attempts started, {} lost with their workers", self.started, self.lost)?;
        writeln!(f, "{:.1} hours of virtual time", self.span.as_secs_f64() / 3600.0)?;
        let [half, most, last] = [50.0, 99.0, 100.0].map(|percent| self.percentile(percent));
        let searches = self.searches.len();
        writeln!(f, "{searches} decisions: {half:.1?} p50, {most:.1?} p99, {last:.1?} at most")
    }
}

/// Runs all works of a random fleet to their ends.
///
/// # Panics
///
/// Panics if a rule does not hold: a bug in the engine.
#[must_use]
pub fn simulate(seed: u64, size: FleetSize) -> FleetReport {
    let mut fleet = Fleet::new(seed, size);
    while fleet.next_round() {}
    fleet.finish()
}

/// What a work asks of workers.
#[derive(Clone, Debug)]
struct Wants {
    slots: u64,
    gpus: u64,
    zone: Option<&'static str>,
}

const ZONES: [&str; 4] = ["a", "b", "c", "d"];

struct Run {
    engine: Engine,
    wants: Vec<Wants>,
}

/// What a worker has left, as this simulation counts it.
struct Seen {
    slots: i64,
    gpus: i64,
    zone: &'static str,
    is_open: bool,
    running: BTreeSet<(usize, Grant)>,
}

struct Fleet {
    random: Random,
    tree: CapacityTree,
    runs: Vec<Run>,
    workers: BTreeMap<String, Seen>,
    /// How many workers there ever were.
    joined: u64,
    now: Timestamp,
    ends: BinaryHeap<Reverse<(Timestamp, usize, Grant, String)>>,
    /// The runs that have to search, in the order of their turns.
    woken: BTreeSet<(u64, usize)>,
    turns: Vec<u64>,
    report: FleetReport,
}

impl Fleet {
    fn new(seed: u64, size: FleetSize) -> Self {
        let mut random = Random::new(seed);
        let mut tree = CapacityTree::new(&ResourceCost::new());
        let runs = (0..size.runs).map(|number| {
            let limit = ResourceCost::new().with(SLOTS, 500);
            let level = tree.add_level(CapacityTree::ROOT, &limit);
            let priority = i16::try_from(number % 3).expect("it is small");
            let client = tree.add_client_with(level, priority);
            Run { engine: Engine::new(EngineConfig::default(), client), wants: Vec::new() }
        });
        let runs: Vec<_> = runs.collect();
        let works = (0..size.works).map(|number| (number % size.runs, any_wants(&mut random)));
        let works: Vec<_> = works.collect();
        let report =
            FleetReport { started: 0, lost: 0, searches: Vec::new(), span: Duration::ZERO };
        let mut fleet = Self {
            random,
            tree,
            turns: vec![0; runs.len()],
            runs,
            workers: BTreeMap::new(),
            joined: 0,
            now: Timestamp::ZERO,
            ends: BinaryHeap::new(),
            woken: BTreeSet::new(),
            report,
        };
        (0..size.workers).for_each(|_| fleet.join());
        works.into_iter().for_each(|(run, wants)| fleet.submit(run as usize, wants));
        (0..fleet.runs.len()).for_each(|run| fleet.wake(run));
        fleet.settle();
        fleet
    }

    fn submit(&mut self, run: usize, wants: Wants) {
        let Wants { slots, gpus, zone } = &wants;
        let mut cost = ResourceCost::new().with(SLOTS, amount(*slots));
        if *gpus > 0 {
            cost = cost.with(format!("{WORKER}gpu"), amount(*gpus));
        }
        let mut on = Selector::default();
        on.labels.extend(zone.map(|zone| ("zone".to_owned(), zone.to_owned())));
        let cost = self.runs[run].engine.placed_cost(&mut self.tree, &cost, &on);
        let cost = cost.expect("the run has the slots");
        self.runs[run].wants.push(wants);
        let submit = Submission { priority: 0, ..Submission::of(cost) };
        self.call(run, |engine, world| engine.submit(world, submit)).expect("it follows nothing");
    }

    /// Adds a worker. Each zone keeps one that can take everything.
    fn join(&mut self) {
        let slots = if self.joined < 4 { 16 } else { *self.random.pick(&[1, 2, 4, 8]) };
        let gpus = if self.joined < 4 { 4 } else { *self.random.pick(&[0, 0, 0, 1, 2]) };
        let zone = ZONES[self.joined as usize % ZONES.len()];
        let name = format!("w{}", self.joined);
        self.joined += 1;
        self.put(&name, (slots, gpus), zone, Intake::Open);
        let (running, is_open) = (BTreeSet::new(), true);
        self.workers.insert(name, Seen { slots, gpus, zone, is_open, running });
    }

    fn put(&mut self, name: &str, (slots, gpus): (i64, i64), zone: &str, intake: Intake) {
        let amount = |number: i64| amount(number.unsigned_abs());
        let capacity = ResourceCost::new().with(SLOTS, amount(slots)).with("gpu", amount(gpus));
        let labels = BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
        self.tree.put_worker(name, &WorkerOffer { capacity, labels, intake });
    }

    /// Takes in the ends that are due, now and then has a worker come or go, and has the runs search. Returns
    /// whether something is left.
    fn next_round(&mut self) -> bool {
        let Some(Reverse((at, ..))) = self.ends.peek() else { return false };
        self.now = *at;
        while let Some(Reverse((at, ..))) = self.ends.peek()
            && *at == self.now
        {
            let Reverse((_, run, grant, worker)) = self.ends.pop().expect("it was seen");
            if self.give_back(&worker, run, grant) {
                self.end(run, grant, Outcome::Success);
            }
        }
        if self.random.one_in(200) {
            self.change_workers();
        }
        self.settle();
        true
    }

    /// Has a worker join, drain, or be lost. The first ones stay, so that each work can end.
    fn change_workers(&mut self) {
        let names: Vec<_> = self.workers.keys().cloned().collect();
        let name = self.random.pick(&names).clone();
        let stays = ["w0", "w1", "w2", "w3"].contains(&name.as_str());
        match self.random.within(0..4) {
            0 if !stays => {
                let lost = self.workers.remove(&name).expect("it was picked");
                self.tree.remove_worker(&name);
                self.report.lost += lost.running.len();
                for (run, grant) in lost.running {
                    self.end(run, grant, Outcome::Interrupted);
                }
            }
            1 if !stays => {
                let seen = self.workers.get_mut(&name).expect("it was picked");
                seen.is_open = false;
                let (zone, running) = (seen.zone, seen.running.clone());
                let used = running.iter().map(|(run, grant)| self.wants(*run, grant.work));
                let (slots, gpus) = used.fold((0, 0), |(s, g), w| (s + w.slots, g + w.gpus));
                let seen = &self.workers[&name];
                let all = (seen.slots + slots as i64, seen.gpus + gpus as i64);
                self.put(&name, all, zone, Intake::Closed);
            }
            _ => self.join(),
        }
    }

    /// Counts what an attempt gives back, unless it was lost.
    fn give_back(&mut self, worker: &str, run: usize, grant: Grant) -> bool {
        let Wants { slots, gpus, .. } = self.wants(run, grant.work).clone();
        let Some(seen) = self.workers.get_mut(worker) else { return false };
        if !seen.running.remove(&(run, grant)) {
            return false;
        }
        seen.slots += slots as i64;
        seen.gpus += gpus as i64;
        true
    }

    fn end(&mut self, run: usize, grant: Grant, outcome: Outcome) {
        let input = Input::Finished { grant, outcome };
        self.call(run, |engine, world| engine.apply(world, input)).expect("it is under way");
        self.wake(run);
    }

    fn wants(&self, run: usize, work: WorkId) -> &Wants {
        &self.runs[run].wants[work.index()]
    }

    fn wake(&mut self, run: usize) {
        self.woken.insert((self.turns[run], run));
    }

    /// Has woken runs start steps in turn, until no room is left for any.
    fn settle(&mut self) {
        loop {
            for client in self.tree.pass_on() {
                self.wake_client(client, Input::RetryPlacement);
            }
            if self.woken.is_empty() {
                return;
            }
            while let Some((_, run)) = self.woken.pop_first() {
                if self.start_next(run) {
                    self.turns[run] += 1;
                    self.wake(run);
                }
            }
        }
    }

    fn wake_client(&mut self, client: ClientId, search: Input) {
        let run = self.runs.iter().position(|run| run.engine.client() == client);
        let run = run.expect("each client is a run");
        self.call(run, |engine, world| engine.apply(world, search)).expect("it can always search");
        self.wake(run);
    }

    fn start_next(&mut self, run: usize) -> bool {
        let began = Instant::now();
        let grant = self.call(run, Engine::take_next);
        self.report.searches.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let Some(grant) = grant else { return false };
        let at = self.runs[run].engine.placed_at(&self.tree, grant.work);
        let at = at.expect("it goes to a worker").to_owned();
        self.call(run, |engine, world| engine.apply(world, Input::Begin(grant))).expect("granted");
        self.report.started += 1;
        let Wants { slots, gpus, zone } = self.wants(run, grant.work).clone();
        let seen = self.workers.get_mut(&at).expect("it is there");
        assert!(seen.is_open && zone.is_none_or(|zone| zone == seen.zone), "{at} may take it");
        seen.slots -= slots as i64;
        seen.gpus -= gpus as i64;
        assert!(seen.slots >= 0 && seen.gpus >= 0, "{at} has room");
        seen.running.insert((run, grant));
        let takes = Duration::from_millis(self.random.within(1..600_000));
        self.ends.push(Reverse((self.now.after(takes), run, grant, at)));
        true
    }

    fn call<T>(&mut self, run: usize, act: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: self.now,
            capacity: &mut self.tree,
            facts: None,
            transitions: None,
            wakes: &mut wakes,
        };
        let result = act(&mut self.runs[run].engine, &mut world);
        wakes.into_iter().for_each(|client| self.wake_client(client, Input::RetrySearch));
        result
    }

    fn finish(mut self) -> FleetReport {
        for run in &self.runs {
            assert!(run.engine.is_done(), "every work ends");
        }
        self.tree.check();
        self.report.searches.sort_unstable();
        self.report.span = self.now.since(Timestamp::ZERO);
        self.report
    }
}

fn any_wants(random: &mut Random) -> Wants {
    Wants {
        slots: *random.pick(&[1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 8, 16]),
        gpus: *random.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 4]),
        zone: random.one_in(6).then(|| *random.pick(&ZONES)),
    }
}

fn amount(number: u64) -> Amount {
    Amount::from(u32::try_from(number).expect("it is small"))
}
