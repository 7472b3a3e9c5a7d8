use std::time::Duration;

use super::*;
use crate::ageing::Ageing;
use crate::capacity::SLOTS;
use crate::fact::Transition;
use crate::input::{AddDependencyError, Begun, Extras, Outcome};
use crate::phase::{StopReason, WorkState};
use crate::rate::Rate;
use crate::retry::RetryPolicy;

mod bases;
mod changing;
mod families;
mod pauses;
mod reasons;
mod reopening;
mod sharing;
mod suspension;
mod times;

/// An engine on its own tree that collects all facts and transitions.
struct Bench {
    engine: Engine,
    capacity: CapacityTree,
    now: Timestamp,
    facts: Vec<Fact>,
    transitions: Vec<Transition>,
}

impl Bench {
    fn new(slots: u32) -> Self {
        Self::with_config(slots, EngineConfig::default())
    }

    fn with_config(slots: u32, config: EngineConfig) -> Self {
        let limits = ResourceCost::new().with(SLOTS, Amount::from(slots));
        let mut capacity = CapacityTree::new(&limits);
        let client = capacity.add_client(CapacityTree::ROOT);
        let engine = Engine::new(config, client);
        let (facts, transitions) = (Vec::new(), Vec::new());
        Self { engine, capacity, now: Timestamp::ZERO, facts, transitions }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: Some(&mut self.facts),
            transitions: Some(&mut self.transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut self.engine, &mut world);
        assert_eq!(wakes, [], "the tree has no other client");
        self.engine.check(&self.capacity);
        result
    }

    fn add(&mut self, after: &[WorkId], retries: u32) -> WorkId {
        let cost = self.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot");
        let after: Vec<_> = after.iter().map(|&work| Dependency::from(work)).collect();
        let submission = Submission { after: &after, retries, ..Submission::of(cost) };
        self.call(|engine, world| engine.submit(world, submission)).expect("known dependencies")
    }

    /// Adds a work that needs so much of `x`.
    fn add_that_needs(&mut self, amount: u32) -> (WorkId, CostId) {
        let needs = ResourceCost::new().with("x", amount);
        let cost = self.engine.cost(&self.capacity, &needs).expect("the limit is higher");
        let submitted = self.call(|engine, world| engine.submit(world, Submission::of(cost)));
        (submitted.expect("it depends on nothing"), cost)
    }

    fn add_after(&mut self, after: &[Dependency]) -> WorkId {
        self.add_with(after, Extras::default())
    }

    fn add_with(&mut self, after: &[Dependency], extras: Extras) -> WorkId {
        self.try_add(after, extras).expect("nothing is wrong with it")
    }

    fn try_add(&mut self, after: &[Dependency], extras: Extras) -> Result<WorkId, SubmissionError> {
        let cost = self.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot");
        let submission = Submission { after, extras: Some(&extras), ..Submission::of(cost) };
        self.call(|engine, world| engine.submit(world, submission))
    }

    fn depend(&mut self, work: WorkId, on: WorkId) -> Result<(), AddDependencyError> {
        self.call(|engine, world| engine.add_dependency(world, work, on.into()))
    }

    fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.call(|engine, world| engine.apply(world, input))
    }

    fn take(&mut self) -> Option<Grant> {
        self.call(Engine::take_next)
    }

    fn start(&mut self) -> Grant {
        let grant = self.take().expect("something is ready");
        self.apply(Input::Begin(grant)).expect("it was granted just now");
        grant
    }

    fn finish(&mut self, grant: Grant, outcome: Outcome) -> Result<(), Rejected> {
        self.apply(Input::Finished { grant, outcome })
    }
}

#[test]
fn a_million_descendants_are_blocked_without_recursion() {
    let mut bench = Bench::new(1);
    let cost = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    bench.call(|engine, world| {
        let mut after: Vec<Dependency> = Vec::new();
        for _ in 0..1_000_000 {
            let submission = Submission { after: &after, ..Submission::of(cost) };
            after = vec![engine.submit(world, submission).expect("a chain").into()];
        }
    });
    let grant = bench.start();
    bench.finish(grant, Outcome::Failed).expect("it runs");
    assert_eq!(bench.engine.metrics().count(WorkState::Blocked), 999_999);
}

