//! Extreme times, and several timers due at once.

use super::*;
use crate::fact::Ending;

impl Bench {
    fn timed(&mut self, timeout: Option<Duration>, deadline: Option<Timestamp>) -> WorkId {
        self.add_with(&[], Extras { timeout, deadline, ..Extras::default() })
    }

    fn phase_at(&mut self, work: WorkId, at: Timestamp) -> Phase {
        self.now = at;
        self.apply(Input::Tick).expect("time passes");
        self.engine.phase(work).expect("it is known")
    }
}

fn stopping(why: StopReason) -> Phase {
    Phase::Cancelling { why, holds: true }
}

const MILLI: Timestamp = Timestamp::from_millis(1);

#[test]
fn a_timeout_of_nothing_is_over_at_once_and_one_without_end_never() {
    let absurd = [Duration::from_secs(1_000_000_000_000), Duration::from_nanos(u64::MAX)];
    for timeout in absurd.into_iter().chain([Duration::MAX]) {
        let mut bench = Bench::new(1);
        let work = bench.timed(Some(timeout), None);
        bench.now = MILLI;
        let grant = bench.start();
        assert_eq!(bench.engine.next_wakeup(), None, "{timeout:?} takes longer than there is time");
        bench.apply(Input::Suspend(grant)).expect("it runs");
        bench.apply(Input::ResumeRequested(grant)).expect("it waits");
        assert_eq!(bench.take(), Some(grant));
        let late = Timestamp::from_nanos(u64::MAX - 1);
        assert_eq!(bench.phase_at(work, late), Phase::Running, "{timeout:?}");
    }
    for (nanos, then) in [(0, MILLI), (1, Timestamp::from_nanos(1_000_001))] {
        let mut bench = Bench::new(1);
        let work = bench.timed(Some(Duration::from_nanos(nanos)), None);
        bench.now = MILLI;
        let _ = bench.start();
        assert_eq!(bench.engine.next_wakeup(), Some(then));
        assert_eq!(bench.phase_at(work, then), stopping(StopReason::Timeout));
        assert_eq!(bench.engine.next_wakeup(), None);
    }
}

#[test]
fn a_deadline_counts_before_a_timeout_of_the_same_instant() {
    let mut bench = Bench::new(1);
    let work = bench.timed(Some(Duration::from_millis(1)), Some(MILLI));
    let grant = bench.start();
    assert_eq!(bench.phase_at(work, MILLI), stopping(StopReason::Deadline));
    assert_eq!(bench.engine.ending(grant, Outcome::Success), Ok(Ending::Failed));
}

#[test]
fn a_deadline_counts_before_a_retry_of_the_same_instant() {
    let mut bench = Bench::new(1);
    let cost = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    let extras = Extras { deadline: Some(MILLI), ..Extras::default() };
    let submission = Submission { retries: 1, extras: Some(&extras), ..Submission::of(cost) };
    let submitted = bench.call(|engine, world| engine.submit(world, submission));
    let work = submitted.expect("nothing is wrong with it");
    let grant = bench.start();
    bench.finish(grant, Outcome::Retry { delay: Duration::from_millis(1) }).expect("it runs");
    assert_eq!(bench.engine.phase(work), Some(Phase::Delayed { due: MILLI }));
    assert_eq!(bench.phase_at(work, MILLI), Phase::Failed);
    assert_eq!(bench.engine.next_wakeup(), None);
}

#[test]
fn a_deadline_that_has_passed_fails_a_new_work_and_what_follows_it() {
    let mut bench = Bench::new(1);
    bench.now = MILLI;
    for deadline in [Timestamp::ZERO, MILLI] {
        let late = bench.timed(None, Some(deadline));
        assert_eq!(bench.engine.phase(late), Some(Phase::Failed));
        let follower = bench.add(&[late], 0);
        assert_eq!(bench.engine.phase(follower), Some(Phase::Blocked));
    }
    assert_eq!(bench.take(), None);
}

#[test]
fn the_last_possible_deadline_sets_no_wake_up() {
    let mut bench = Bench::new(1);
    let work = bench.timed(None, Some(Timestamp::MAX));
    assert_eq!(bench.engine.next_wakeup(), None);
    let late = Timestamp::from_nanos(u64::MAX - 1);
    assert_eq!(bench.phase_at(work, late), Phase::Ready);
}

#[test]
fn a_graver_reason_takes_the_place_of_another_and_no_lighter_one_does() {
    let mut bench = Bench::new(1);
    let deadline = Timestamp::from_millis(2);
    let work = bench.timed(Some(Duration::from_millis(1)), Some(deadline));
    let grant = bench.start();
    assert_eq!(bench.phase_at(work, MILLI), stopping(StopReason::Timeout));
    assert_eq!(bench.phase_at(work, deadline), stopping(StopReason::Deadline));
    bench.apply(Input::Cancel(work)).expect("it has not ended");
    assert_eq!(bench.engine.phase(work), Some(stopping(StopReason::Cancel)));
    bench.finish(grant, Outcome::Success).expect("it is under way");
    assert_eq!(bench.engine.phase(work), Some(Phase::Cancelled));
}

#[test]
fn how_an_attempt_would_end_is_how_it_ends_however_often_one_asks() {
    let mut bench = Bench::new(1);
    let policy = RetryPolicy::exponential(Duration::from_secs(60)).jitter();
    let extras = Extras { retry: Some(policy), ..Extras::default() };
    let cost = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    let submission =
        Submission { retries: u32::MAX, extras: Some(&extras), ..Submission::of(cost) };
    let work = bench.call(|engine, world| engine.submit(world, submission)).expect("alone");
    let mut seen = Vec::new();
    for _ in 0..20 {
        let grant = bench.start();
        let outcome = Outcome::Retry { delay: Duration::ZERO };
        let would = bench.engine.ending(grant, outcome).expect("it runs");
        assert_eq!(bench.engine.ending(grant, outcome), Ok(would), "asking changes nothing");
        bench.finish(grant, outcome).expect("it runs");
        let Some(Phase::Delayed { due }) = bench.engine.phase(work) else { panic!("delayed") };
        assert_eq!(would, Ending::Retry { due });
        seen.push(due.since(bench.now).as_nanos() >> seen.len());
        bench.now = due;
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 15, "each retry has a jitter of its own");
}
