//! Parents and their children.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use windlass::{
    Phase, Reason, SubmitError, WorkContext, WorkError, WorkOutcome, WorkScheduler, WorkSpec,
    WorkState, work_after, work_fn,
};

use crate::support::*;

/// A parent whose body adds these children and returns.
fn parent(name: &str, children: impl Fn() -> Vec<WorkSpec> + Send + 'static) -> WorkSpec {
    act(name, move |ctx| {
        for child in children() {
            ctx.add_child(child).expect("its attempt is under way");
        }
        async { WorkOutcome::Success }
    })
}

#[tokio::test(start_paused = true)]
async fn a_parent_ends_after_its_children_and_its_dependents_wait_for_the_family() {
    let (mut scheduler, mut events) = watched(1);
    let family = add(&scheduler, parent("parent", || vec![takes("a", ms(10)), takes("b", ms(20))]));
    add(&scheduler, ok("follower").after([family]));
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        sleep(ms(15)).await;
        (look(&handle, family), handle.explain(family).expect("it is known"))
    });
    _ = scheduler.run_until_done().await;
    let (joining, why) = looker.await.expect("it only looks");
    assert_eq!((joining.phase, joining.state), (Phase::Joining, WorkState::Running));
    assert_eq!(joining.status(), "1/2 children completed");
    assert_eq!(why.reasons, [Reason::Children { open: 1 }]);
    let expected = [
        "0ns parent Running 1",
        "0ns a Running 1",
        "10ms a Success 1",
        "10ms b Running 1",
        "30ms b Success 1",
        "30ms parent Success 1",
        "30ms follower Running 1",
        "30ms follower Success 1",
    ];
    assert_eq!(events.seen(), expected);
}

fn nested(depth: u32) -> WorkSpec {
    parent(&format!("level {depth}"), move || match depth {
        0 => vec![],
        _ => vec![nested(depth - 1), nested(depth - 1)],
    })
}

#[tokio::test(start_paused = true)]
async fn depth_never_deadlocks_at_one_slot() {
    let mut scheduler = scheduler(1);
    add(&scheduler, nested(7));
    let deep = work_fn("joins", |ctx| async move {
        ctx.add_child(work_fn("joins too", |ctx| async move {
            ctx.add_child(nested(3))?;
            ctx.join_children().await?;
            Ok(())
        }))?;
        assert_eq!(ctx.join_children().await?.succeeded, 1);
        Ok(())
    });
    add(&scheduler, deep);
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().success, 255 + 2 + 15);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_failed_child_cancels_its_siblings_and_then_fails_the_parent() {
    let (mut scheduler, mut events) = watched(4);
    let family = parent("parent", || {
        let grandchildren = parent("brother", || vec![obedient("nephew")]);
        let breaks = answers("breaks", ms(10), &[failed("out of luck")]);
        vec![obedient("sister"), grandchildren, breaks, takes("quick", ms(5))]
    });
    let family = add(&scheduler, family);
    add(&scheduler, ok("follower").after([family]));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen[6..8], ["5ms quick Success 1", "10ms breaks Failed 1"]);
    let mut rest = seen[8..].to_vec();
    assert_eq!(rest.split_off(rest.len() - 2), ["10ms parent Failed 1", "10ms follower Blocked 0"]);
    rest.sort();
    let cancelled =
        ["10ms brother Cancelled 1", "10ms nephew Cancelled 1", "10ms sister Cancelled 1"];
    assert_eq!(rest, cancelled);
    let error = "its child \"breaks\" failed: out of luck";
    assert_eq!(last_error(&scheduler, family), error);
}

#[tokio::test(start_paused = true)]
async fn a_parent_names_the_child_that_failed_also_after_it_is_forgotten() {
    let scheduler = WorkScheduler::builder().keep_ended(0).build();
    let mut scheduler = scheduler.expect("it can run something");
    let family = parent("parent", || vec![fails("breaks")]);
    let family = scheduler.spawn(family).expect("it fits");
    _ = scheduler.run_until_done().await;
    let failure = family.await.expect_err("its child failed");
    assert_eq!(failure.error.as_deref(), Some("its child \"breaks\" failed: broken"));
    assert_eq!(scheduler.metrics().total, 0);
}

