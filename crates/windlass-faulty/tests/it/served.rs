//! A submitted run whose scheduler and worker are killed again and again.
//!
//! A scheduler that is killed interrupts nothing: no attempt of any step may be lost. A worker that is killed
//! loses what it executes, which is tried again.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use windlass_server::fault::{FAULT_VARIABLE, Point};

use crate::flow::Names;
use crate::random::{Random, rounds};
use crate::served_run::{Role, ServedRun};

/// A lease that no process of these tests outlives.
const LEASE: &str = "60s";

#[test]
fn a_run_that_is_paused_while_the_service_is_killed_starts_nothing_and_ends_well() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random), LEASE);
        let steps: Vec<_> = run.steps();
        let mut paused = Vec::new();
        for _ in 0..20.min(wanted - kills) {
            if run.is_over() {
                break;
            }
            let step = &steps[usize::try_from(random.below(steps.len() as u64)).expect("small")];
            let target = match random.below(3) {
                0 => run.id().to_owned(),
                _ => format!("{}/{step}", run.id()),
            };
            // A step that runs or has ended cannot be paused.
            if run
                .command(&["pause", &target])
                .stderr(Stdio::null())
                .status()
                .expect("it runs")
                .success()
            {
                paused.push(target);
            }
            kills += kill_at_random(&mut run, &mut random, &Role::ONE_OF_EACH, 1);
            if random.below(2) == 0 {
                run.unpause(&mut paused);
            }
        }
        run.unpause(&mut paused);
        // Its replays fail if an attempt has begun in a pause.
        run.check_end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of scheduler or worker");
}

#[test]
fn a_run_whose_hand_over_is_killed_at_any_point_is_handed_over_by_the_next_one() {
    let mut random = Random::from_env();
    let points = [
        Point::AfterTakeOver,
        Point::AfterLeftovers,
        Point::BeforeCommit,
        Point::AfterCommit,
        Point::AfterStepDown,
    ];
    for _ in 0..rounds(1, 20) {
        let mut run =
            ServedRun::begun_in_the_foreground(Names::random(&mut random), LEASE, &mut random);
        let id = run.id().to_owned();
        // So that the verb does not start a scheduler.
        run.start(&Role::ONE_OF_EACH);
        for point in points {
            let mut resume = run.command(&["resume", "--detach", &id]);
            let status = resume.env(FAULT_VARIABLE, format!("{}:1", point.name())).status();
            assert_eq!(status.expect("it runs").signal(), Some(9), "{point:?} was not reached");
        }
        let resumed = run.command(&["resume", "--detach", &id]).status().expect("it runs");
        assert!(resumed.success());
        run.check_end();
    }
}

/// Kills processes of `roles` at random moments until the run is over. Returns how many were killed.
fn kill_at_random(run: &mut ServedRun, random: &mut Random, roles: &[Role], most: usize) -> usize {
    let mut kills = 0;
    while !run.is_over() && kills < most {
        run.start(&Role::ONE_OF_EACH);
        thread::sleep(Duration::from_micros(20_000 + random.below(150_000)));
        let role = roles[usize::try_from(random.below(roles.len() as u64)).expect("it is small")];
        run.kill(role);
        kills += 1;
    }
    kills
}

#[test]
fn a_scheduler_that_is_killed_interrupts_no_attempt() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random), LEASE);
        kills += kill_at_random(&mut run, &mut random, &[Role::Scheduler], wanted - kills);
        run.check_end();
        assert_eq!(run.interrupted(), 0, "every attempt has gone on");
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of the scheduler");
}

#[test]
fn a_service_that_is_killed_loses_nothing_and_repeats_only_what_was_interrupted() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random), LEASE);
        // A worker that is killed all the time would never end a step.
        kills += kill_at_random(&mut run, &mut random, &Role::ONE_OF_EACH, 40.min(wanted - kills));
        run.check_end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of scheduler or worker");
}
