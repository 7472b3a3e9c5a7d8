//! Works, and whole engines, that a user has paused.

use super::*;
use crate::reason::Reason;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

impl Bench {
    fn replayed(&mut self, submissions: &[Extras]) -> Engine {
        let mut other = Bench::new(1);
        let cost = other.engine.cost(&other.capacity, &ResourceCost::new()).expect("a slot");
        for extras in submissions {
            other.engine.stage(Submission { extras: Some(extras), ..Submission::of(cost) });
        }
        for fact in &self.facts {
            other.call(|engine, world| engine.evolve(world, fact));
        }
        other.now = self.now;
        other.apply(Input::Tick).expect("time passes");
        other.engine
    }
}

#[test]
fn a_paused_work_lets_others_pass_and_keeps_its_place() {
    let mut bench = Bench::new(1);
    let works = [(); 3].map(|()| bench.add(&[], 0));
    bench.apply(Input::Pause(works[0])).expect("it waits");
    assert_eq!(bench.engine.phase(works[0]), Some(Phase::Paused));
    assert_eq!(bench.reasons(works[0]), [Reason::Paused]);
    let second = bench.start();
    assert_eq!(second.work, works[1]);
    bench.apply(Input::Unpause(works[0])).expect("it is paused");
    bench.finish(second, Outcome::Success).expect("it runs");
    assert_eq!(bench.start().work, works[0], "before the third, as it was");
}

#[test]
fn what_is_paused_leaves_nothing_reserved() {
    let mut bench = Bench::new(2);
    let two = ResourceCost::new().with(SLOTS, Amount::from(2));
    bench.add(&[], 0);
    let first = bench.start();
    let cost = bench.engine.cost(&bench.capacity, &two).expect("there are two");
    let wide = bench.call(|engine, world| engine.submit(world, Submission::of(cost)));
    let wide = wide.expect("it follows nothing");
    let small = bench.add(&[], 0);
    assert_eq!(bench.take(), None, "what is free is reserved for the wide one");
    bench.apply(Input::Pause(wide)).expect("it waits");
    assert_eq!(bench.start().work, small);
    bench.apply(Input::Unpause(wide)).expect("it is paused");
    assert_eq!(bench.take(), None, "{first:?} runs");
}

#[test]
fn every_way_into_the_queue_is_closed_while_everything_is_paused() {
    let mut bench = Bench::new(3);
    bench.add(&[], 0);
    let running = bench.start();
    let granted = bench.add(&[], 0);
    let grant = bench.take().expect("there is room");
    let gated = bench.add_with(&[], Extras { gated: true, ..Extras::default() });
    let after = bench.add(&[running.work], 0);
    bench.apply(Input::PauseAll).expect("it can be");
    let late = bench.add(&[], 0);
    assert_eq!(
        bench.apply(Input::Begin(grant)),
        Err(Rejected::Stale { work: granted, attempt: 1 })
    );
    bench.apply(Input::Open(gated)).expect("its gate is shut");
    bench.finish(running, Outcome::Success).expect("what runs goes on");
    let all = [granted, gated, after, late];
    for work in all {
        assert_eq!(bench.engine.phase(work), Some(Phase::Paused), "work {work}");
        assert_eq!(bench.reasons(work), [Reason::AllPaused]);
    }
    assert_eq!((bench.take(), bench.engine.next_wakeup()), (None, None));
    bench.apply(Input::UnpauseAll).expect("it is paused");
    let next: Vec<_> = std::iter::from_fn(|| bench.take()).map(|grant| grant.work).collect();
    assert_eq!(next, [granted, late, gated], "in the order in which they would have been queued");
}

#[test]
fn a_pause_of_everything_and_one_of_a_work_are_independent() {
    let mut bench = Bench::new(2);
    let [one, other] = [(); 2].map(|()| bench.add(&[], 0));
    bench.apply(Input::Pause(one)).expect("it waits");
    bench.apply(Input::PauseAll).expect("it can be");
    assert_eq!(bench.reasons(one), [Reason::Paused, Reason::AllPaused]);
    bench.apply(Input::UnpauseAll).expect("it is paused");
    assert_eq!(bench.start().work, other);
    assert_eq!(bench.take(), None);
    let facts = bench.facts.len();
    for again in [Input::Pause(one), Input::UnpauseAll] {
        bench.apply(again).expect("it changes nothing");
    }
    assert_eq!(bench.facts.len(), facts, "what is so already is no fact");
    bench.apply(Input::Unpause(one)).expect("it is paused");
    assert_eq!(bench.start().work, one);
}

