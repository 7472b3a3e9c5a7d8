//! Results, and what is left of works after their end.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::sleep;
use windlass::{
    Dependency, ExecuteError, SubmitError, TakeError, Work, WorkContext, WorkError, WorkFailure,
    WorkOutcome, WorkScheduler, WorkSequence, WorkState, WorkWithCallback, work_after, work_cpu,
    work_fn,
};

use crate::support::*;

/// A body with a value that can be taken after its end.
struct Gatherer {
    _kept: Arc<()>,
}

#[windlass::async_trait]
impl Work for Gatherer {
    fn name(&self) -> &str {
        "gatherer"
    }

    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        WorkOutcome::Success
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_can_be_taken_back_after_every_end() {
    let builder = WorkScheduler::builder().cancel_grace(ms(1)).retry_delay(ms(1));
    let mut scheduler = builder.build().expect("slots");
    let kept = Arc::new(());
    let good = scheduler.add_work(Box::new(Gatherer { _kept: kept.clone() }), vec![], 0);
    assert!(scheduler.take_work(good).is_none(), "it has not ended");
    let bad = add(&scheduler, fails("bad"));
    let works = [
        good,
        bad,
        add(&scheduler, act("panics", |_| async { panic!("on purpose") })),
        add(&scheduler, ok("blocked").after([bad])),
        add(&scheduler, deaf("timed out").timeout(ms(1))),
        add(&scheduler, answers("used up", ms(1), &[retry(ms(1))]).retries(2)),
        add(&scheduler, deaf("late").deadline(tokio::time::Instant::now() + ms(3))),
        add(
            &scheduler,
            act("cancelled", |ctx| async move {
                ctx.handle().cancel(ctx.id);
                std::future::pending().await
            }),
        ),
        add(&scheduler, ok("skipped").after([Dependency::failed(good)])),
    ];
    _ = scheduler.run_until_done().await;
    for work in works {
        let name = look(&scheduler, work).name;
        let body = scheduler.take_work(work).unwrap_or_else(|| panic!("{name} has a body"));
        assert_eq!(*name, *body.name());
        assert!(scheduler.take_work(work).is_none(), "only once");
    }
    assert_eq!(Arc::strong_count(&kept), 1, "it was given away and dropped");
    assert!(scheduler.take_work(foreign()).is_none());
}

#[tokio::test]
async fn a_closure_that_is_taken_back_has_its_name_and_can_be_added_again() {
    for name in ["short", "one that is too long to be kept in place"] {
        let mut scheduler = scheduler(1);
        let first = add(&scheduler, work_fn(name, |_| async { Ok(()) }));
        _ = scheduler.run_until_done().await;
        let body = scheduler.take_work(first).expect("it has ended");
        assert_eq!(body.name(), name);
        let again = scheduler.add_work(body, vec![], 0);
        _ = scheduler.run_until_done().await;
        assert_eq!(*look(&scheduler, again).name, *name);
        assert_eq!(scheduler.take_work(again).expect("it has ended").name(), name);
        assert_eq!(scheduler.metrics().success, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_durations_and_errors_are_kept_on_every_path() {
    let builder = WorkScheduler::builder().cancel_grace(ms(3)).max_concurrency(10);
    let mut scheduler = builder.build().expect("slots");
    let works = [
        (takes("good", ms(10)), 1, 10, 10, None),
        (answers("bad", ms(10), &[failed("broken")]), 1, 10, 10, Some("broken")),
        (
            answers("retried", ms(10), &[retry(ms(7)), WorkOutcome::Success]).retries(1),
            2,
            10,
            20,
            Some("it asked to be tried again"),
        ),
        (deaf("timed out").timeout(ms(10)), 1, 13, 13, Some("timed out after 10ms")),
        (
            act("panics", |_| async {
                sleep(ms(10)).await;
                panic!("on purpose")
            }),
            1,
            10,
            10,
            Some("the work panicked: on purpose"),
        ),
        (
            act("cancelled", |ctx| async move {
                sleep(ms(10)).await;
                ctx.handle().cancel(ctx.id);
                std::future::pending().await
            }),
            1,
            13,
            13,
            None,
        ),
    ];
    let mut expected = Vec::new();
    for (spec, attempts, last, total, error) in works {
        expected.push((add(&scheduler, spec), attempts, ms(last), ms(total), error));
    }
    _ = scheduler.run_until_done().await;
    for (work, attempts, last, total, error) in expected {
        let seen = look(&scheduler, work);
        let got =
            (seen.attempts, seen.last_duration, seen.total_duration, seen.last_error.as_deref());
        assert_eq!(got, (attempts, Some(last), total, error), "{}", seen.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_reaches_later_works_also_across_retries() {
    let mut scheduler = scheduler(2);
    let six = work_fn("six", |ctx| async move {
        if ctx.attempt < 3 {
            return Err(WorkError::msg("not yet"));
        }
        Ok(6)
    });
    let six = scheduler.spawn(six.retries(5)).expect("it is taken in");
    let input = six.clone();
    let times = work_fn("times", move |ctx| {
        let six = input.value();
        async move {
            let six = six.expect("it has succeeded");
            if ctx.attempt == 1 {
                return Err(WorkError::msg("once more"));
            }
            Ok(*six * 7)
        }
    });
    let times = scheduler.spawn(times.after([&six]).retries(1)).expect("it is taken in");
    assert_eq!(six.value(), None);
    _ = scheduler.run_until_done().await;
    assert_eq!(*times.clone().await.expect("it succeeds"), 42);
    assert_eq!(*times.await.expect("as often as asked"), 42);
    assert_eq!(six.value().as_deref(), Some(&6));
    assert_eq!(look(&scheduler, six.id()).attempts, 3);
}

#[tokio::test(start_paused = true)]
async fn a_work_that_does_not_succeed_has_a_failure_and_no_value() {
    let mut scheduler = scheduler(4);
    let spawn = |spec| scheduler.spawn(spec).expect("it is taken in");
    let failing = spawn(work_fn("failing", |_| async { Err::<u32, _>(WorkError::msg("no luck")) }));
    let blocked = spawn(work_fn("blocked", |_| async { Ok(1) }).after([&failing]));
    let cancelled = spawn(work_fn("cancelled", |ctx| async move {
        ctx.handle().cancel(ctx.id);
        Ok(1)
    }));
    let orphaned = spawn(work_fn("parent", |ctx| async move {
        ctx.add_child(fails("child"))?;
        Ok(1)
    }));
    let fine = add(&scheduler, ok("fine"));
    let skipped = spawn(work_fn("skipped", |_| async { Ok(1) }).after([Dependency::failed(fine)]));
    _ = scheduler.run_until_done().await;
    let expected = [
        (&failing, "work \"failing\" failed: no luck"),
        (&blocked, "work \"blocked\" was blocked: it waits for \"failing\", which is Failed"),
        (&cancelled, "work \"cancelled\" was cancelled"),
        (&orphaned, "work \"parent\" failed: its child \"child\" failed: broken"),
        (&skipped, "work \"skipped\" was not needed"),
    ];
    for (work, error) in expected {
        let failure: WorkFailure = work.clone().await.expect_err("it brings nothing");
        assert_eq!(failure.to_string(), error);
        assert_eq!(work.value(), None, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_is_none_before_the_work_has_succeeded() {
    let mut scheduler = scheduler(4);
    let parent = work_fn("parent", |ctx| async move {
        ctx.add_child(takes("child", ms(20)))?;
        Ok(ctx.attempt)
    });
    let parent = scheduler.spawn(parent).expect("it is taken in");
    let computed = scheduler.spawn(work_cpu("sum", |_| Ok(1 + 1))).expect("it is taken in");
    let early = parent.clone();
    let looker = tokio::spawn(async move {
        sleep(ms(10)).await;
        early.value()
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(looker.await.expect("it only looks"), None, "its child has not ended");
    assert_eq!(parent.value().as_deref(), Some(&1));
    assert_eq!(computed.value().as_deref(), Some(&2));
}

#[tokio::test(start_paused = true)]
async fn execute_returns_the_value_or_the_error() {
    let mut scheduler = scheduler(2);
    let handle = scheduler.handle();
    let client = tokio::spawn(async move {
        let good = handle.execute(work_fn("good", |_| async { Ok("fine".to_owned()) })).await;
        let bad = handle.execute(fails("bad")).await;
        let refused = handle.execute(ok("x").after([foreign()])).await;
        (good, bad, refused)
    });
    add(&scheduler, takes("keeps it running", ms(10)));
    _ = scheduler.run_until_done().await;
    let (good, bad, refused) = client.await.expect("all were answered");
    assert_eq!(good.as_deref().map(String::as_str), Ok("fine"));
    let Err(ExecuteError::Failed(failure)) = bad else { panic!("it fails") };
    assert_eq!((failure.state, failure.error.as_deref()), (WorkState::Failed, Some("broken")));
    assert!(matches!(refused, Err(ExecuteError::Refused(SubmitError::OtherScheduler { .. }))));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_reference_or_an_execute_does_not_cancel_the_work() {
    let mut scheduler = scheduler(1);
    drop(scheduler.spawn(takes("unwanted", ms(5))).expect("it is taken in"));
    let handle = scheduler.handle();
    let impatient = tokio::spawn(async move {
        tokio::time::timeout(ms(1), handle.execute(takes("slow", ms(50)))).await
    });
    _ = scheduler.run_until_done().await;
    impatient.await.expect("it is patient for 1 ms").expect_err("and no longer");
    assert_eq!(scheduler.metrics().success, 2);
}

#[tokio::test(start_paused = true)]
async fn a_value_without_references_is_dropped() {
    let mut scheduler = scheduler(1);
    let (given, held) = (Arc::new(()), Arc::new(()));
    let bring = |value: &Arc<()>| {
        let value = Arc::downgrade(value);
        work_fn("bring", move |_| {
            let value = value.upgrade().expect("the test has it");
            async move { Ok(value) }
        })
    };
    scheduler.submit(bring(&given)).expect("it is taken in");
    let reference = scheduler.spawn(bring(&held)).expect("it is taken in");
    _ = scheduler.run_until_done().await;
    assert_eq!((Arc::strong_count(&given), Arc::strong_count(&held)), (1, 2));
    drop(reference);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_runs_in_order_and_may_be_empty() {
    let (mut scheduler, mut events) = watched(4);
    let mut sequence = WorkSequence::new();
    assert_eq!(sequence.ids(), []);
    _ = scheduler.run_until_done().await;
    let step = |name| Box::new(Act::new(name, |_| async { WorkOutcome::Success }));
    let ids = ["a", "b", "c"].map(|name| sequence.push(&scheduler, step(name), 0));
    assert_eq!(sequence.ids(), ids);
    _ = scheduler.run_until_done().await;
    let started = events.take().into_iter().filter(|event| event.state == WorkState::Running);
    assert_eq!(started.map(|event| event.id).collect::<Vec<_>>(), ids);

    let mut broken = WorkSequence::new();
    let breaks = Box::new(Act::new("breaks", |_| async { failed("broken") }));
    broken.push(&scheduler, breaks, 0);
    broken.push(scheduler.handle(), step("d"), 0);
    _ = scheduler.run_until_done().await;
    let ends: Vec<_> = broken.ids().iter().map(|work| state(&scheduler, *work)).collect();
    assert_eq!(ends, [WorkState::Failed, WorkState::Blocked]);
}

/// Returns the calls of a work's callback until the work has ended.
async fn told(work: Act, retries: u32) -> (Vec<String>, WorkState) {
    let builder = WorkScheduler::builder().cancel_grace(ms(5)).retry_delay(ms(1));
    let mut scheduler = builder.build().expect("slots");
    let log = Log::default();
    let seen = log.clone();
    let work = WorkWithCallback::new(
        work,
        Arc::new(move |outcome, ctx| {
            seen.add(format!("{} {outcome:?}", ctx.attempt));
            assert_ne!(*outcome, failed("do panic"), "the callback breaks");
        }),
    );
    let work = scheduler.add_work(Box::new(work), vec![], retries);
    _ = scheduler.run_until_done().await;
    (log.take(), state(&scheduler, work))
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_called_once_per_attempt_with_its_outcome() {
    let tried = Act::new("tried", |ctx| async move {
        if ctx.attempt == 1 { retry(ms(1)) } else { WorkOutcome::Success }
    });
    let expected = ["1 Retry { delay: 1ms }", "2 Success"].map(str::to_owned).to_vec();
    assert_eq!(told(tried, 1).await, (expected, WorkState::Success));

    let panics = Act::new("panics", |_| async { panic!("on purpose") });
    let expected = vec!["1 Failed(\"the work panicked: on purpose\")".to_owned()];
    assert_eq!(told(panics, 3).await, (expected, WorkState::Failed));

    let dropped = Act::new("dropped", |ctx| async move {
        ctx.handle().cancel(ctx.id);
        std::future::pending().await
    });
    assert_eq!(told(dropped, 3).await, (vec!["1 Cancelled".to_owned()], WorkState::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_callback_fails_the_work() {
    let breaks = Act::new("breaks", |_| async { failed("do panic") });
    let expected = vec!["1 Failed(\"do panic\")".to_owned()];
    assert_eq!(told(breaks, 3).await, (expected, WorkState::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_failed_work_can_be_reopened_with_its_dependents() {
    let (mut scheduler, mut events) = watched(2);
    let flaky = answers("flaky", ms(1), &[failed("first time"), WorkOutcome::Success]);
    let flaky = add(&scheduler, flaky);
    let follower = add(&scheduler, ok("follower").after([flaky]));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, follower), WorkState::Blocked);
    events.take();
    scheduler.reopen(flaky).expect("it failed");
    assert_eq!(state(&scheduler, follower), WorkState::Pending);
    _ = scheduler.run_until_done().await;
    let expected = [
        "1ms flaky Pending 1",
        "1ms follower Pending 0",
        "1ms flaky Running 2",
        "2ms flaky Success 2",
        "2ms follower Running 1",
        "2ms follower Success 1",
    ];
    assert_eq!(events.seen(), expected);
    scheduler.reopen(flaky).expect_err("it has succeeded");
    scheduler.reopen(foreign()).expect_err("it never was");
}

#[tokio::test(start_paused = true)]
async fn awaiting_a_reopened_work_returns_its_next_end() {
    let mut scheduler = scheduler(1);
    let flaky = work_fn("flaky", |ctx| async move {
        if ctx.attempt == 1 { Err(WorkError::msg("first time")) } else { Ok(ctx.attempt) }
    });
    let flaky = scheduler.spawn(flaky).expect("it fits");
    let plain = scheduler.spawn(ok("plain").after([&flaky])).expect("it fits");
    let follower = work_after("follower", &flaky, |_, value| async move { Ok(*value + 40) });
    let mut follower = scheduler.spawn(follower).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(flaky.clone().await.expect_err("it failed").state, WorkState::Failed);
    assert_eq!((&mut follower).await.expect_err("it follows that").state, WorkState::Blocked);
    scheduler.reopen(flaky.id()).expect("it failed");
    assert!(follower.clone().now_or_never().is_none(), "it has yet to end");
    let (early, _) = tokio::join!(follower.clone(), scheduler.run_until_done());
    assert_eq!(early.as_deref(), Ok(&42));
    assert_eq!(flaky.await.as_deref(), Ok(&2));
    assert_eq!(follower.await.as_deref(), Ok(&42));
    assert_eq!(plain.await.as_deref(), Ok(&()));
}

#[tokio::test(start_paused = true)]
async fn a_work_that_waits_while_another_is_reopened_ends_for_its_waiters() {
    let mut scheduler = scheduler(2);
    let broken = add(&scheduler, fails("broken"));
    let slow = add(&scheduler, takes("slow", secs(1)));
    let waiting = ok("waiting").after([Dependency::done(broken), Dependency::from(slow)]);
    let waiting = scheduler.spawn(waiting).expect("it fits");
    let handle = scheduler.handle();
    let reopened = async {
        sleep(ms(500)).await;
        handle.reopen(broken).expect("it failed");
    };
    let (end, (), _) = tokio::join!(waiting, reopened, scheduler.run_until_done());
    assert_eq!(end.as_deref(), Ok(&()));
}

#[tokio::test(start_paused = true)]
async fn a_work_without_a_body_is_not_reopened() {
    let mut scheduler = scheduler(2);
    let broken = add(&scheduler, fails("broken"));
    let follower = add(&scheduler, ok("follower").after([broken]));
    _ = scheduler.run_until_done().await;
    drop(scheduler.take_work(follower));
    let refused = scheduler.reopen(broken).expect_err("its follower is gone");
    let text = format!("the body of work {follower} is gone, so it cannot run again");
    assert_eq!(refused.to_string(), text);
    assert_eq!(state(&scheduler, broken), WorkState::Failed, "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_work_whose_gate_was_dropped_is_not_reopened() {
    let mut scheduler = scheduler(1);
    let gated = add(&scheduler, ok("gated").gate(std::future::pending()));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        settle().await;
        handle.cancel(gated);
    });
    _ = scheduler.run_until_done().await;
    let refused = scheduler.reopen(gated).expect_err("its gate went with it");
    let text = format!("the gate of work {gated} is gone, so it cannot run again");
    assert_eq!(refused.to_string(), text);
    assert_eq!(state(&scheduler, gated), WorkState::Cancelled, "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_has_opened_stays_open_for_a_work_that_is_reopened() {
    let mut scheduler = scheduler(1);
    let flaky = answers("flaky", ms(1), &[failed("first time"), WorkOutcome::Success]);
    let flaky = add(&scheduler, flaky.gate(std::future::ready(())));
    let done = [Dependency::done(flaky)];
    let follower = add(&scheduler, ok("follower").after(done).gate(std::future::ready(())));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, follower), WorkState::Success);
    scheduler.reopen(flaky).expect("it failed");
    _ = tokio::time::timeout(secs(1), scheduler.run_until_done())
        .await
        .expect("nothing holds it up");
    assert_eq!(scheduler.metrics().success, 2);
    assert_eq!(look(&scheduler, follower).attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_work_with_the_only_slot_awaits_another_without_it() {
    let mut scheduler = scheduler(1);
    let asks = work_fn("asks", |ctx| async move {
        let answer = ctx.execute(work_fn("answers", |_| async { Ok(42) })).await?;
        Ok(*answer)
    });
    let asks = scheduler.spawn(asks).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(*asks.await.expect("it was answered"), 42);
}

/// An error whose `Display` panics.
#[derive(Debug)]
struct Unspeakable;

impl std::error::Error for Unspeakable {}

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_text_panics_fails_the_work() {
    let mut scheduler = scheduler(1);
    let works = [0, 5].map(|delay| {
        let work = work_fn("breaks", move |_| async move {
            if delay > 0 {
                sleep(ms(delay)).await;
            }
            Err::<(), _>(Unspeakable.into())
        });
        add(&scheduler, work.retries(3))
    });
    _ = scheduler.run_until_done().await;
    for work in works {
        let seen = look(&scheduler, work);
        let error = Some("the work panicked: on purpose");
        assert_eq!((seen.attempts, seen.last_error.as_deref()), (1, error));
        assert!(scheduler.take_work(work).is_some(), "its body is as good as any");
    }
}

/// Returns the processor time of reopening twenty of so many failed works.
async fn reopens_take(works: usize) -> Duration {
    let mut scheduler = scheduler(4);
    let failed: Vec<_> = (0..works).map(|_| add(&scheduler, fails("fails"))).collect();
    _ = scheduler.run_until_done().await;
    let start = processor_time();
    for work in &failed[..20] {
        scheduler.reopen(*work).expect("it has failed");
    }
    processor_time() - start
}

#[tokio::test]
async fn the_cost_of_reopening_a_work_does_not_grow_with_their_number() {
    let (few, many) = (reopens_take(200).await, reopens_take(20_000).await);
    assert!(many < few * 20, "100 times as many works: {few:?}, then {many:?}");
}

#[tokio::test]
async fn a_value_with_one_taker_is_returned_itself() {
    /// A value that cannot be cloned.
    #[derive(Debug, PartialEq)]
    struct Sole(u32);
    let mut scheduler = scheduler(1);
    let sole = scheduler.spawn(work_fn("sole", |_| async { Ok(Sole(7)) })).expect("it fits");
    let broken = work_fn("broken", |_| async { Err::<Sole, _>(WorkError::msg("no")) });
    let broken = scheduler.spawn(broken).expect("it fits");
    let shared = scheduler.spawn(work_fn("shared", |_| async { Ok(Sole(8)) })).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(sole.take().await, Ok(Sole(7)));
    assert!(matches!(broken.take().await, Err(TakeError::Failed(_))));
    let other = shared.clone();
    let refused = shared.take().await.unwrap_err().to_string();
    assert!(refused.starts_with("the value of work \"shared\" is shared"), "{refused}");
    let kept = other.value().expect("the other reference still has the value");
    assert!(matches!(other.take().await, Err(TakeError::Shared { .. })));
    assert_eq!(*kept, Sole(8));
}