#[test]
fn a_dependency_that_has_ended_counts_at_once() {
    let mut bench = Bench::new(2);
    let [good, bad] = [(); 2].map(|()| bench.add(&[], 0));
    let [first, second] = [(); 2].map(|()| bench.start());
    bench.finish(first, Outcome::Success).expect("it runs");
    bench.finish(second, Outcome::Failed).expect("it runs");
    let met = bench.add(&[good], 0);
    let lost = bench.add(&[good, bad], 0);
    assert_eq!(bench.engine.phase(met), Some(Phase::Ready));
    assert_eq!(bench.engine.phase(lost), Some(Phase::Blocked));
}

#[test]
fn a_late_result_changes_nothing() {
    let mut bench = Bench::new(1);
    let work = bench.add(&[], 1);
    let first = bench.start();
    bench.finish(first, Outcome::Interrupted).expect("it runs");
    let digest = bench.engine.digest();
    let late = Rejected::Stale { work, attempt: 1 };
    assert_eq!(bench.finish(first, Outcome::Success), Err(late.clone()));
    let second = bench.start();
    assert_eq!(bench.finish(first, Outcome::Success), Err(late), "while the next one runs");
    assert_ne!(bench.engine.digest(), digest, "only the new start counts");
    assert_eq!(bench.engine.retries_left(work), Some(1), "an interruption uses up no retry");
    bench.finish(second, Outcome::Success).expect("it runs");
}

#[test]
fn a_grant_that_was_cancelled_cannot_begin() {
    let mut bench = Bench::new(1);
    let work = bench.add(&[], 0);
    let grant = bench.take().expect("it is ready");
    bench.apply(Input::Cancel(work)).expect("it has not ended");
    assert_eq!(bench.apply(Input::Begin(grant)), Err(Rejected::Stale { work, attempt: 1 }));
    assert_eq!(bench.engine.phase(work), Some(Phase::Cancelled));
    assert_eq!(bench.apply(Input::Cancel(work)), Err(Rejected::Ended { work }));
}

#[test]
fn a_work_refused_outside_holds_nothing_and_keeps_its_place() {
    let mut bench = Bench::new(1);
    let [refused, other] = [(); 2].map(|()| bench.add(&[], 0));
    let grant = bench.take().expect("both are ready");
    assert_eq!(grant.work, refused);
    bench.apply(Input::Refuse(grant)).expect("it was granted");
    let running = bench.start();
    assert_eq!(running.work, other, "the only slot is free again");
    let third = bench.add(&[], 0);
    bench.apply(Input::Notify(refused)).expect("it was refused");
    assert_eq!(bench.apply(Input::Notify(third)), Err(Rejected::NotWaitingOutside { work: third }));
    bench.finish(running, Outcome::Success).expect("it runs");
    assert_eq!(bench.take().map(|grant| grant.work), Some(refused), "before the later one");
}

#[test]
fn an_unknown_dependency_is_refused_and_nothing_changes() {
    let mut bench = Bench::new(1);
    let work = WorkId::new(7).expect("not zero");
    let cost = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    let submission = Submission { after: &[work.into()], ..Submission::of(cost) };
    let result = bench.call(|engine, world| engine.submit(world, submission));
    assert_eq!(result, Err(SubmissionError::UnknownDependency { work }));
    assert_eq!((bench.facts.len(), bench.transitions.len()), (0, 0));
    assert_eq!(bench.add(&[], 0).get(), 1);
}

#[test]
fn time_does_not_go_back() {
    let mut bench = Bench::new(1);
    bench.now = Timestamp::from_millis(100);
    let work = bench.add(&[], 1);
    let grant = bench.start();
    bench.now = Timestamp::from_millis(40);
    let delay = Duration::from_millis(10);
    bench.finish(grant, Outcome::Retry { delay }).expect("it runs");
    let due = Timestamp::from_millis(110);
    assert_eq!(bench.engine.phase(work), Some(Phase::Delayed { due }));
    assert_eq!(bench.engine.next_wakeup(), Some(due));
    assert!(bench.facts.is_sorted_by_key(|fact| fact.at));
}

