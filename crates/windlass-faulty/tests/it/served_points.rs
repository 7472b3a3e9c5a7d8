//! A submitted run whose scheduler, worker and guardian die at named fault points.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use windlass_server::fault::Point;

use crate::flow::Names;
use crate::random::{Random, rounds};
use crate::served_run::{Role, ServedRun};

/// A lease that has several heartbeats within a test.
const LEASE: &str = "2s";
/// How long a process may run at first until it is killed, because it may not reach its point, or has none. It
/// grows while processes do not reach their points, as on a busy machine.
const FIRST: Duration = Duration::from_millis(600);
/// How long a guardian may take to end, after its worker was killed.
const GUARDIAN: Duration = Duration::from_secs(10);

/// Returns which process reaches a point.
fn role(point: Point) -> Role {
    if Point::OF_SCHEDULER.contains(&point) { Role::Scheduler } else { Role::Worker }
}

/// Returns the points that a service reaches while it leads a run.
fn points() -> impl Iterator<Item = Point> {
    let of_attempts = [Point::BeforeSpawn, Point::AfterSpawn, Point::AfterExit];
    let all = Point::OF_SCHEDULER.into_iter().chain(Point::OF_WORKER).chain(of_attempts);
    // Those have a test of their own.
    all.filter(|point| !matches!(point, Point::BeforeGiveUp | Point::AfterGiveUp))
}

/// Returns how often a point is reached before the process dies there.
fn times(point: Point, random: &mut Random) -> u64 {
    match point {
        Point::AfterLead
        | Point::AfterEarlierLives
        | Point::BeforeLife
        | Point::AfterLife
        | Point::AfterGuardian
        | Point::BeforeBeat
        | Point::AfterBeat
        | Point::GuardianBeforeKill => 1,
        _ => 1 + random.below(4),
    }
}

/// The kills that are still to be done.
struct Quota(BTreeMap<Point, usize>);

impl Quota {
    fn is_met(&self) -> bool {
        self.0.values().all(|times| *times == 0)
    }

    /// Chooses a point of a role where kills are missing. Every fourth process has none, so that the run
    /// gets on.
    fn choose(&self, of: Role, random: &mut Random) -> Option<Point> {
        let missing = self.0.iter().filter(|(point, times)| **times > 0 && role(**point) == of);
        let points: Vec<_> = missing.map(|(point, _)| *point).collect();
        let chosen = random.below(points.len().max(1) as u64);
        let chosen = points.get(usize::try_from(chosen).expect("it is small")).copied();
        chosen.filter(|_| random.below(4) > 0)
    }

    fn count(&mut self, point: Option<Point>) {
        if let Some(times) = point.and_then(|point| self.0.get_mut(&point)) {
            *times = times.saturating_sub(1);
        }
    }
}

/// A process that may die at a point.
struct Doomed {
    point: Option<Point>,
    since: Instant,
}

