//! Worlds by seed: schedulers and workers as they are shipped, over one store, with faults.
//!
//! | part | is |
//! |---|---|
//! | [`machine`] | time, processes, what workers have started, and everything that is random |
//! | [`connection`] | where a process meets the store, and is killed and suspended |
//! | [`attempts`] | what a worker executes, without processes |
//! | [`actors`] | schedulers, workers and users, around the code that ships |
//! | [`world`] | all of this together, first with faults and then without |
//! | [`rules`] | what must hold with every start, after every round, and in the end |
//!
//! A world is one thread in virtual time: a process that is suspended in the middle of a call has the others go
//! on from there. `WINDLASS_SEED=7` simulates one world, `WINDLASS_SEEDS=20000` many.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use windlass_sim::store::Loss;
use windlass_store::{RunOutcome, RunRecord};

use self::flow::{Flow, FlowStep};
use self::world::World;
use crate::coordinator::attempts::OrderKind;
use crate::coordinator::{Ask, ask};
use crate::service::{WorkersNeeded, submit};

mod actors;
mod attempts;
mod connection;
mod flow;
mod machine;
mod rules;
mod world;

/// The places of the actors.
const SCHEDULERS: [usize; 2] = [0, 1];
const WORKERS: [usize; 2] = [2, 3];
const USER: usize = 4;

/// What must occur in the fixed seeds: a case that never occurs is not tested.
const EXPECTED: [&str; 22] = [
    "aborts",
    "cancelled",
    "checks",
    "commands",
    "digests compared",
    "ends of workers",
    "finally",
    "hooks",
    "killed after a commit",
    "killed after a read",
    "killed before a transaction",
    "kills",
    "late orders",
    "leads",
    "leads lost",
    "leftovers of a name",
    "lives",
    "long suspensions",
    "lost orders",
    "lost replies",
    "runs",
    "unknown submissions",
];

fn seeds() -> Range<u64> {
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    match (number("WINDLASS_SEED"), number("WINDLASS_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(300),
    }
}

#[test]
fn random_worlds_keep_every_rule_and_end() {
    let total = simulate(seeds());
    println!("{total:#?}");
    let missing: Vec<_> = EXPECTED.iter().filter(|what| !total.contains_key(*what)).collect();
    assert!(seeds().count() == 1 || missing.is_empty(), "never: {missing:?}");
}

/// Simulates worlds on all processors, until one breaks a rule. Returns how often what has happened.
fn simulate(seeds: Range<u64>) -> BTreeMap<&'static str, usize> {
    let next = AtomicU64::new(seeds.start);
    let some = || {
        let mut total = BTreeMap::new();
        loop {
            // The counter orders no other memory access.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return total;
            }
            let counts = catch_unwind(|| world::simulate(seed)).unwrap_or_else(|broken| {
                next.store(seeds.end, Ordering::Relaxed);
                resume_unwind(broken)
            });
            add(&mut total, counts);
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut total = BTreeMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        for thread in threads {
            add(&mut total, thread.join().unwrap_or_else(|broken| resume_unwind(broken)));
        }
    });
    total
}

fn add(total: &mut BTreeMap<&'static str, usize>, counts: BTreeMap<&'static str, usize>) {
    for (what, count) in counts {
        *total.entry(what).or_default() += count;
    }
}

/// Has one scheduler lead a run and start its steps, and another take over because the first one is
/// suspended, which goes on then. `act` is called before the round in which the second one adopts the run.
fn take_over(steps: Vec<FlowStep>, act: impl FnOnce(&Arc<World>, &str)) {
    let world = World::quiet(vec![Flow::of(steps)]);
    let act_once = |place: &usize| world.act(*place);
    [USER, WORKERS[0], WORKERS[1], SCHEDULERS[0], SCHEDULERS[0]].iter().for_each(act_once);
    let run = world.look().run("last").expect("it was submitted").id;
    let leader = *world.machine.running().last().expect("it leads");
    world.machine.suspend(leader, world.lease * 2);
    world.let_time_pass(nanos(world.lease * 5 / 4));
    world.act(SCHEDULERS[1]);
    act(&world, &run);
    [SCHEDULERS[1], WORKERS[0], WORKERS[1]].iter().for_each(act_once);
    world.let_time_pass(nanos(world.lease));
    world.end();
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("it is not that long")
}