#[test]
fn a_cancel_during_a_delay_ends_it_and_its_timer() {
    let mut bench = Bench::new(1);
    let work = bench.add(&[], u32::MAX);
    let grant = bench.start();
    let delay = Duration::from_secs(315_360_000);
    bench.finish(grant, Outcome::Retry { delay }).expect("it runs");
    bench.apply(Input::Cancel(work)).expect("it waits");
    assert_eq!(bench.engine.next_wakeup(), None);
    assert!(bench.engine.is_done());
}

/// Moves the bench's engine to a tree with these limits, whose clock shows another time.
fn transfer(bench: &mut Bench, limits: &ResourceCost, there: Timestamp) -> Vec<WorkId> {
    let mut to = CapacityTree::new(limits);
    let client = to.add_client(CapacityTree::ROOT);
    assert_eq!(bench.engine.depart(&mut bench.capacity), []);
    bench.capacity.check();
    let arrival = Arrival { client, now: bench.now, there };
    let price = |work: WorkId| {
        ResourceCost::of([("cpu", if work.get() == 1 { 2 } else { 1u32 })]).expect("a name")
    };
    let impossible = bench.engine.arrive(&mut to, arrival, price);
    bench.capacity = to;
    bench.engine.check(&bench.capacity);
    impossible.into_iter().map(|(work, _)| work).collect()
}

#[test]
fn an_engine_that_moves_takes_along_what_is_under_way_and_the_order_of_its_line() {
    let mut bench = Bench::new(1);
    let works = [(); 4].map(|()| bench.add(&[], 0));
    let grant = bench.start();
    assert_eq!(bench.take(), None, "one slot");
    let cpus = ResourceCost::of([("cpu", 3)]).expect("a name");
    assert_eq!(transfer(&mut bench, &cpus, Timestamp::from_millis(7)), []);
    assert_eq!(bench.engine.queue_len(), 3);
    let next = bench.start();
    assert_eq!((next.work, bench.take()), (works[1], None), "three cpus are in use");
    bench.finish(grant, Outcome::Success).expect("it runs");
    assert_eq!([bench.start(), bench.start()].map(|grant| grant.work), works[2..]);
}

#[test]
fn an_engine_that_moves_tells_which_works_can_never_run_there() {
    let mut bench = Bench::new(1);
    let works = [(); 2].map(|()| bench.add(&[], 0));
    let one = ResourceCost::of([("cpu", 1)]).expect("a name");
    assert_eq!(transfer(&mut bench, &one, Timestamp::ZERO), works[..1]);
}

#[test]
fn an_engine_keeps_its_own_time_under_another_clock() {
    for there in [Timestamp::ZERO, Timestamp::from_millis(1_000_000)] {
        let mut bench = Bench::new(2);
        bench.now = Timestamp::from_millis(5000);
        let works = [(); 2].map(|()| bench.add(&[], 0));
        bench.apply(Input::Cancel(works[0])).expect("it waits");
        transfer(&mut bench, &ResourceCost::of([("cpu", 1)]).expect("a name"), there);
        let (amount, per) = (Amount::from(1), Duration::from_secs(1));
        let rate = Rate { amount, per, burst: amount };
        bench.capacity.set_rate(CapacityTree::ROOT, "cpu", rate, there).expect("it makes sense");
        let _ = bench.start();
        let cost = ResourceCost::of([("cpu", 1)]).expect("a name");
        let cost = bench.engine.cost(&bench.capacity, &cost).expect("it fits");
        bench.call(|engine, world| engine.submit(world, Submission::of(cost))).expect("it is fine");
        assert_eq!(bench.take(), None);
        assert_eq!(bench.engine.next_wakeup(), Some(Timestamp::from_millis(6000)));
        bench.now = Timestamp::from_millis(6000);
        assert!(bench.take().is_some());
    }
}