#[test]
fn a_pause_waits_for_the_end_of_an_attempt_and_of_a_delay() {
    for outcome in [Outcome::Interrupted, Outcome::Retry { delay: Duration::from_millis(5) }] {
        let mut bench = Bench::new(1);
        let work = bench.add(&[], 1);
        let first = bench.start();
        bench.apply(Input::Pause(work)).expect("it has not ended");
        assert_eq!(bench.engine.phase(work), Some(Phase::Running));
        bench.finish(first, outcome).expect("it runs");
        bench.now = at(5);
        assert_eq!(bench.take(), None);
        assert_eq!(bench.engine.phase(work), Some(Phase::Paused), "{outcome:?}");
        bench.apply(Input::Unpause(work)).expect("it is paused");
        assert_eq!(bench.take(), Some(Grant { work, attempt: 2 }));
    }
}

#[test]
fn deadlines_stand_still_while_everything_is_paused() {
    let deadline = |millis| Extras { deadline: Some(at(millis)), ..Extras::default() };
    let mut bench = Bench::new(1);
    let early = bench.add_with(&[], deadline(10));
    bench.now = at(4);
    bench.apply(Input::PauseAll).expect("it can be");
    assert_eq!(bench.engine.next_wakeup(), None);
    bench.now = at(100);
    let late = bench.add_with(&[], deadline(120));
    let missed = bench.add_with(&[], deadline(50));
    bench.now = at(1000);
    bench.apply(Input::Tick).expect("time passes");
    assert_eq!(bench.engine.phase(early), Some(Phase::Paused));
    assert_eq!(bench.engine.all_paused_for(bench.now), Duration::from_millis(996));
    bench.apply(Input::UnpauseAll).expect("it is paused");
    assert_eq!(bench.engine.phase(missed), Some(Phase::Failed), "it had passed before");
    assert_eq!(bench.engine.next_wakeup(), Some(at(1006)));
    bench.now = at(1006);
    bench.apply(Input::Tick).expect("time passes");
    assert_eq!(bench.engine.phase(early), Some(Phase::Failed));
    assert_eq!(bench.engine.next_wakeup(), Some(at(1020)), "{late} had 20 ms left");
    let replayed = bench.replayed(&[deadline(10), deadline(120), deadline(50)]);
    assert_eq!(replayed.digest(), bench.engine.digest());
}

#[test]
fn a_paused_work_can_be_cancelled_and_its_retry_is_not_paused() {
    let mut bench = Bench::new(1);
    let work = bench.add(&[], 0);
    bench.apply(Input::Pause(work)).expect("it waits");
    bench.apply(Input::Cancel(work)).expect("it waits");
    assert_eq!(bench.apply(Input::Pause(work)), Err(Rejected::Ended { work }));
    bench.apply(Input::Reopen(work)).expect("it was cancelled");
    assert_eq!(bench.start().work, work);
}

#[test]
fn a_halted_attempt_holds_its_slot_and_has_all_of_its_time() {
    let mut bench = Bench::new(1);
    let timeout = Some(Duration::from_millis(10));
    let work = bench.add_with(&[], Extras { timeout, ..Extras::default() });
    let other = bench.add(&[], 0);
    let grant = bench.start();
    bench.now = at(4);
    bench.apply(Input::Halt(grant)).expect("it runs");
    assert_eq!((bench.engine.phase(work), bench.engine.next_wakeup()), (Some(Phase::Halted), None));
    assert_eq!(bench.reasons(work), [Reason::Paused]);
    bench.now = at(1000);
    assert_eq!(bench.take(), None, "{other} waits for the slot");
    bench.apply(Input::Continue(grant)).expect("it was halted");
    assert_eq!(bench.engine.expires(work), Some(at(1006)));
    let facts = bench.facts.len();
    bench.apply(Input::Continue(grant)).expect("it changes nothing");
    assert_eq!(bench.facts.len(), facts);
    bench.apply(Input::Halt(grant)).expect("it runs");
    bench.apply(Input::Cancel(work)).expect("it has not ended");
    bench.finish(grant, Outcome::Success).expect("it is under way");
    assert_eq!(bench.engine.phase(work), Some(Phase::Cancelled));
    assert_eq!(bench.start().work, other);
    let replayed = bench.replayed(&[Extras { timeout, ..Extras::default() }, Extras::default()]);
    assert_eq!(replayed.digest(), bench.engine.digest());
}