#[test]
fn the_runs_of_a_suspended_scheduler_are_led_by_the_next_one() {
    take_over(vec![FlowStep::of(1)], |_, _| {});
}

#[test]
fn a_step_that_is_cancelled_while_no_scheduler_leads_leaves_the_queue_of_its_lock() {
    let locked = FlowStep { lock: Some(0), ..FlowStep::of(60) };
    take_over(vec![locked.clone(), locked], |world, run| {
        let cancel = [Ask::Cancel(Some("s1".to_owned()))];
        ask(&mut world.look(), run, &cancel).expect("it has not ended");
    });
}

#[test]
fn a_run_whose_adoption_is_aborted_and_repeated_takes_its_slots_once() {
    for call in 0..40 {
        take_over(vec![FlowStep::of(15); 6], |world, _| world.faults.abort_next(call));
    }
}

/// A round has written much, and its transaction is aborted by then: another scheduler takes the lead before it is
/// repeated.
#[test]
fn a_round_that_is_in_flight_when_another_scheduler_takes_the_lead_is_refused() {
    const STEPS: usize = 4;
    for call in 0..40 {
        let world = World::quiet(vec![Flow::of(vec![FlowStep::of(60); STEPS])]);
        let act = |places: &[usize]| places.iter().for_each(|place| world.act(*place));
        act(&[USER, WORKERS[0], WORKERS[1], SCHEDULERS[0]]);
        let first = *world.machine.running().last().expect("it leads");
        world.faults.abort_next(call);
        world.after_next_try(move |world| {
            world.machine.suspend(first, world.lease * 2);
            world.let_time_pass(nanos(world.lease * 5 / 4));
            [SCHEDULERS[1]; 2].iter().for_each(|place| world.act(*place));
            assert_eq!(world.counted("leads"), 2, "the other one leads");
            world.let_time_pass(nanos(world.lease));
        });
        act(&[SCHEDULERS[0]]);
        assert_eq!(world.faults.seen().aborts, 1, "{call}");
        assert_eq!(world.counted("leads lost"), 1, "{call}: the round is refused");
        world.end();
        let commands = world.machine.children().len();
        assert_eq!(commands, STEPS, "{call}: each step runs once");
    }
}

/// Has the reply to one commit of an actor be lost, after `before` in a run of one step that takes no time.
/// Returns the world, whose run ends.
fn lose_reply(before: &[usize], actor: usize, loss: Loss) -> Arc<World> {
    let world = World::quiet(vec![Flow::of(vec![FlowStep::of(0)])]);
    before.iter().for_each(|place| world.act(*place));
    world.faults.lose_next(loss);
    world.act(actor);
    assert_eq!(world.faults.seen().losses, 1, "{before:?}");
    world.end();
    world
}

#[test]
fn what_a_lost_reply_was_about_happens_once() {
    let [scheduler, worker] = [SCHEDULERS[0], WORKERS[0]];
    let cases: [(&[usize], usize); 5] = [
        // The lead, the round that adopts the run and starts its step, and the one that takes in the report.
        (&[USER, worker], scheduler),
        (&[USER, worker, scheduler], scheduler),
        (&[USER, worker, scheduler, scheduler, worker, worker], scheduler),
        // A life, and the report.
        (&[USER], worker),
        (&[USER, worker, scheduler, scheduler, worker], worker),
    ];
    for (before, actor) in cases {
        for loss in [Loss::Reply, Loss::Commit] {
            let commands = lose_reply(before, actor, loss).machine.children().len();
            assert_eq!(commands, 1, "{before:?}, {loss:?}: the step runs once");
        }
    }
}

