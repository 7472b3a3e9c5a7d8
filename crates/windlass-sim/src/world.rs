//! A random world: several engines on one capacity tree, generated from a seed.
//!
//! In the first phase faults are injected: graphs grow while they run, attempts fail, are cancelled, lost
//! or reported late, limits change, time jumps, wake-ups are delayed, engines die and are rebuilt from
//! stored facts. In the second phase the faults stop, and every work must end. After every step the
//! invariants are checked, and a shadow of each engine, which sees only its facts in the stored form,
//! must have the same digest. When an engine grants nothing, no queued work may fit.

use std::collections::VecDeque;

use windlass_core::{
    CapacityTree, ClientId, Engine, Fact, Input, Phase, Random, Rejected, Timestamp, WorkId,
    WorkState, World,
};

use crate::report::Report;

mod attempt;
mod calm;
mod clock;
mod explained;
mod fault;
mod invariant;
mod shadow;
mod side;
mod submission;
mod tally;

use shadow::Shadow;
use side::{Side, amounts, tree};
use tally::{fact_name, phase_name};

/// Simulates the world of `seed` and returns how often each case occurred.
///
/// # Panics
///
/// Panics if an invariant is broken, a replay differs, or a work never ends. The last steps before that,
/// and the command that repeats them, are printed.
#[must_use]
pub fn simulate(seed: u64) -> Report {
    let mut world = RandomWorld::new(seed);
    for _ in 0..STEPS {
        world.disturb();
        world.verify();
        if world.random.one_in(3) {
            world.verify_reasons();
        }
    }
    world.calm_down();
    std::mem::take(&mut world.report)
}

const STEPS: usize = 200;
/// How many of the latest steps are printed when an invariant is broken.
const REMEMBERED: usize = 30;

struct RandomWorld {
    seed: u64,
    random: Random,
    now: Timestamp,
    capacity: CapacityTree,
    sides: Vec<Side>,
    /// The wake-ups that have not been delivered yet.
    wakes: Vec<ClientId>,
    report: Report,
    log: VecDeque<String>,
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
            0..22 => self.submit(side),
            22..25 => self.add_dependency(side),
            25..45 => self.take(side),
            45..58 => self.steer(side),
            58..69 => self.finish(side),
            69..72 => self.turn_gate(side),
            72..74 => self.reopen(side),
            74..77 => self.cancel(side),
            77..80 => self.forget(side),
            80..83 => self.report_late(side),
            83..90 => self.let_time_pass(),
            90..92 => self.change_team_limit(side),
            92..94 => self.change_root_limit(),
            94..95 => self.take_over(side),
            95..97 => self.pause(side),
            _ => self.deliver(),
        }
    }

    fn any_work(&mut self, side: usize) -> Option<WorkId> {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        (!works.is_empty()).then(|| *self.random.pick(&works))
    }

    fn phase(&self, side: usize, work: WorkId) -> Phase {
        self.sides[side].engine.phase(work).expect("it is one of its works")
    }

    fn state(&self, side: usize, work: WorkId) -> WorkState {
        self.phase(side, work).state()
    }

    fn apply(&mut self, side: usize, input: Input) {
        self.try_apply(side, input).unwrap_or_else(|error| panic!("{input:?}: {error}"));
    }

    /// Applies an input that the engine must refuse, and checks that it changes nothing.
    fn refused(&mut self, side: usize, input: Input) -> Rejected {
        self.apply(side, Input::Tick);
        let before = self.sides[side].engine.digest();
        let refused = self.try_apply(side, input).expect_err("the input is not allowed now");
        assert_eq!(self.sides[side].engine.digest(), before, "what is refused changes nothing");
        refused
    }

    fn try_apply(&mut self, side: usize, input: Input) -> Result<(), Rejected> {
        self.log_step(format!("{side}: {input:?} at {}", self.now));
        self.call(side, |engine, world| engine.apply(world, input))
    }

    fn call<T>(&mut self, side: usize, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let (result, facts) = self.collect(side, call);
        self.follow(side, &facts);
        result
    }

    /// Calls an engine, and counts its facts and transitions.
    fn collect<T>(
        &mut self,
        side: usize,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> (T, Vec<Fact>) {
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
        let before = side.engine.metrics();
        let result = call(&mut side.engine, &mut world);
        // A work may have become ready or released resources, so there may be a grant.
        side.look |= !transitions.is_empty();
        let after = side.engine.metrics();
        self.report.add("passed over", after.passed_over - before.passed_over);
        self.report.add("reserved", after.reservations - before.reservations);
        side.note_gates(&facts);
        side.clocks.note(&transitions);
        side.called = self.now;
        facts.iter().for_each(|fact| self.report.count(fact_name(fact)));
        transitions.iter().for_each(|change| self.report.count(phase_name(change.to)));
        (result, facts)
    }

    /// Replays the facts on the shadow of an engine.
    fn follow(&mut self, side: usize, facts: &[Fact]) {
        let Side { engine, shadow, .. } = &mut self.sides[side];
        shadow.follow(facts);
        if !facts.is_empty() {
            assert_eq!(engine.digest(), shadow.engine.digest(), "a replay has the same digest");
        }
    }

    fn log_step(&mut self, what: String) {
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
