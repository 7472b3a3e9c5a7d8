//! Kills at named points.

use std::collections::BTreeMap;

use windlass_server::fault::Point;

use crate::dice::{Dice, rounds};
use crate::flow::Names;
use crate::lives::Lives;

/// When a point can be reached at all.
#[derive(PartialEq, Eq)]
enum Chance {
    Begin,
    Resume,
    Under,
    /// Under way, where steps hold names.
    Named,
    /// Under way, where none does.
    Nameless,
    End,
}

fn chance(point: Point) -> Chance {
    match point {
        Point::BeforeSubmit | Point::AfterSubmit => Chance::Begin,
        Point::AfterTakeOver | Point::AfterLeftovers => Chance::Resume,
        Point::BeforeStepDown | Point::AfterStepDown => Chance::End,
        Point::AfterClearing => Chance::Named,
        Point::BeforeJotting | Point::AfterJotting => Chance::Nameless,
        _ => Chance::Under,
    }
}

/// How often to kill at a point.
fn wanted(point: Point) -> usize {
    match point {
        // Once for each run, which takes its time.
        Point::BeforeSubmit | Point::AfterSubmit | Point::AfterStepDown => rounds(1, 50),
        _ => rounds(2, 200),
    }
}

/// Kills that are still to be made.
struct Quota {
    open: BTreeMap<Point, usize>,
    kills: BTreeMap<&'static str, usize>,
    digests: usize,
}

impl Quota {
    fn new() -> Self {
        let open = Point::ALL.into_iter().map(|point| (point, wanted(point))).collect();
        Self { open, kills: BTreeMap::new(), digests: 0 }
    }

    fn is_met(&self) -> bool {
        self.open.values().all(|times| *times == 0)
    }

    /// Which of these points to die at: one where kills are missing, or else none.
    fn choose(&self, dice: &mut Dice, possible: impl Fn(Chance) -> bool) -> Option<Point> {
        let missing = self.open.iter().filter(|(_, times)| **times > 0);
        let points = missing.map(|(point, _)| *point).filter(|point| possible(chance(*point)));
        let points: Vec<_> = points.collect();
        let places = points.len() as u64;
        (places > 0).then(|| points[usize::try_from(dice.below(places)).unwrap_or_default()])
    }

    /// Where to die next. Besides at the point that was chosen, a life dies at others that come
    /// first: one that may not be reached comes with one that will be, and the end is not missed.
    fn deaths(&self, dice: &mut Dice, chosen: Option<Point>) -> Vec<(Point, u64)> {
        let end = self.choose(dice, |chance| chance == Chance::End);
        let end = end.unwrap_or(Point::BeforeStepDown);
        let time = 1 + dice.below(12);
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

/// One run, killed again and again until it is complete, and some more.
fn one_run(dice: &mut Dice, quota: &mut Quota) {
    let names = Names::thrown(dice);
    let mut lives = Lives::new(names);
    let mut after_the_end = dice.below(20);
    loop {
        let (submitted, complete) = (lives.is_submitted(), lives.is_complete());
        if quota.is_met() || lives.is_over() || complete && after_the_end == 0 {
            break;
        }
        after_the_end -= u64::from(complete);
        let begins = quota.choose(dice, |chance| chance == Chance::Begin && !submitted);
        let chosen = begins.or_else(|| {
            quota.choose(dice, |chance| match chance {
                Chance::Resume => submitted,
                Chance::Under => !complete,
                Chance::Named => !complete && names == Names::With,
                Chance::Nameless => !complete && names == Names::Without,
                Chance::Begin | Chance::End => false,
            })
        });
        if let Some(died_at) = lives.die_at(&quota.deaths(dice, chosen)) {
            quota.count(died_at);
        }
    }
    quota.digests += lives.digests;
    lives.end();
}

#[test]
fn a_run_that_is_killed_at_any_point_goes_on() {
    let mut dice = Dice::thrown();
    let mut quota = Quota::new();
    let mut runs = 0;
    while !quota.is_met() {
        one_run(&mut dice, &mut quota);
        runs += 1;
    }
    let Quota { kills, digests, .. } = quota;
    println!("{runs} runs, {digests} digests compared, kills: {kills:?}");
}