/// A chain of works that fail because their only child does; the last one fails by itself.
fn failing(depth: u32) -> WorkSpec {
    match depth {
        0 => fails("deepest"),
        _ => parent(&format!("level {depth}"), move || vec![failing(depth - 1)]),
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_deep_family_names_the_child_and_where_it_began() {
    let mut scheduler = scheduler(1);
    let family = add(&scheduler, failing(300));
    let one = add(&scheduler, failing(1));
    _ = scheduler.run_until_done().await;
    let error = "its child \"level 299\" failed: work \"deepest\" failed: broken";
    assert_eq!(last_error(&scheduler, family), error);
    assert_eq!(last_error(&scheduler, one), "its child \"deepest\" failed: broken");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_parent_reaches_every_descendant() {
    let (mut scheduler, mut events) = watched(3);
    let root = parent("root", || {
        let inner = || parent("inner", || vec![obedient("leaf"), ok("gated").gate(sleep(secs(9)))]);
        vec![inner(), inner()]
    });
    let root = add(&scheduler, root);
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(20)).await;
        assert!(handle.cancel(root));
    });
    _ = scheduler.run_until_done().await;
    let ends: Vec<_> = events.seen().into_iter().filter(|line| !line.contains("Running")).collect();
    assert_eq!(ends.len(), 7);
    assert!(ends.iter().all(|line| line.starts_with("20ms") && line.contains("Cancelled")));
    assert_eq!(ends[6], "20ms root Cancelled 1", "after all its descendants");
}

