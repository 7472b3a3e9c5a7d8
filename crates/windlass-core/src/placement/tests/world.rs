//! Engines on a tree with workers, driven as a scheduler drives them: only those search that were woken.

use std::collections::{BTreeMap, BTreeSet};

use crate::placement::{Intake, Selector, WorkerKind, WorkerOffer};
use crate::{
    Amount, CapacityTree, ClientId, Engine, EngineConfig, Extras, Fact, Grant, Input, Outcome,
    Phase, Reason, ResourceCost, Submission, Timestamp, WorkId,
};

/// What a work asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    pub(super) cost: ResourceCost,
    pub(super) on: Selector,
    pub(super) priority: i64,
    pub(super) beside: Option<WorkId>,
}

impl Wants {
    /// Reads words: `slots=2`, `gpu=1`, `run:x=1` (of the level of the engine), `zone:x`, `@name`.
    pub(super) fn of(text: &str) -> Self {
        let mut wants = Self::default();
        for word in text.split_whitespace() {
            if let Some(name) = word.strip_prefix('@') {
                wants.on.worker = Some(name.to_owned());
            } else if let Some(own) = word.strip_prefix("run:") {
                wants.cost = wants.cost.with(own, Amount::from(1));
            } else if let Some((key, value)) = word.split_once(':') {
                wants.on.labels.insert(key.to_owned(), value.to_owned());
            } else {
                let (name, amount) = amount(word);
                let name = if name == "slots" { name } else { format!("worker.{name}") };
                wants.cost = wants.cost.with(name, amount);
            }
        }
        wants
    }

    pub(super) fn beside(work: WorkId) -> Self {
        Self { beside: Some(work), ..Self::default() }
    }

    /// Returns how much it takes of a worker's resource.
    pub(super) fn takes(&self, resource: &str) -> u64 {
        match resource {
            "slots" => self.cost.amount("slots").map_or(Amount::from(1).steps(), Amount::steps),
            _ => self.cost.amount(&format!("worker.{resource}")).unwrap_or_default().steps(),
        }
    }
}

fn amount(word: &str) -> (String, Amount) {
    let (name, amount) = word.split_once('=').expect("NAME=AMOUNT");
    (name.to_owned(), Amount::from(amount.parse::<u32>().expect("a number")))
}

/// Reads what a worker has: `slots=2 gpu=1 zone:x`.
pub(super) fn offer(text: &str) -> WorkerOffer {
    let mut offer = WorkerOffer::default();
    for word in text.split_whitespace() {
        if let Some((key, value)) = word.split_once(':') {
            offer.labels.insert(key.to_owned(), value.to_owned());
        } else {
            let (name, amount) = amount(word);
            offer.capacity = offer.capacity.with(name, amount);
        }
    }
    offer
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) engine: Engine,
    pub(super) facts: Vec<Fact>,
    pub(super) wants: Vec<Wants>,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) tree: CapacityTree,
    pub(super) engines: Vec<Member>,
    pub(super) offers: BTreeMap<String, WorkerOffer>,
    pub(super) now: Timestamp,
    /// The engines that have to search.
    woken: BTreeSet<usize>,
    /// Called with each start, before it is applied.
    pub(super) starts: Vec<(usize, WorkId, String)>,
}

impl World {
    pub(super) fn of(workers: &[(&str, &str)]) -> Self {
        Self::with_engines(workers, &[0])
    }

    /// Creates engines with these priorities.
    pub(super) fn with_engines(workers: &[(&str, &str)], priorities: &[i16]) -> Self {
        let mut tree = CapacityTree::new(&ResourceCost::new());
        let limits = ResourceCost::new().with("own", 3);
        let engines = priorities.iter().map(|priority| {
            let level = tree.add_level(CapacityTree::ROOT, &limits);
            let client = tree.add_client_with(level, *priority);
            let engine = Engine::new(EngineConfig::default(), client);
            Member { engine, facts: Vec::new(), wants: Vec::new() }
        });
        let engines = engines.collect();
        let (offers, woken) = (BTreeMap::new(), BTreeSet::new());
        let (now, starts) = (Timestamp::ZERO, Vec::new());
        let mut world = Self { tree, engines, offers, now, woken, starts };
        workers.iter().for_each(|(name, has)| world.put(name, has));
        world
    }

    pub(super) fn put(&mut self, name: &str, has: &str) {
        self.put_offer(name, offer(has));
    }

    pub(super) fn put_offer(&mut self, name: &str, offer: WorkerOffer) {
        self.tree.put_worker(name, &offer);
        self.offers.insert(name.to_owned(), offer);
    }

    pub(super) fn drain(&mut self, name: &str) {
        let offer = WorkerOffer { intake: Intake::Closed, ..self.offers[name].clone() };
        self.put_offer(name, offer);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.offers.remove(name);
        self.tree.remove_worker(name);
    }

    fn wake(&mut self, clients: &[ClientId]) {
        clients.iter().for_each(|client| self.search(*client, Input::RetrySearch));
    }

