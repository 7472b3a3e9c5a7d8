//! Kills at named fault points.

use std::collections::BTreeMap;

use windlass_server::fault::Point;

use crate::flow::Names;
use crate::killed_run::KilledRun;
use crate::random::{Random, rounds};

/// When a fault point can be reached.
#[derive(PartialEq, Eq)]
enum Chance {
    /// When the run is submitted.
    Begin,
    /// When the run is resumed.
    Resume,
    /// While the run is under way.
    Under,
    /// While the run is under way, if its steps hold names.
    Named,
    /// While the run is under way, if no step holds names.
    Nameless,
    /// At the end of the run.
    End,
}

fn chance(point: Point) -> Chance {
    match point {
        Point::BeforeSubmit | Point::AfterSubmit => Chance::Begin,
        Point::AfterTakeOver | Point::AfterLeftovers => Chance::Resume,
        Point::BeforeStepDown | Point::AfterStepDown => Chance::End,
        Point::AfterClearing => Chance::Named,
        Point::BeforeWalWrite | Point::AfterWalWrite => Chance::Nameless,
        _ => Chance::Under,
    }
}

/// Returns how often to kill at a point.
fn wanted(point: Point) -> usize {
    match point {
        // A run reaches them once, so each kill needs a run of its own.
        Point::BeforeSubmit | Point::AfterSubmit | Point::AfterStepDown => rounds(1, 50),
        _ => rounds(2, 200),
    }
}

/// The kills that are still to be done.
struct Quota {
    open: BTreeMap<Point, usize>,
    kills: BTreeMap<&'static str, usize>,
    digests: usize,
}

impl Quota {
    fn new() -> Self {
        let open = Point::OF_RUN.into_iter().map(|point| (point, wanted(point))).collect();
        Self { open, kills: BTreeMap::new(), digests: 0 }
    }

    fn is_met(&self) -> bool {
        self.open.values().all(|times| *times == 0)
    }

    /// Chooses a point where kills are missing, if there is one.
    fn choose(&self, random: &mut Random, possible: impl Fn(Chance) -> bool) -> Option<Point> {
        let missing = self.open.iter().filter(|(_, times)| **times > 0);
        let points = missing.map(|(point, _)| *point).filter(|point| possible(chance(*point)));
        let points: Vec<_> = points.collect();
        let places = points.len() as u64;
        (places > 0).then(|| points[usize::try_from(random.below(places)).unwrap_or_default()])
    }

    /// Returns the points at which the next coordinator kills itself. Besides the chosen one, which it may
    /// not reach, these are points that it will reach, so that it never runs to the end.
    fn faults(&self, random: &mut Random, chosen: Option<Point>) -> Vec<(Point, u64)> {
        let end = self.choose(random, |chance| chance == Chance::End);
        let end = end.unwrap_or(Point::BeforeStepDown);
        let time = 1 + random.below(12);
        match chosen {
            None => vec![(end, 1)],
            Some(Point::AfterClearing) => {
                vec![(Point::AfterClearing, 1), (Point::AfterExit, time), (end, 1)]
            }
            Some(point) => match chance(point) {
                Chance::Under | Chance::Named | Chance::Nameless => vec![(point, time), (end, 1)],
                Chance::Begin | Chance::Resume | Chance::End => vec![(point, 1)],
            },
        }
    }

    fn count(&mut self, point: Point) {
        let open = self.open.get_mut(&point).expect("it is one of them");
        *open = open.saturating_sub(1);
        *self.kills.entry(point.name()).or_default() += 1;
    }
}

/// Kills one run again and again until it is complete, and a few times more.
fn one_run(random: &mut Random, quota: &mut Quota) {
    let names = Names::random(random);
    let mut run = KilledRun::new(names);
    let mut after_the_end = random.below(20);
    loop {
        let (submitted, complete) = (run.is_submitted(), run.is_complete());
        if quota.is_met() || run.is_over() || complete && after_the_end == 0 {
            break;
        }
        after_the_end -= u64::from(complete);
        let begins = quota.choose(random, |chance| chance == Chance::Begin && !submitted);
        let chosen = begins.or_else(|| {
            quota.choose(random, |chance| match chance {
                Chance::Resume => submitted,
                Chance::Under => !complete,
                Chance::Named => !complete && names == Names::With,
                Chance::Nameless => !complete && names == Names::Without,
                Chance::Begin | Chance::End => false,
            })
        });
        if let Some(killed_at) = run.kill_at(&quota.faults(random, chosen)) {
            quota.count(killed_at);
        }
    }
    quota.digests += run.digests;
    run.end();
}

#[test]
fn a_run_that_is_killed_at_any_fault_point_can_be_resumed() {
    let mut random = Random::from_env();
    let mut quota = Quota::new();
    let mut runs = 0;
    while !quota.is_met() {
        one_run(&mut random, &mut quota);
        runs += 1;
    }
    let Quota { kills, digests, .. } = quota;
    println!("{runs} runs, {digests} digests compared, kills: {kills:?}");
}
