//! Engines that are restored from a base go on like the ones that it was taken from.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::{EdgeKind, Random};

/// What a test submits.
#[derive(Clone, Debug)]
struct Spec {
    after: Vec<Dependency>,
    priority: i64,
    retries: u32,
    cores: u32,
    extras: Extras,
}

/// Two benches: one has seen all facts, the other was restored, and is given the facts since.
struct Pair {
    precedence: Precedence,
    random: Random,
    all: Bench,
    restored: Bench,
    specs: BTreeMap<WorkId, Spec>,
    running: Vec<Grant>,
}

fn bench(precedence: Precedence) -> Bench {
    let mut bench = Bench::with_config(3, EngineConfig { precedence, ..EngineConfig::default() });
    bench
        .capacity
        .set_limits(CapacityTree::ROOT, &ResourceCost::new().with("cores", Amount::from(4)));
    bench
}

fn submit<T>(
    bench: &mut Bench,
    spec: &Spec,
    act: impl FnOnce(&mut Engine, &mut World<'_>, Submission<'_>) -> T,
) -> T {
    let cost = match spec.cores {
        0 => ResourceCost::new(),
        cores => ResourceCost::new().with("cores", Amount::from(cores)),
    };
    let cost = bench.engine.cost(&bench.capacity, &cost).expect("it fits");
    let Spec { after, priority, retries, extras, .. } = spec;
    let (priority, retries, extras) = (*priority, *retries, Some(extras));
    let submission = Submission { after, cost, priority, retries, extras };
    let mut wakes = Vec::new();
    let mut world = World {
        now: bench.now,
        capacity: &mut bench.capacity,
        facts: Some(&mut bench.facts),
        transitions: Some(&mut bench.transitions),
        wakes: &mut wakes,
    };
    act(&mut bench.engine, &mut world, submission)
}