#[tokio::test(start_paused = true)]
async fn a_child_is_refused_by_a_parent_that_is_cancelled_or_finished_or_failing() {
    let (mut scheduler, log) = (scheduler(4), Log::default());
    let seen = log.clone();
    let refused = move |ctx: &WorkContext| {
        let Err(error @ SubmitError::NoParent { .. }) = ctx.add_child(ok("child")) else {
            panic!("its parent takes none")
        };
        seen.add(error);
    };
    let after_the_end = refused.clone();
    add(
        &scheduler,
        act("finished", move |ctx| {
            let refused = after_the_end.clone();
            tokio::spawn(async move {
                sleep(ms(10)).await;
                refused(&ctx);
            });
            async { WorkOutcome::Success }
        }),
    );
    let when_cancelled = refused.clone();
    add(
        &scheduler,
        act("cancelled", move |ctx| {
            let refused = when_cancelled.clone();
            async move {
                ctx.handle().cancel(ctx.id);
                refused(&ctx);
                WorkOutcome::Success
            }
        }),
    );
    add(
        &scheduler,
        act("failing", move |ctx| {
            let refused = refused.clone();
            async move {
                ctx.add_child(fails("child")).expect("it runs");
                sleep(ms(5)).await;
                refused(&ctx);
                WorkOutcome::Success
            }
        }),
    );
    _ = scheduler.run_until_done().await;
    sleep(ms(20)).await;
    let why = "takes no more children: it has not begun, is stopping or has ended, or a child of it has failed";
    assert_eq!(log.take(), [2, 3, 1].map(|work| format!("work {work} {why}")));
    assert_eq!(scheduler.metrics().total, 4, "one child was taken in");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_an_ancestor_is_a_cycle() {
    let mut scheduler = scheduler(4);
    let (inside, log) = (scheduler.handle(), Log::default());
    let seen = log.clone();
    let root = work_fn("root", move |ctx| {
        let (handle, seen) = (inside.clone(), seen.clone());
        let follower = add(&handle, ok("follower").after([ctx.id]));
        async move {
            let own = ctx.add_child(ok("child").after([ctx.id])).unwrap_err();
            seen.add(own);
            let later = ctx.add_child(ok("child").after([follower])).unwrap_err();
            seen.add(later);
            let root = ctx.id;
            ctx.add_child(act("inner", move |ctx| {
                seen.add(ctx.add_child(ok("leaf").after([root])).unwrap_err());
                async { WorkOutcome::Success }
            }))?;
            Ok(())
        }
    });
    add(&scheduler, root);
    _ = scheduler.run_until_done().await;
    let errors = log.take();
    assert_eq!(errors.len(), 3);
    assert!(
        errors.iter().all(|error| error.contains("cannot wait for what ends after it")),
        "{errors:?}"
    );
    assert_eq!(scheduler.metrics().success, 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_not_interrupted_by_a_failed_child() {
    let (mut scheduler, mut events) = watched(2);
    let family = work_fn("parent", |ctx| async move {
        ctx.add_child(fails("child"))?;
        sleep(ms(50)).await;
        assert!(!ctx.is_cancelled(), "it was not asked to stop");
        let children = ctx.children();
        assert_eq!((children.total, children.failed, children.open()), (1, 1, 0));
        Ok(())
    });
    add(&scheduler, family);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen().last().map(String::as_str), Some("50ms parent Failed 1"));
}

#[tokio::test(start_paused = true)]
async fn a_parent_with_retries_left_is_retried_and_its_children_are_forgotten() {
    let (mut scheduler, mut events) = watched(4);
    let tries = Arc::new(AtomicU32::new(0));
    let family = parent("parent", move || {
        let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        vec![ok("fine"), if first { fails("child") } else { ok("child") }]
    });
    let family = add(&scheduler, family.retries(1));
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        sleep(ms(500)).await;
        (look(&handle, family), handle.snapshot().len())
    });
    _ = scheduler.run_until_done().await;
    let (delayed, known) = looker.await.expect("it only looks");
    assert_eq!((delayed.children.total, known), (0, 1), "they are forgotten");
    assert_eq!(delayed.last_error.as_deref(), Some("its child \"child\" failed: broken"));
    let seen = events.seen();
    assert_eq!(seen.last().map(String::as_str), Some("1s parent Success 2"));
    let seen = look(&scheduler, family);
    assert_eq!((seen.children.total, seen.children.succeeded), (2, 2));
    assert_eq!(scheduler.metrics().total, 3);
    assert_eq!(scheduler.metrics().forgotten, 2);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_fails_itself_cancels_its_children() {
    for (answer, end) in [(failed("by itself"), "Failed"), (WorkOutcome::Cancelled, "Cancelled")] {
        let (mut scheduler, mut events) = watched(4);
        let family = act("parent", move |ctx| {
            let answer = answer.clone();
            async move {
                ctx.add_child(obedient("child")).expect("it runs");
                sleep(ms(10)).await;
                answer
            }
        });
        add(&scheduler, family);
        _ = scheduler.run_until_done().await;
        let ends = ["10ms child Cancelled 1".to_owned(), format!("10ms parent {end} 1")];
        assert_eq!(events.seen()[2..], ends);
    }
}

#[tokio::test(start_paused = true)]
async fn join_children_returns_after_the_children_have_ended() {
    let (mut scheduler, mut events) = watched(1);
    let family = work_fn("parent", |ctx| async move {
        for n in 1..=3 {
            ctx.add_child(takes(&format!("child {n}"), ms(10)))?;
        }
        let before = ctx.children();
        assert_eq!((before.total, before.open()), (3, 3));
        let after = ctx.join_children().await?;
        assert_eq!((after.total, after.succeeded, after.failed), (3, 3, 0));
        sleep(ms(5)).await;
        ctx.add_child(takes("late child", ms(10)))?;
        Ok(())
    });
    let family = add(&scheduler, family);
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        sleep(ms(25)).await;
        look(&handle, family)
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(looker.await.expect("it only looks").status(), "2/3 children completed");
    assert_eq!(events.seen().last().map(String::as_str), Some("45ms parent Success 1"));
}

#[tokio::test(start_paused = true)]
async fn a_parent_receives_the_values_of_its_children() {
    let mut scheduler = scheduler(1);
    let sum = work_fn("sum", |ctx| async move {
        let fails = ctx.attempt == 1;
        let one = ctx.spawn_child(work_fn("one", |_| async { Ok(1) }))?;
        let two = work_after("two", &one, move |_, one| async move {
            if fails { Err(WorkError::msg("not yet")) } else { Ok(*one + 1) }
        });
        let two = ctx.spawn_child(two)?;
        let brought = (ctx.suspend(one).await??, ctx.suspend(two).await??);
        Ok(*brought.0 + *brought.1)
    });
    let sum = scheduler.spawn(sum.retries(1)).expect("it fits");
    _ = scheduler.run_until_done().await;
    let parent = look(&scheduler, sum.id());
    assert_eq!((parent.attempts, parent.children.succeeded), (2, 2));
    assert_eq!(sum.await.as_deref(), Ok(&3));
}

#[tokio::test(start_paused = true)]
async fn joining_no_children_returns_and_a_cancel_ends_it() {
    let (mut scheduler, log) = (scheduler(2), Log::default());
    add(
        &scheduler,
        work_fn("childless", |ctx| async move {
            assert_eq!(ctx.join_children().await?.total, 0);
            Ok(())
        }),
    );
    let seen = log.clone();
    let stuck = work_fn("stuck", move |ctx| {
        let seen = seen.clone();
        async move {
            ctx.add_child(obedient("child"))?;
            let joined = ctx.join_children().await;
            seen.add(format!("{joined:?}"));
            Err::<(), _>(WorkError::from(joined.unwrap_err()))
        }
    });
    let stuck = add(&scheduler, stuck);
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(5)).await;
        handle.cancel(stuck);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["Err(Cancelled)"]);
    assert_eq!(scheduler.metrics().cancelled, 2);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn children_wait_in_the_ordinary_queue() {
    let (mut scheduler, mut events) = watched(1);
    add(&scheduler, parent("parent", || vec![ok("child"), ok("urgent child").priority(3)]));
    add(&scheduler, ok("other"));
    _ = scheduler.run_until_done().await;
    let started = events.take().into_iter().filter(|event| event.state == WorkState::Running);
    let started: Vec<_> = started.map(|event| event.name.to_string()).collect();
    assert_eq!(started, ["parent", "urgent child", "other", "child"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_a_parent_reaches_its_children_and_its_timeout_waits_for_them() {
    let (mut scheduler, mut events) = watched(2);
    let timed = parent("timed", || vec![takes("child", secs(9))]).timeout(ms(10));
    add(&scheduler, timed);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen().last().map(String::as_str), Some("9s timed Success 1"));
    let deadline = tokio::time::Instant::now() + secs(1);
    add(&scheduler, parent("late", || vec![obedient("child")]).deadline(deadline));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2..], ["10s child Cancelled 1", "10s late Failed 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_over_does_not_see_the_children_of_the_next() {
    let mut scheduler = scheduler(9);
    let log = Log::default();
    let seen = log.clone();
    let parent = act("parent", move |ctx| {
        let (old, seen) = (ctx.clone(), seen.clone());
        async move {
            if ctx.attempt == 1 {
                tokio::spawn(async move {
                    sleep(ms(5)).await;
                    let joined = old.join_children().await.expect("it is not asked to stop");
                    seen.add(format!("{} children", joined.total));
                });
                return retry(ms(1));
            }
            ctx.add_child(takes("child", ms(10))).expect("it runs");
            WorkOutcome::Success
        }
    });
    add(&scheduler, parent.retries(1));
    _ = scheduler.run_until_done().await;
    sleep(ms(10)).await;
    assert_eq!(log.take(), ["0 children"]);
}

/// A work with a child that has a child, and so on.
fn chain(depth: u32) -> WorkSpec {
    parent("generation", move || (0..depth.min(1)).map(|_| chain(depth - 1)).collect())
}

/// Returns the processor time of a family of so many generations, the shortest of several runs.
async fn generations_take(depth: u32) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..4 {
        let mut scheduler = scheduler(1);
        add(&scheduler, chain(depth));
        let start = processor_time();
        _ = scheduler.run_until_done().await;
        shortest = shortest.min(processor_time() - start);
        assert_eq!(scheduler.metrics().success, depth as usize + 1);
    }
    shortest
}

#[tokio::test]
async fn the_cost_of_a_generation_does_not_grow_with_their_number() {
    let (few, many) = (generations_take(100).await, generations_take(2000).await);
    assert!(many < few * 80, "20 times as many generations: {few:?}, then {many:?}");
}
