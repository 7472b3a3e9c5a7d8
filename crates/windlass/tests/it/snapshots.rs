//! Snapshots, the status of works in words, and explanations of waits.

use tokio::time::sleep;
use windlass::{
    Dependency, Reason, ResourceCost, RetryPolicy, WorkHandle, WorkId, WorkOutcome, WorkScheduler,
    WorkSpec, work_fn,
};

use crate::support::*;

fn gpus(n: u32) -> ResourceCost {
    ResourceCost::from([("gpu", n)])
}

/// Returns the status of each work after a time, by name.
async fn statuses(scheduler: &mut WorkScheduler, after: u64) -> Vec<String> {
    let handle = scheduler.handle();
    let looker = async move {
        sleep(ms(after)).await;
        let words = |work: windlass::WorkSnapshot| format!("{}: {}", work.name, work.status());
        handle.snapshot().into_iter().map(words).collect()
    };
    tokio::select! {
        seen = looker => seen,
        _ = scheduler.run_until_done() => panic!("it ended before the look"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_a_line_of_text_for_every_phase() {
    let builder = WorkScheduler::builder().max_concurrency(9).limits(gpus(1));
    let mut scheduler = builder.cancel_grace(secs(9)).build().expect("slots");
    let bad = add(&scheduler, fails("bad"));
    let good = add(&scheduler, ok("good"));
    add(&scheduler, deaf("holder").needs(gpus(1)));
    let verify = add(&scheduler, deaf("verify").retries(2));
    let apply = add(&scheduler, deaf("apply"));
    add(&scheduler, ok("publish").after([verify, good, apply]));
    add(&scheduler, ok("blocked").after([bad]));
    add(&scheduler, ok("spare").after([Dependency::failed(good)]));
    add(&scheduler, ok("trains").needs(gpus(1)));
    add(&scheduler, ok("gated").gate(std::future::pending()));
    let flaky = answers("flaky", ms(10), &[retry(secs(3))]);
    add(&scheduler, flaky.retries(5));
    add(&scheduler, answers("slow", ms(10), &[retry(secs(7500))]).retries(1));
    add(&scheduler, answers("tireless", ms(10), &[retry(secs(30))]).retries(u32::MAX));
    let cancelled = add(&scheduler, ok("cancelled").gate(std::future::pending()));
    scheduler.cancel(cancelled);
    let family = work_fn("family", |ctx| async move {
        for n in 0..8 {
            ctx.add_child(if n < 3 { ok("child") } else { deaf("child") })?;
        }
        Ok(())
    });
    add(&scheduler, family.priority(1));
    add(&scheduler, deaf("late").timeout(ms(5)));
    add(&scheduler, work_fn("asks", |ctx| async move { Ok(ctx.suspend(ctx.woken()).await?) }));
    scheduler.set_max_concurrency(20);
    let seen = statuses(&mut scheduler, 11).await;
    let expected = [
        "bad: failed: broken",
        "good: succeeded",
        "holder: running",
        "verify: running (attempt 1 of 3)",
        "apply: running",
        "publish: waiting for verify, apply",
        "blocked: blocked: it waits for \"bad\", which is Failed",
        "spare: not needed",
        "trains: waiting for its turn",
        "gated: waiting for its gate",
        "flaky: Retrying in 3 s (attempt 2 of 6)",
        "slow: Retrying in 2 h 5 min (attempt 2 of 2)",
        "tireless: Retrying in 30 s (attempt 2)",
        "cancelled: cancelled",
        "family: 3/8 children completed",
        "late: stopping, out of time",
        "asks: waiting, without a slot",
    ];
    assert_eq!(seen[..17], expected);
}

#[test]
fn a_status_names_only_the_first_of_many_works() {
    let scheduler = scheduler(1);
    let many: Vec<_> = (1..=1000).map(|n| add(&scheduler, ok(&format!("part {n}")))).collect();
    let sum = add(&scheduler, ok("sum").after(many));
    let status = scheduler.snapshot_of(sum).expect("it is known").status();
    assert!(status.starts_with("waiting for part 1, part 2, "), "{status}");
    assert!(status.ends_with(", part 8 and 992 more"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_counts_down() {
    let mut scheduler = scheduler(1);
    let policy = RetryPolicy::fixed(secs(90)).times(5);
    let work = answers("work", ms(0), &[retry(std::time::Duration::ZERO)]).retry(policy);
    let work = add(&scheduler, work);
    let handle = scheduler.handle();
    let looker = async move {
        let mut seen = Vec::new();
        for wait in [1, 45_000, 40_000, 4_500] {
            sleep(ms(wait)).await;
            seen.push(look(&handle, work).status());
        }
        seen
    };
    let seen = tokio::select! {
        seen = looker => seen,
        _ = scheduler.run_until_done() => panic!("it is tried five times"),
    };
    let expected = [
        "Retrying in 1 min 30 s (attempt 2 of 6)",
        "Retrying in 45 s (attempt 2 of 6)",
        "Retrying in 5 s (attempt 2 of 6)",
        "Retrying in 499 ms (attempt 2 of 6)",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_lists_dependencies_and_dependents() {
    let mut scheduler = scheduler(1);
    let a = add(&scheduler, ok("a"));
    let b = add(&scheduler, ok("b"));
    let c = add(&scheduler, ok("c").after([a, b]));
    scheduler.add_dependency(b, a).expect("no cycle");
    let deps = |work| look(&scheduler, work).deps;
    assert_eq!([deps(a), deps(b), deps(c)], [vec![], vec![a], vec![a, b]]);
    assert_eq!(look(&scheduler, a).dependents, [c, b]);
    _ = scheduler.run_until_done().await;
    let ids: Vec<_> = scheduler.snapshot().into_iter().map(|work| work.id).collect();
    assert_eq!(ids, [a, b, c], "by id");
    assert_eq!(ids.iter().map(WorkId::to_string).collect::<Vec<_>>(), ["1", "2", "3"]);
}

/// Returns the explanation of a work after some time.
async fn explained(scheduler: &mut WorkScheduler, work: WorkId, after: u64) -> String {
    let handle = scheduler.handle();
    let looker = async move {
        sleep(ms(after)).await;
        handle.explain(work).expect("it is known").to_string()
    };
    tokio::select! {
        seen = looker => seen,
        _ = scheduler.run_until_done() => panic!("it ended before the look"),
    }
}

/// Adds works of which the last one is looked at.
type Setup = fn(&WorkHandle) -> WorkId;

#[tokio::test(start_paused = true)]
async fn a_ready_work_without_a_runner_is_explained() {
    let mut scheduler = scheduler(2);
    let handle = scheduler.handle();
    let waits = add(&scheduler, ok("waits").priority(-1));
    let looks = work_fn("looks", move |_| {
        // The only thread polls this body.
        let why = handle.explain(waits).expect("it is known").to_string();
        async move { Ok(why) }
    });
    let looks = scheduler.spawn(looks).expect("it fits");
    let idle = scheduler.explain(waits).expect("it is known").to_string();
    assert_eq!(idle, "1 ahead of it in the queue, first \"looks\"");
    let idle = scheduler.explain(looks.id()).expect("it is known").to_string();
    assert_eq!(idle, "it is ready, but the scheduler does not run");
    _ = scheduler.run_until_done().await;
    let why = "it is ready and waits for a free runner: every thread polls a body";
    assert_eq!(*looks.await.expect("it only looks"), why);
}

#[tokio::test(start_paused = true)]
async fn every_reason_is_explained() {
    let cases: [(Setup, &str); 10] = [
        (
            |handle| {
                let (a, b) = (add(handle, deaf("a")), add(handle, deaf("b")));
                let c = add(handle, deaf("c"));
                let edges = [Dependency::from(a), Dependency::done(b), Dependency::failed(c)];
                add(handle, ok("work").after(edges))
            },
            "it waits for \"a\"; it waits for \"b\" to end; it waits for \"c\" to fail",
        ),
        (|handle| add(handle, ok("work").gate(std::future::pending())), "its gate has not opened"),
        (
            |handle| add(handle, answers("work", ms(0), &[retry(secs(3))]).retries(1)),
            "its next attempt is due in 3 s",
        ),
        (
            |handle| {
                add(handle, deaf("holder").needs(gpus(2)));
                add(handle, ok("work").needs(gpus(1)))
            },
            "it needs 1 of \"gpu\", and 0 is free for it, held by \"holder\"; it is first in the queue",
        ),
        (
            |handle| {
                add(handle, deaf("holder").needs(gpus(1)));
                add(handle, deaf("large").needs(gpus(2)));
                add(handle, ok("work").needs(gpus(1)))
            },
            "it needs 1 of \"gpu\", and 0 is free for it, held by \"holder\", some of it is \
             reserved for \"large\"; 1 ahead of it in the queue, first \"large\"",
        ),
        (
            |handle| {
                add(
                    handle,
                    work_fn("work", |ctx| async move { Ok(ctx.suspend(ctx.woken()).await?) }),
                )
            },
            "it is suspended and holds no slot",
        ),
        (
            |handle| {
                let parent = |ctx: windlass::WorkContext| {
                    for _ in 0..2 {
                        ctx.add_child(deaf("child")).expect("it runs");
                    }
                    async { WorkOutcome::Success }
                };
                add(handle, act("work", parent))
            },
            "2 of its children have not ended",
        ),
        (|handle| add(handle, deaf("work")), "it does not wait"),
        (
            |handle| {
                add(handle, deaf("other"));
                add(handle, ok("work"))
            },
            "it does not wait",
        ),
        (
            |handle| {
                add(handle, ok("first").needs([("calls", 1)]));
                add(handle, ok("work").needs([("calls", 1)]))
            },
            "it needs 1 of \"calls\", available in 1 min 0 s; it is first in the queue",
        ),
    ];
    for (setup, expected) in cases {
        let rate = windlass::Rate::per_minute(1);
        let builder = WorkScheduler::builder().max_concurrency(4);
        let builder = builder.limits(gpus(2)).rate("calls", rate);
        let mut scheduler = builder.build().expect("slots");
        add(&scheduler, deaf("keeps it running"));
        let work = setup(scheduler.as_ref());
        assert_eq!(explained(&mut scheduler, work, 1).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_work_starts_once_its_reasons_are_gone() {
    let builder = WorkScheduler::builder().max_concurrency(2).limits(gpus(1));
    let (mut scheduler, mut events) = watch(builder);
    let first = add(&scheduler, obedient("first"));
    let holder = add(&scheduler, obedient("holder").needs(gpus(1)));
    let spec: WorkSpec = ok("work").after([Dependency::done(first)]).gate(std::future::pending());
    let work = add(&scheduler, spec.needs(gpus(1)));
    let handle = scheduler.handle();
    let helper = tokio::spawn(async move {
        let mut steps = 0;
        while !handle.state(work).is_some_and(windlass::WorkState::is_terminal) {
            sleep(ms(1)).await;
            for reason in handle.explain(work).expect("it is known").reasons {
                let helped = match reason {
                    Reason::Dependency(on) => handle.cancel(on.work),
                    Reason::Gate => handle.open_gate(work),
                    Reason::Short { holders, .. } => {
                        holders.iter().all(|work| handle.cancel(*work))
                    }
                    Reason::Queued { ahead: 0, .. } => true,
                    other => panic!("{other:?} was not to be expected"),
                };
                assert!(helped);
            }
            steps += 1;
        }
        steps
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(helper.await.expect("it could help"), 3);
    let seen = events.seen();
    assert_eq!(seen.last().map(String::as_str), Some("2ms work Success 1"));
    assert_eq!(state(&scheduler, holder), windlass::WorkState::Cancelled);
    assert_eq!(scheduler.explain(work).expect("it is known").reasons, []);
}

#[tokio::test]
async fn a_name_compares_with_any_text() {
    let (mut scheduler, mut events) = watched(1);
    let mut changes = scheduler.subscribe();
    let fetch = scheduler.spawn(fails("fetch")).expect("nothing is in its way");
    _ = scheduler.run_until_done().await;
    let snapshot = look(&scheduler, fetch.id());
    assert_eq!(snapshot.name, "fetch");
    assert_eq!("fetch", snapshot.name);
    assert_eq!(snapshot.name, "fetch".to_owned());
    assert_ne!(snapshot.name, *"parse");
    assert_eq!(events.take()[0].name, "fetch");
    assert_eq!(fetch.await.expect_err("it fails").name, "fetch");
    let Some(windlass::Notice::Event(event)) = changes.recv().await else {
        unreachable!("there was a change");
    };
    assert_eq!(event.name, snapshot.name);
}