impl Pair {
    fn new(seed: u64, precedence: Precedence) -> Self {
        let (specs, running) = (BTreeMap::new(), Vec::new());
        let (all, restored) = (bench(precedence), bench(precedence));
        Self { precedence, random: Random::new(seed), all, restored, specs, running }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.number() % limit.max(1) as u64).expect("it is below the limit")
    }

    /// Restores the second engine from the first, or from itself.
    fn restore(&mut self) {
        let base = self.restored.engine.base().expect("no work has a family");
        assert_eq!(Some(&base), self.all.engine.base().as_ref(), "both have the same base");
        let mut fresh = bench(self.precedence);
        fresh.now = self.all.now;
        for work in &base.works {
            let spec = &self.specs[&work.work];
            submit(&mut fresh, spec, |engine, _, submission| engine.stage(submission));
        }
        fresh.call(|engine, world| engine.restore(world, &base));
        self.restored = fresh;
        self.check();
    }

    /// Has the restored engine follow the other one.
    fn check(&mut self) {
        for fact in std::mem::take(&mut self.all.facts) {
            if let Happening::Submitted { work } | Happening::Replaced { work } = fact.what {
                let spec = self.specs[&work].clone();
                submit(&mut self.restored, &spec, |engine, _, submission| engine.stage(submission));
            }
            self.restored.call(|engine, world| engine.evolve(world, &fact));
        }
        self.restored.now = self.all.now;
        self.restored.apply(Input::Tick).expect("time passes");
        assert_eq!(self.all.engine.digest(), self.restored.engine.digest());
        // A grant is no fact. A base does not know in which order edges out of a work were added.
        let by_work = self.precedence == Precedence::Submitted;
        let taken = |bench: &mut Bench| {
            let mut taken = std::mem::take(&mut bench.transitions);
            taken.retain(|change| change.to != Phase::Granted);
            taken.sort_by_key(|change| by_work.then_some(change.work));
            taken
        };
        assert_eq!(taken(&mut self.all), taken(&mut self.restored), "the same follows");
    }

    fn submit(&mut self) {
        let spec = self.spec();
        let submitted = submit(&mut self.all, &spec, |engine, world, submission| {
            engine.submit(world, submission)
        });
        self.specs.insert(submitted.expect("what it follows is known"), spec);
    }

    fn replace(&mut self, work: WorkId) {
        // What it follows and its deadline stay.
        let Spec { after, extras: Extras { deadline, .. }, .. } = self.specs[&work].clone();
        let spec = self.spec();
        let spec = Spec { after, extras: Extras { deadline, ..spec.extras }, ..spec };
        let replaced = submit(&mut self.all, &spec, |engine, world, submission| {
            engine.replace(world, work, submission)
        });
        let has_begun = self.all.engine.attempts(work).is_some_and(|attempts| attempts > 0);
        assert_eq!(replaced.is_err(), has_begun, "only what has not begun can be replaced");
        if !has_begun {
            self.specs.insert(work, spec);
        }
    }

    /// Adds and removes dependencies of a work, on earlier ones: there is no base of others.
    fn change_dependencies(&mut self, work: WorkId) {
        let known: Vec<_> = self.all.engine.works().filter(|known| *known < work).collect();
        let any = self.below(known.len());
        if let Some(&other) = known.get(any) {
            let on = Dependency { work: other, kind: EdgeKind::Success };
            _ = self.all.call(|engine, world| engine.add_dependency(world, work, on));
        }
        let sources: Vec<_> = self.all.engine.dependencies(work).collect();
        let any = self.below(sources.len());
        if let Some(source) = sources.get(any) {
            let on = source.work;
            _ = self.all.call(|engine, world| engine.remove_dependency(world, work, on));
        }
    }

    fn spec(&mut self) -> Spec {
        let known: Vec<_> = self.all.engine.works().collect();
        let kinds = [EdgeKind::Success, EdgeKind::Done, EdgeKind::Failed];
        let mut after = Vec::new();
        for _ in 0..self.below(3).min(known.len()) {
            let (work, kind) = (known[self.below(known.len())], kinds[self.below(3)]);
            after.push(Dependency { work, kind });
        }
        let timeout = (self.below(4) == 0).then(|| Duration::from_secs(3));
        let deadline = (self.below(6) == 0).then(|| self.all.now.after(Duration::from_secs(9)));
        let gated = self.below(6) == 0;
        let extras = Extras { timeout, deadline, gated, ..Extras::default() };
        let (priority, retries) = (self.below(2) as i64, self.below(3) as u32);
        Spec { after, priority, retries, cores: self.below(3) as u32, extras }
    }

    fn step(&mut self) {
        let known: Vec<_> = self.all.engine.works().collect();
        let any = self.below(known.len());
        let any = known.get(any).copied();
        match (self.below(15), any) {
            (0..=2, _) => self.submit(),
            (3..=5, _) => {
                if let Some(grant) = self.all.take() {
                    self.all.apply(Input::Begin(grant)).expect("it was granted just now");
                    self.running.push(grant);
                }
            }
            (6 | 7, _) if !self.running.is_empty() => {
                let place = self.below(self.running.len());
                let grant = self.running.swap_remove(place);
                let outcome = match self.below(4) {
                    0 => Outcome::Failed,
                    1 => Outcome::Interrupted,
                    _ => Outcome::Success,
                };
                let _ = self.all.finish(grant, outcome);
            }
            (8, Some(work)) => _ = self.all.apply(Input::Forget(work)),
            (9, Some(work)) => _ = self.all.apply(Input::Open(work)),
            (10, Some(work)) => {
                let input = match self.below(7) {
                    0 => Input::Cancel(work),
                    1 => Input::Pause(work),
                    2 => Input::Unpause(work),
                    3 => Input::PauseAll,
                    4 => Input::UnpauseAll,
                    _ => Input::Reopen(work),
                };
                let _ = self.all.apply(input);
            }
            (11, Some(work)) => self.replace(work),
            (13, Some(work)) if self.precedence == Precedence::Submitted => {
                self.change_dependencies(work);
            }
            (12, Some(work)) => {
                let before = self.below(known.len() + 1);
                let before = known.get(before).copied();
                self.all.apply(Input::Move { work, before }).expect("both are known");
            }
            _ => {
                let pause = Duration::from_millis(self.random.number() % 900);
                self.all.now = self.all.now.after(pause);
                self.all.apply(Input::Tick).expect("time passes");
            }
        }
        self.check();
    }
}

#[test]
fn an_engine_that_was_restored_goes_on_like_the_one_that_its_base_was_taken_from() {
    let mut forgotten = 0;
    for seed in 0..40 {
        let precedence = [Precedence::Ready, Precedence::Submitted][(seed % 2) as usize];
        let mut pair = Pair::new(seed, precedence);
        for step in 0..200 {
            pair.step();
            if step % 17 == 0 {
                pair.restore();
            }
        }
        forgotten += pair.all.engine.metrics().forgotten;
    }
    assert!(forgotten > 100, "{forgotten} works were forgotten");
}

#[test]
fn a_base_does_not_grow_with_the_works_that_were_forgotten() {
    let mut bench = Bench::new(1);
    for _ in 0..2000 {
        bench.add(&[], 0);
        let grant = bench.start();
        bench.finish(grant, Outcome::Success).expect("it runs");
        bench.apply(Input::Forget(grant.work)).expect("it has ended");
    }
    let last = bench.add(&[], 0);
    let base = bench.engine.base().expect("no work has a family");
    assert_eq!((base.submitted, base.works.len()), (2001, 1));
    assert_eq!(base.works[0].work, last);
}