#[test]
fn a_user_learns_that_it_is_unknown_whether_a_submission_or_a_request_was_stored() {
    for loss in [Loss::Reply, Loss::Commit] {
        let world = World::quiet(Vec::new());
        let mut store = world.connect(world.start_process("user"));
        let text = "[step.a]\nrun = 'true'\n".to_owned();
        let mut submit = |run: RunRecord| {
            let workflow = windlass_workflow::parse("flow.toml", &text).expect("it can be read");
            submit(
                &mut store,
                RunRecord { text: text.clone(), ..run },
                workflow,
                &[],
                WorkersNeeded::Now,
            )
        };
        world.faults.lose_next(loss);
        let unknown = submit(RunRecord::default()).expect_err("the reply was lost").to_string();
        assert!(unknown.contains("unknown whether"), "{unknown}");
        let stored = || world.look().read(|transaction| transaction.runs().served());
        let kept = usize::from(loss == Loss::Reply);
        assert_eq!(stored().expect("the store works").len(), kept, "{loss:?}");

        let run = submit(RunRecord::default()).expect("it is answered");
        world.faults.lose_next(loss);
        let asked = ask(&mut store, &run, &[Ask::Cancel(None)]);
        let unknown = asked.expect_err("the reply was lost").to_string();
        assert!(unknown.contains("unknown whether"), "{unknown}");
        let pending = world.look().read(|transaction| transaction.requests().all_pending());
        assert_eq!(pending.expect("the store works").len(), kept, "{loss:?}");
    }
}

#[test]
fn a_round_costs_as_much_however_many_runs_wait_for_a_name() {
    let calls = |runs: usize| {
        let locked = FlowStep { lock: Some(0), ..FlowStep::of(600) };
        let world = World::quiet(vec![Flow::of(vec![locked]); runs]);
        (0..runs).for_each(|_| world.act(USER));
        [WORKERS[0], SCHEDULERS[0], SCHEDULERS[0], WORKERS[0]].iter().for_each(|p| world.act(*p));
        world.let_time_pass(nanos(Duration::from_secs(1)));
        let before = world.faults.seen();
        world.act(SCHEDULERS[0]);
        world.faults.seen().calls_since(&before)
    };
    assert_eq!(calls(20), calls(3));
}

#[test]
fn a_round_costs_as_much_however_many_workers_there_are() {
    let calls = |workers: &[usize]| {
        let world = World::quiet(Vec::new());
        workers.iter().chain(&[SCHEDULERS[0]; 3]).for_each(|place| world.act(*place));
        let before = world.faults.seen();
        world.act(SCHEDULERS[0]);
        world.faults.seen().calls_since(&before)
    };
    assert_eq!(calls(&WORKERS), calls(&WORKERS[..1]));
}

#[test]
fn a_late_command_whose_worker_is_gone_waits_for_room_at_another_one() {
    let world = World::quiet(Vec::new());
    let act = |places: &[usize]| places.iter().for_each(|place| world.act(*place));
    act(&[WORKERS[1]]);
    let slots = world.slots(world.machine.running()[0]);
    let late = Flow::of(vec![FlowStep { semaphore: true, ..FlowStep::of(1) }]);
    world.truth().flows = vec![Flow::of(vec![FlowStep::of(600); slots]), late];
    act(&[USER, SCHEDULERS[0], SCHEDULERS[0], WORKERS[1]]);
    assert_eq!(world.machine.live_children().len(), slots, "one worker is full");
    act(&[USER, WORKERS[0]]);
    let worker = *world.machine.running().last().expect("it has begun");
    act(&[SCHEDULERS[0]]);
    let run = world.look().run("last").expect("it was submitted").id;
    let orders = || world.look().read(|transaction| transaction.orders().of_run(&run));
    assert_eq!(orders().expect("the store works").len(), 1, "the other one has room");
    // It is too late for its order, and ends.
    world.machine.suspend(worker, Duration::from_secs(55));
    world.let_time_pass(nanos(Duration::from_secs(56)));
    world.signal(worker);
    act(&[WORKERS[0], WORKERS[0]]);
    assert!(world.machine.is_gone(worker), "it has drained");
    assert_eq!(world.counted("late orders"), 1);
    act(&[SCHEDULERS[0]]);
    assert_eq!(orders().expect("the store works"), [], "the full worker gets nothing");
    world.end();
    let end = world.look().read(|transaction| Ok(transaction.runs().listing(&run)?.end));
    let outcome = end.expect("the store works").map(|end| end.outcome);
    assert_eq!(outcome, Some(RunOutcome::Succeeded));
}

