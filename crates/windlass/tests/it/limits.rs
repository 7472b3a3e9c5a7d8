//! What works need, and limits that change while they run.

use std::time::Duration;

use tokio::time::sleep;
use windlass::{
    Amount, Order, Quota, Rate, ResourceCapacity, ResourceCost, SubmitError, WorkScheduler,
    WorkSchedulerBuilder, WorkState,
};

use crate::support::*;

fn gpus(n: u32) -> ResourceCost {
    ResourceCost::from([("gpu", n)])
}

/// When works started, and which: `20ms b`.
fn starts(events: &mut Events) -> Vec<String> {
    let started = events.take().into_iter().filter(|event| event.state == WorkState::Running);
    started.map(|event| format!("{} {}", event.at, event.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn works_run_within_their_limits() {
    let builder = WorkScheduler::builder().max_concurrency(8).limits(gpus(2));
    let (mut scheduler, mut events) = watch(builder);
    add(&scheduler, takes("one", ms(10)).needs(gpus(1)));
    add(&scheduler, takes("both", ms(10)).needs(gpus(2)));
    add(&scheduler, takes("one more", ms(10)).needs(gpus(1)));
    add(&scheduler, takes("none", ms(10)));
    _ = scheduler.run_until_done().await;
    let expected = ["0ns one", "0ns none", "10ms both", "20ms one more"];
    assert_eq!(starts(&mut events), expected, "what refused the second is set aside for it");
}

#[test]
fn limits_of_several_calls_hold_together() {
    let builder = WorkScheduler::builder().limits(gpus(2)).limits([("licence", 1)]);
    let scheduler = builder.limits(gpus(1)).build().expect("nothing clashes");
    let submit = |needs: ResourceCost| scheduler.submit(ok("work").needs(needs));
    assert!(submit([("gpu", 1), ("licence", 1)].into()).is_ok(), "both names are declared");
    assert!(submit(gpus(2)).is_err(), "the last limit of a name counts");
}

#[test]
fn a_name_has_a_limit_or_a_rate_or_a_quota() {
    let (rate, quota) = (Rate::per_second(5), Quota { amount: 5.into(), window: secs(1) });
    let builder = || WorkScheduler::builder().limits(gpus(1));
    let several = "\"gpu\" is given several of a limit, a rate and a quota: use a name for each";
    let slots = "\"slots\" is what `max_concurrency` limits: use another name";
    let check = |builder: WorkSchedulerBuilder, expected: &str| {
        let refused = builder.build().map(drop).map_err(|error| error.to_string());
        assert_eq!(refused, Err(expected.to_owned()));
    };
    check(builder().rate("gpu", rate), several);
    check(builder().quota("gpu", quota), several);
    check(WorkScheduler::builder().rate("gpu", rate).quota("gpu", quota), several);
    check(builder().limits([("slots", 3)]), slots);
    check(builder().rate("slots", rate), slots);
    check(builder().quota("slots", quota), slots);
    assert!(builder().rate("calls", rate).rate("calls", rate).quota("day", quota).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn strict_order_lets_no_work_pass() {
    let builder = WorkScheduler::builder().limits(gpus(2)).order(Order::Strict);
    let (mut scheduler, mut events) = watch(builder);
    add(&scheduler, takes("one", ms(10)).needs(gpus(1)));
    add(&scheduler, takes("both", ms(10)).needs(gpus(2)));
    add(&scheduler, takes("none", ms(10)));
    _ = scheduler.run_until_done().await;
    assert_eq!(starts(&mut events), ["0ns one", "10ms both", "10ms none"]);
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_a_limit_is_refused_with_its_reason() {
    let scheduler = WorkScheduler::builder().limits(gpus(2)).build().expect("slots");
    let too_much = scheduler.submit(ok("greedy").needs(gpus(3)));
    let Err(SubmitError::Cost(error)) = too_much else { panic!("there are two") };
    let text = error.to_string();
    assert!(text.contains("gpu") && text.contains('3') && text.contains('2'), "{text}");
    let typo = ResourceCost::from([("gpus", 1)]);
    let Err(SubmitError::Cost(error)) = scheduler.submit(ok("typo").needs(typo)) else {
        panic!("no level declares that")
    };
    let text = error.to_string();
    assert!(text.contains("gpus") && text.contains("\"gpu\""), "the nearest is named: {text}");
    assert_eq!(scheduler.metrics().total, 0);
}

#[tokio::test(start_paused = true)]
async fn slots_can_be_changed_during_a_run() {
    let (mut scheduler, mut events) = watched(1);
    for n in 0..6 {
        add(&scheduler, takes(&format!("work {n}"), ms(10)));
    }
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(5)).await;
        handle.set_max_concurrency(3);
        sleep(ms(7)).await;
        handle.set_max_concurrency(0);
        sleep(ms(88)).await;
        handle.set_max_concurrency(2);
    });
    _ = scheduler.run_until_done().await;
    let expected =
        ["0ns work 0", "5ms work 1", "5ms work 2", "10ms work 3", "100ms work 4", "100ms work 5"];
    assert_eq!(starts(&mut events), expected);
}

#[tokio::test(start_paused = true)]
async fn a_lowered_limit_is_a_debt_that_is_worked_off() {
    let builder = WorkScheduler::builder().max_concurrency(9).limits(gpus(4));
    let (mut scheduler, mut events) = watch(builder);
    for n in 0..4 {
        add(&scheduler, takes(&format!("work {n}"), ms(10 + 10 * n)).needs(gpus(1)));
    }
    add(&scheduler, takes("last", ms(10)).needs(gpus(1)));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(5)).await;
        handle.set_limits(gpus(2));
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(starts(&mut events)[4], "30ms last", "when less than two are in use");
}

#[tokio::test(start_paused = true)]
async fn schedulers_share_a_capacity_and_wake_each_other() {
    let capacity = ResourceCapacity::new(gpus(1));
    let share = || watch(WorkScheduler::builder().capacity(&capacity));
    let ((mut one, mut its), (mut other, mut others)) = (share(), share());
    for n in 0..3 {
        add(&one, takes(&format!("one {n}"), ms(10)).needs(gpus(1)));
        add(&other, takes(&format!("other {n}"), ms(10)).needs(gpus(1)));
    }
    _ = tokio::join!(one.run_until_done(), other.run_until_done());
    let mut all = starts(&mut its);
    all.extend(starts(&mut others));
    assert_eq!(all.len(), 6);
    all.sort();
    let times: Vec<_> = all.iter().map(|start| start.split(' ').next().unwrap_or("")).collect();
    assert_eq!(times, ["0ns", "10ms", "20ms", "30ms", "40ms", "50ms"], "never two at a time");
    assert_eq!(capacity.available(), gpus(1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_scheduler_releases_all_capacity() {
    let capacity = ResourceCapacity::new(gpus(2));
    let builder = WorkScheduler::builder().capacity(&capacity).limits(gpus(1));
    let mut scheduler = builder.build().expect("slots");
    add(&scheduler, deaf("holder").needs(gpus(1)));
    let run = tokio::time::timeout(ms(1), scheduler.run_until_done());
    run.await.expect_err("it never returns");
    drop(scheduler);
    settle().await;
    assert_eq!(capacity.available(), gpus(2));
}

#[tokio::test(start_paused = true)]
async fn rates_and_quotas_count_starts() {
    let rate = Rate { amount: Amount::from(1), per: ms(10), burst: Amount::from(2) };
    let quota = Quota { amount: Amount::from(3), window: ms(100) };
    let builder = WorkScheduler::builder().max_concurrency(9).rate("calls", rate);
    let (mut scheduler, mut events) = watch(builder.quota("daily", quota));
    let needs = ResourceCost::from([("calls", 1), ("daily", 1)]);
    for n in 0..5 {
        add(&scheduler, ok(&format!("work {n}")).needs(needs.clone()));
    }
    _ = scheduler.run_until_done().await;
    let expected = ["0ns work 0", "0ns work 1", "10ms work 2", "100ms work 3", "100ms work 4"];
    assert_eq!(starts(&mut events), expected);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_work_takes_nothing_of_a_rate() {
    let rate = Rate { amount: Amount::from(1), per: secs(60), burst: Amount::from(1) };
    let (mut scheduler, mut events) = watch(WorkScheduler::builder().rate("calls", rate));
    let needs = ResourceCost::from([("calls", 1)]);
    let waits = windlass::work_fn("waits", |ctx| async move {
        for _ in 0..5 {
            ctx.suspend(sleep(ms(1))).await?;
        }
        Ok(())
    });
    add(&scheduler, waits.needs(needs));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[1], "5ms waits Success 1");
}

#[tokio::test(start_paused = true)]
async fn a_work_that_needs_more_than_a_lowered_limit_says_so() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    capacity.set_rate("calls", Rate::per_second(4)).expect("it is above 0");
    let builder = WorkScheduler::builder().capacity(&capacity).limits(gpus(4));
    let mut scheduler = builder.build().expect("they differ");
    let heavy = add(&scheduler, ok("heavy").needs(gpus(4)));
    let eager = add(&scheduler, ok("eager").needs([("calls", 4)]));
    scheduler.set_limits(gpus(2));
    capacity.set_rate("calls", Rate::per_second(2)).expect("it is above 0");
    let first_reason = |work| scheduler.explain(work).expect("it is known").lines[0].clone();
    assert_eq!(first_reason(heavy), "it needs 4 of \"gpu\", but the limit is 2 now");
    assert_eq!(first_reason(eager), "it needs 4 of \"calls\", but the limit is 2 now");
    scheduler.set_limits(gpus(4));
    capacity.set_rate("calls", Rate::per_second(4)).expect("it is above 0");
    assert_eq!(scheduler.run_until_done().await.success, 2);
}

/// Returns the processor time of a run of two works for each of so many resources, one at a time, beside so
/// many holders of another resource.
async fn hosts_take(hosts: u32, holders: u32) -> Duration {
    let names: Vec<String> = (0..hosts).map(|host| format!("host {host}")).collect();
    let one = |name: &String| (name.clone(), Amount::from(1));
    let limits: ResourceCost = names.iter().map(one).collect();
    let capacity = ResourceCapacity::new(limits.with("other", holders));
    let held = (0..holders).map(|_| capacity.try_acquire([("other", 1)]).expect("it is free"));
    let _held: Vec<_> = held.collect();
    let builder = WorkScheduler::builder().capacity(&capacity).max_concurrency(names.len());
    let mut scheduler = builder.build().expect("they differ");
    for name in names.iter().chain(&names) {
        add(&scheduler, takes("page", ms(10)).needs([(name.clone(), 1)]));
    }
    let start = processor_time();
    assert_eq!(scheduler.run_until_done().await.success, 2 * names.len());
    processor_time() - start
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_start_does_not_grow_with_the_resources_that_refuse_works() {
    for holders in [0, 1] {
        let (few, many) = (hosts_take(500, holders).await, hosts_take(10_000, holders).await);
        assert!(many < few * 80, "20 times as many works: {few:?}, then {many:?}");
    }
}