#[test]
fn the_first_in_the_queue_is_exact_once_time_has_passed() {
    let ageing = Ageing::new("0.01".parse().expect("an amount"), Some(Amount::from(5)));
    let ageing = ageing.expect("slow enough");
    let mut bench = Bench::with_config(1, EngineConfig { ageing, ..EngineConfig::default() });
    let cost = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    let add = |bench: &mut Bench, priority| {
        let submission = Submission { priority, ..Submission::of(cost) };
        bench.call(|engine, world| engine.submit(world, submission)).expect("it is fine")
    };
    add(&mut bench, 1);
    bench.now = Timestamp::from_millis(3_600_000);
    let urgent = add(&mut bench, 7);
    bench.apply(Input::Tick).expect("time may pass");
    assert_eq!(bench.engine.first_in_queue(), Some(urgent), "7 against 1 + 5, not 1 + 36 000");
}

#[test]
fn the_next_wake_up_is_computed_after_a_work_has_taken_what_time_made_available() {
    let mut bench = Bench::new(9);
    let rate =
        Rate { amount: Amount::from(1), per: Duration::from_millis(10), burst: Amount::from(1) };
    let set = bench.capacity.set_rate(CapacityTree::ROOT, "calls", rate, bench.now);
    set.expect("a rate that makes sense");
    let call = ResourceCost::new().with("calls", Amount::from(1));
    let cost = bench.engine.cost(&bench.capacity, &call).expect("it can be had");
    for _ in 0..3 {
        bench.call(|engine, world| engine.submit(world, Submission::of(cost))).expect("accepted");
    }
    assert!(bench.call(Engine::begin_next).is_some() && bench.call(Engine::begin_next).is_none());
    bench.now = Timestamp::from_millis(10);
    assert!(bench.call(Engine::begin_next).is_some(), "one call has come");
    let asks_again = bench.engine.may_begin(&bench.capacity);
    assert!(asks_again || bench.engine.next_wakeup().is_some(), "the third one is not forgotten");
}

#[test]
fn a_driver_that_asks_first_learns_without_a_search_that_no_work_fits() {
    let mut bench = Bench::new(1);
    let works = [(); 4].map(|()| bench.add(&[], 0));
    let may_begin = |bench: &Bench| bench.engine.may_begin(&bench.capacity);
    assert!(may_begin(&bench));
    let first = bench.start();
    assert!(may_begin(&bench), "the second one was not refused yet");
    assert_eq!((bench.take(), may_begin(&bench)), (None, false));

    bench.finish(first, Outcome::Success).expect("it is under way");
    assert!(may_begin(&bench));
    let second = bench.start();
    assert!(!may_begin(&bench), "the third one lacks what the second one lacked");

    let refused = bench.engine.metrics().refusals;
    bench.finish(second, Outcome::Success).expect("it is under way");
    assert!(may_begin(&bench));
    assert_eq!(bench.start().work, works[2]);
    assert_eq!(bench.engine.metrics().refusals, refused);
    bench.call(|engine, world| {
        let slots = world.capacity.resource(SLOTS).expect("it is always known");
        engine.set_limit(world, CapacityTree::ROOT, slots, Amount::from(2));
    });
    assert!(may_begin(&bench), "there is more");
}

#[test]
fn the_cost_of_a_forgotten_work_leaves_its_id_to_another() {
    let mut bench = Bench::new(2);
    let limit = ResourceCost::new().with("x", 1_000_000);
    bench.capacity.set_limits(CapacityTree::ROOT, &limit);
    let empty = bench.engine.cost(&bench.capacity, &ResourceCost::new()).expect("a slot");
    let mut kept = Vec::new();
    for amount in 1..5_000 {
        let (work, cost) = bench.add_that_needs(amount);
        assert!(cost.index() < 500, "one id in ten is in use, and a few are not looked for yet");
        assert_ne!(cost, empty);
        if amount % 50 == 0 {
            kept.push((work, amount));
        } else {
            bench.apply(Input::Cancel(work)).expect("it waits");
            bench.apply(Input::Forget(work)).expect("it has ended");
        }
    }
    let again = bench.engine.cost(&bench.capacity, &ResourceCost::new());
    assert_eq!(again, Ok(empty), "drivers keep the id of the empty cost");
    for (work, amount) in kept {
        let needs: Vec<_> = bench.engine.demand(work).iter().map(|(_, amount)| amount).collect();
        assert_eq!(needs, [Amount::from(1), Amount::from(amount)]);
        let grant = bench.start();
        assert_eq!(grant.work, work);
        bench.finish(grant, Outcome::Success).expect("it runs");
    }
}