#[test]
fn an_attempt_whose_order_was_never_placed_gives_its_names_back() {
    let world = World::quiet(vec![Flow::of(vec![FlowStep { semaphore: true, ..FlowStep::of(1) }])]);
    let act = |places: &[usize]| places.iter().for_each(|place| world.act(*place));
    act(&[USER, WORKERS[0]]);
    let worker = world.machine.running()[0];
    act(&[SCHEDULERS[0], SCHEDULERS[0]]);
    let scheduler = *world.machine.running().last().expect("it leads");
    // The worker is too late for its order, and ends; then no worker is there to order it from again.
    world.machine.suspend(worker, Duration::from_secs(55));
    world.let_time_pass(nanos(Duration::from_secs(56)));
    world.signal(worker);
    act(&[WORKERS[0], WORKERS[0]]);
    assert!(world.machine.is_gone(worker), "it has drained");
    assert_eq!(world.counted("late orders"), 1);
    act(&[SCHEDULERS[0]]);
    world.machine.end_process(scheduler);
    world.end();
}

#[test]
fn a_late_command_that_has_lost_its_lock_does_not_run_under_another_scheduler() {
    let locked = FlowStep { lock: Some(0), ..FlowStep::of(5) };
    let world = World::quiet(vec![Flow::of(vec![locked.clone(), locked])]);
    let act = |places: &[usize]| places.iter().for_each(|place| world.act(*place));
    act(&[USER, WORKERS[0]]);
    let worker = world.machine.running()[0];
    act(&[SCHEDULERS[0], SCHEDULERS[0], WORKERS[1]]);
    let scheduler = world.machine.running()[1];
    world.machine.suspend(worker, Duration::from_secs(600));
    world.let_time_pass(nanos(Duration::from_secs(65)));
    // The other step finds the hold stale, has what is left of it ended, and takes the lock.
    act(&[SCHEDULERS[0]; 3]);
    world.machine.end_process(scheduler);
    world.end();
}

#[test]
fn a_finally_that_another_worker_executes_holds_the_lock_of_its_step() {
    let locked = FlowStep { lock: Some(0), finally: true, ..FlowStep::of(5) };
    let world = World::quiet(vec![Flow::of(vec![locked.clone(), locked])]);
    let act = |places: &[usize]| places.iter().for_each(|place| world.act(*place));
    act(&[USER, WORKERS[0]]);
    let worker = world.machine.running()[0];
    act(&[SCHEDULERS[0], SCHEDULERS[0], WORKERS[0], WORKERS[1]]);
    world.signal(worker);
    act(&[WORKERS[0]]);
    world.let_time_pass(nanos(Duration::from_secs(6)));
    act(&[WORKERS[0], WORKERS[0]]);
    assert!(world.machine.is_gone(worker), "it has drained");
    act(&[SCHEDULERS[0], WORKERS[1]]);
    let live = world.machine.live_children();
    let kinds: Vec<_> = live.iter().map(|child| (child.kind, child.holds)).collect();
    assert_eq!(kinds, [(OrderKind::Finally, true)]);
    world.end();
}