/// Kills scheduler and worker of one run at points, until it is over or all was done.
fn one_run(random: &mut Random, quota: &mut Quota) -> usize {
    let mut run = ServedRun::submit(Names::random(random), LEASE);
    let mut doomed: BTreeMap<Role, Doomed> = BTreeMap::new();
    let (mut kills, mut longest) = (0, FIRST);
    while !run.is_over() && !quota.is_met() {
        for role in Role::ONE_OF_EACH {
            if let Some(status) = run.take_ended(role) {
                assert!(!status.success() && status.code().is_none(), "{status}\n{}", run.said());
                quota.count(run.reached(role));
                (kills, longest) = (kills + 1, FIRST);
            }
            if !run.runs(role) {
                let point = quota.choose(role, random);
                let fault = |point: Point| format!("{}:{}", point.name(), times(point, random));
                run.start_with(role, &point.map_or(String::new(), fault));
                doomed.insert(role, Doomed { point, since: Instant::now() });
            }
            let Doomed { point, since } = &doomed[&role];
            if since.elapsed() > longest {
                run.kill(role);
                longest = longest.mul_f64(1.2);
                if *point == Some(Point::GuardianBeforeKill) {
                    quota.count(await_guardian(&run));
                }
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    run.check_end();
    kills
}

/// Waits until the guardian of a killed worker has reached its point.
fn await_guardian(run: &ServedRun) -> Option<Point> {
    let began = Instant::now();
    while run.reached(Role::Worker).is_none() && began.elapsed() < GUARDIAN {
        thread::sleep(Duration::from_millis(5));
    }
    run.reached(Role::Worker)
}

#[test]
fn a_service_that_is_killed_at_any_fault_point_loses_nothing() {
    let mut random = Random::from_env();
    let wanted = rounds(1, 100);
    let mut quota = Quota(points().map(|point| (point, wanted)).collect());
    let (mut runs, mut kills) = (0, 0);
    while !quota.is_met() {
        kills += one_run(&mut random, &mut quota);
        runs += 1;
    }
    println!("{runs} runs, {kills} kills at fault points");
}

/// Waits until a process has died.
fn await_end(run: &mut ServedRun, role: Role) {
    let began = Instant::now();
    while run.take_ended(role).is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it lives:\n{}", run.said());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_scheduler_that_dies_while_it_gives_up_a_dead_worker_is_followed_by_another() {
    let mut random = Random::from_env();
    for _ in 0..rounds(1, 50) {
        let mut run = ServedRun::submit(Names::random(&mut random), "1s");
        run.start(&Role::ONE_OF_EACH);
        let began = Instant::now();
        while !run.said().contains("takes steps") {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not begin");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(random.below(200)));
        run.kill(Role::Worker);
        for point in [Point::BeforeGiveUp, Point::AfterGiveUp] {
            run.kill(Role::Scheduler);
            run.start_with(Role::Scheduler, &format!("{}:1", point.name()));
            await_end(&mut run, Role::Scheduler);
            assert_eq!(run.reached(Role::Scheduler), Some(point));
            run.start(&[Role::Scheduler]);
        }
        run.start(&[Role::OtherWorker]);
        run.check_end();
    }
}

/// Waits until a process has reached the point at which it is suspended.
fn await_suspension(run: &ServedRun, role: Role, point: Point) {
    let began = Instant::now();
    while run.reached(role) != Some(point) {
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on:\n{}", run.said());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_scheduler_that_is_suspended_in_the_middle_of_an_append_makes_others_wait_and_loses_nothing() {
    let mut random = Random::from_env();
    for _ in 0..rounds(1, 200) {
        let mut run = ServedRun::submit(Names::random(&mut random), LEASE);
        run.start(&[Role::Worker]);
        let point = Point::BeforeRound;
        let faults = format!("{}:{}:stop", point.name(), 1 + random.below(20));
        run.start_with(Role::Scheduler, &faults);
        await_suspension(&run, Role::Scheduler, point);
        run.start(&[Role::Standby]);
        thread::sleep(Duration::from_secs(3));
        run.signal(Role::Scheduler, Signal::CONT);
        run.check_end();
    }
}

#[test]
fn a_worker_that_is_suspended_just_before_a_start_starts_nothing_when_its_lease_is_over() {
    let mut random = Random::from_env();
    for _ in 0..rounds(1, 30) {
        let mut run = ServedRun::submit(Names::random(&mut random), "1s");
        run.start(&[Role::Scheduler]);
        let point = Point::BeforeSpawn;
        run.start_with(Role::Worker, &format!("{}:{}:stop", point.name(), 1 + random.below(12)));
        await_suspension(&run, Role::Worker, point);
        run.start(&[Role::OtherWorker]);
        thread::sleep(Duration::from_secs(4));
        // The attempt that it was about to start has run elsewhere by now, under a larger number.
        run.signal(Role::Worker, Signal::CONT);
        run.check_end();
    }
}