    fn search(&mut self, client: ClientId, search: Input) {
        let of = self.engines.iter().position(|one| one.engine.client() == client);
        let index = of.expect("each client is an engine");
        self.woken.insert(index);
        self.call(index, |engine, world| engine.apply(world, search)).expect("it can search");
    }

    pub(super) fn call<T>(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut Engine, &mut crate::World<'_>) -> T,
    ) -> T {
        let (mut wakes, Member { engine, facts, .. }) = (Vec::new(), &mut self.engines[index]);
        let mut world = crate::World {
            now: self.now,
            capacity: &mut self.tree,
            facts: Some(facts),
            transitions: None,
            wakes: &mut wakes,
        };
        let result = call(engine, &mut world);
        self.wake(&wakes);
        result
    }

    pub(super) fn apply(&mut self, index: usize, input: Input) {
        self.call(index, |engine, world| engine.apply(world, input)).expect("it can be applied");
        self.woken.insert(index);
    }

    pub(super) fn submit(&mut self, index: usize, wants: &Wants) -> WorkId {
        let Wants { cost, on, priority, beside } = wants;
        let (member, tree) = (&mut self.engines[index], &mut self.tree);
        let cost = member.engine.placed_cost(tree, cost, on).expect("the level has it");
        member.wants.push(wants.clone());
        let after: Vec<_> = beside.iter().map(|work| (*work).into()).collect();
        let extras = Extras { beside: *beside, ..Extras::default() };
        let submission = Submission {
            after: &after,
            priority: *priority,
            extras: Some(&extras),
            ..Submission::of(cost)
        };
        self.woken.insert(index);
        self.call(index, |engine, world| engine.submit(world, submission)).expect("known works")
    }

    pub(super) fn grant(&self, index: usize, work: WorkId) -> Grant {
        let attempt = self.engines[index].engine.attempts(work).expect("a known work");
        Grant { work, attempt }
    }

    pub(super) fn end(&mut self, index: usize, work: WorkId) {
        self.end_as(index, work, Outcome::Success);
    }

    pub(super) fn end_as(&mut self, index: usize, work: WorkId, outcome: Outcome) {
        let grant = self.grant(index, work);
        self.apply(index, Input::Finished { grant, outcome });
    }

    /// Has engines search, one start at a time and in turn, until none is woken.
    pub(super) fn settle(&mut self) {
        loop {
            for client in self.tree.pass_on() {
                self.search(client, Input::RetryPlacement);
            }
            if self.woken.is_empty() {
                return;
            }
            while let Some(index) = self.woken.pop_first() {
                while self.start_next(index) {}
            }
        }
    }

    fn start_next(&mut self, index: usize) -> bool {
        let Some(grant) = self.call(index, Engine::take_next) else { return false };
        let engine = &self.engines[index].engine;
        if engine.phase(grant.work) == Some(Phase::Running) {
            return true;
        }
        let at = engine.placed_at(&self.tree, grant.work).expect("it goes to a worker");
        self.starts.push((index, grant.work, at.to_owned()));
        self.call(index, |engine, world| engine.apply(world, Input::Begin(grant)))
            .expect("it was granted");
        true
    }

    /// Returns the worker that executes a work.
    pub(super) fn worker_of(&self, index: usize, work: WorkId) -> Option<&str> {
        let engine = &self.engines[index].engine;
        let runs = engine.phase(work).is_some_and(Phase::holds);
        engine.worker_name(engine.worker_of(work)?).filter(|_| runs)
    }

    /// Returns the worker at which something is reserved for an engine.
    pub(super) fn reserved_at(&self, index: usize) -> Option<&str> {
        let client = self.engines[index].engine.client();
        let at = self.tree.workers().reservations.get(&client)?;
        Some(self.tree.workers().name(*at))
    }

    pub(super) fn explain(&self, index: usize, work: WorkId) -> Vec<Reason> {
        self.engines[index].engine.explain(&self.tree, work)
    }

    pub(super) fn never(&mut self, wants: &Wants) -> Vec<WorkerKind> {
        self.tree.never_placed(&wants.cost, &wants.on)
    }

    /// Returns for how many workers there is memory.
    pub(super) fn rows(&self) -> usize {
        self.tree.workers().workers.len()
    }

    /// Returns the works of an engine in a phase that `fits`.
    pub(super) fn works(&self, index: usize, fits: impl Fn(Phase) -> bool) -> Vec<WorkId> {
        let engine = &self.engines[index].engine;
        engine.works().filter(|work| engine.phase(*work).is_some_and(&fits)).collect()
    }

    /// Returns all attempts under way, with their workers.
    pub(super) fn running(&self) -> Vec<(usize, WorkId, String)> {
        let of = |index: usize| {
            let works = self.works(index, Phase::holds).into_iter();
            works.map(move |work| {
                let at = self.worker_of(index, work).expect("it runs");
                (index, work, at.to_owned())
            })
        };
        (0..self.engines.len()).flat_map(of).collect()
    }
}
