//! Dependencies, and the order in which ready works start.

use windlass::{
    Ageing, Amount, Dependency, DependencyError, ReopenError, SubmitError, WorkScheduler,
    WorkState, work_fn,
};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_failure_blocks_at_every_depth_once_each_before_the_run_is_done() {
    let (mut scheduler, mut events) = watched(4);
    let a = add(&scheduler, fails("a"));
    let b = add(&scheduler, ok("b").after([a]));
    let c = add(&scheduler, ok("c").after([b]));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen, ["0ns a Running 1", "0ns a Failed 1", "0ns b Blocked 0", "0ns c Blocked 0"]);
    assert_eq!(last_error(&scheduler, b), "it waits for \"a\", which is Failed");
    assert_eq!(last_error(&scheduler, c), "it waits for \"b\", which is Blocked");
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_has_ended_when_a_work_is_added_counts_at_once() {
    let (mut scheduler, mut events) = watched(4);
    let (good, bad) = (add(&scheduler, ok("good")), add(&scheduler, fails("bad")));
    _ = scheduler.run_until_done().await;
    events.take();
    let late = add(&scheduler, ok("late").after([good, bad]));
    assert_eq!(state(&scheduler, late), WorkState::Blocked, "at once, without a run");
    let met = add(&scheduler, ok("met").after([good]));
    assert_eq!(state(&scheduler, met), WorkState::Pending);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns late Blocked 0", "0ns met Running 1", "0ns met Success 1"]);
}

/// Returns how a work with these dependencies ends.
async fn check_edges(edges: &[(&str, &str)], end: &str) {
    let mut scheduler = scheduler(4);
    let mut after = Vec::new();
    for (kind, source) in edges {
        let source = match *source {
            "succeeds" => add(&scheduler, ok("source")),
            "fails" => add(&scheduler, fails("source")),
            "is cancelled" => {
                let source = add(&scheduler, ok("source"));
                assert!(scheduler.cancel(source));
                source
            }
            "is blocked" => {
                let broken = add(&scheduler, fails("broken"));
                add(&scheduler, ok("source").after([broken]))
            }
            "is skipped" => {
                let fine = add(&scheduler, ok("fine"));
                add(&scheduler, ok("source").after([Dependency::failed(fine)]))
            }
            other => panic!("{other:?} is no end"),
        };
        after.push(match *kind {
            "success" => Dependency::from(source),
            "done" => Dependency::done(source),
            _ => Dependency::failed(source),
        });
    }
    let work = add(&scheduler, ok("work").after(after));
    _ = scheduler.run_until_done().await;
    let seen = look(&scheduler, work);
    let skipped = if seen.skipped { "skipped " } else { "" };
    assert_eq!(format!("{skipped}{} {}", seen.state, seen.attempts), end, "{edges:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_work_makes_a_dependency_of_each_kind() {
    let mut scheduler = scheduler(1);
    let broken = scheduler.spawn(fails("broken")).expect("it fits");
    let after = [Dependency::failed(&broken), Dependency::done(&broken)];
    let met = add(&scheduler, ok("met").after(after));
    let blocked = add(&scheduler, ok("blocked").after([Dependency::from(&broken)]));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, met), WorkState::Success);
    assert_eq!(state(&scheduler, blocked), WorkState::Blocked);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_dependency_is_met_by_its_end() {
    const CASES: [(&str, &str, &str); 15] = [
        ("success", "succeeds", "Success 1"),
        ("success", "is skipped", "Success 1"),
        ("success", "fails", "Blocked 0"),
        ("success", "is cancelled", "Blocked 0"),
        ("success", "is blocked", "Blocked 0"),
        ("done", "succeeds", "Success 1"),
        ("done", "is skipped", "Success 1"),
        ("done", "fails", "Success 1"),
        ("done", "is cancelled", "Success 1"),
        ("done", "is blocked", "Success 1"),
        ("failed", "succeeds", "skipped Success 0"),
        ("failed", "is skipped", "skipped Success 0"),
        ("failed", "fails", "Success 1"),
        ("failed", "is cancelled", "Blocked 0"),
        ("failed", "is blocked", "Blocked 0"),
    ];
    for (kind, source, end) in CASES {
        check_edges(&[(kind, source)], end).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_skip_is_decided_after_all_dependencies_and_a_block_wins() {
    check_edges(&[("failed", "succeeds"), ("success", "succeeds")], "skipped Success 0").await;
    check_edges(&[("failed", "succeeds"), ("success", "fails")], "Blocked 0").await;
    check_edges(&[("success", "fails"), ("failed", "succeeds")], "Blocked 0").await;
    check_edges(&[("failed", "fails"), ("failed", "succeeds")], "skipped Success 0").await;
    check_edges(&[("done", "fails"), ("failed", "is cancelled")], "Blocked 0").await;

    let (mut scheduler, mut events) = watched(4);
    let fine = add(&scheduler, ok("fine"));
    let slow = add(&scheduler, takes("slow", ms(50)));
    let edges = [Dependency::failed(fine), Dependency::from(slow)];
    let skipped = add(&scheduler, ok("skipped").after(edges));
    add(&scheduler, ok("downstream").after([skipped]));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    let decided = ["50ms slow Success 1", "50ms skipped Success 0", "50ms downstream Running 1"];
    assert_eq!(seen[3..6], decided, "not before the slow one has ended");
    assert_eq!(seen.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_dependency_can_be_added_while_running_to_what_has_begun_no_attempt() {
    let (mut scheduler, mut events) = watched(1);
    let first = add(&scheduler, takes("first", ms(10)));
    let ready = add(&scheduler, ok("ready"));
    let last = add(&scheduler, ok("last"));
    let handle = scheduler.handle();
    let meddler = tokio::spawn(async move {
        tokio::time::sleep(ms(5)).await;
        let begun = handle.add_dependency(first, last);
        assert_eq!(begun, Err(DependencyError::Begun { work: first }));
        handle.add_dependency(ready, last).expect("it has not begun");
        assert_eq!(look(&handle, ready).status(), "waiting for last");
    });
    _ = scheduler.run_until_done().await;
    meddler.await.expect("it was let");
    let order: Vec<_> = events.take().into_iter().map(|event| event.id).collect();
    assert_eq!(order, [first, first, last, last, ready, ready]);
    let ended = scheduler.add_dependency(ready, last);
    assert_eq!(ended, Err(DependencyError::Begun { work: ready }));
}

#[tokio::test(start_paused = true)]
async fn a_work_between_two_attempts_cannot_get_another_dependency() {
    let mut scheduler = scheduler(1);
    let other = add(&scheduler, takes("other", secs(5)));
    let tried = answers("tried", ms(0), &[retry(secs(10)), windlass::WorkOutcome::Success]);
    let tried = add(&scheduler, tried.retries(1).priority(1));
    let handle = scheduler.handle();
    let meddler = tokio::spawn(async move {
        tokio::time::sleep(secs(1)).await;
        assert_eq!(state(&handle, tried), WorkState::Pending);
        handle.add_dependency(tried, other)
    });
    _ = scheduler.run_until_done().await;
    let refused = meddler.await.expect("it was asked");
    assert_eq!(refused, Err(DependencyError::Begun { work: tried }));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_own_or_cyclic_dependency_is_refused_and_nothing_changes() {
    let (mut scheduler, mut events) = watched(1);
    let a = add(&scheduler, ok("a"));
    let b = add(&scheduler, ok("b").after([a]));
    let c = add(&scheduler, ok("c").after([b]));

    let unknown = forgotten(&scheduler);
    events.take();
    let refused = scheduler.submit(ok("x").after([unknown]));
    assert_eq!(refused, Err(SubmitError::UnknownDependency { work: unknown }));
    let refused = Err(DependencyError::UnknownWork { work: unknown });
    assert_eq!(scheduler.add_dependency(a, unknown), refused);
    assert_eq!(scheduler.add_dependency(unknown, a), refused);

    let own = scheduler.add_dependency(a, a);
    assert_eq!(own, Err(DependencyError::Cycle { path: vec![a, a] }));
    let Err(DependencyError::Cycle { path }) = scheduler.add_dependency(a, c) else {
        panic!("it is a cycle")
    };
    assert_eq!((path.len(), path.first()), (4, path.last()), "a path and back again: {path:?}");
    assert!([a, b, c].iter().all(|work| path.contains(work)), "{path:?}");
    assert_eq!(events.seen(), [""; 0], "nothing has happened");
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().success, 3);
    assert_eq!(scheduler.metrics().total, 3);
}

#[tokio::test(start_paused = true)]
async fn a_work_of_another_scheduler_is_refused_wherever_an_id_is_taken() {
    let mut there = scheduler(1);
    let foreign = there.spawn(fails("foreign")).expect("it fits");
    _ = there.run_until_done().await;
    let (scheduler, mut events) = watched(1);
    // The one with the same number.
    let own = add(&scheduler, deaf("own"));
    let id = foreign.id();
    assert_eq!((own.number(), id.number()), (1, 1));
    assert_ne!(own, id);

    for after in [vec![Dependency::from(&foreign)], vec![own.into(), Dependency::done(id)]] {
        let refused = scheduler.submit(ok("x").after(after)).expect_err("one is foreign");
        assert_eq!(refused, SubmitError::OtherScheduler { work: id });
        assert_eq!(refused.to_string(), "work 1 belongs to another scheduler");
    }
    let refused = Err(DependencyError::OtherScheduler { work: id });
    assert_eq!(scheduler.add_dependency(own, id), refused);
    assert_eq!(scheduler.add_dependency(id, own), refused);
    assert_eq!(scheduler.reopen(id), Err(ReopenError::OtherScheduler { work: id }));
    assert!(!scheduler.cancel(id) && !scheduler.open_gate(id));
    assert!(!scheduler.forget(id) && !scheduler.wake(id));
    assert!(scheduler.state(id).is_none() && scheduler.take_work(id).is_none());
    assert!(scheduler.snapshot_of(id).is_none() && scheduler.explain(id).is_none());
    assert_eq!((events.seen().len(), scheduler.snapshot().len()), (0, 1), "nothing has happened");
}

#[tokio::test]
async fn a_work_of_another_scheduler_is_refused_as_the_dependency_of_a_child() {
    let (mut scheduler, foreign) = (scheduler(1), foreign());
    let parent = work_fn("parent", move |ctx| async move {
        Ok(ctx.add_child(ok("child").after([foreign])).expect_err("it is foreign"))
    });
    let parent = scheduler.spawn(parent).expect("it fits");
    _ = scheduler.run_until_done().await;
    let refused = SubmitError::OtherScheduler { work: foreign };
    assert_eq!(*parent.await.expect("it has no child"), refused);
}

#[tokio::test]
#[should_panic(expected = "work 1 belongs to another scheduler")]
async fn add_work_panics_on_an_id_of_another_scheduler() {
    scheduler(1).add_work(
        Box::new(Act::new("x", |_| async { failed("never") })),
        vec![foreign()],
        0,
    );
}

#[tokio::test(start_paused = true)]
async fn ready_works_start_by_priority_and_then_in_the_order_of_becoming_ready() {
    for _ in 0..20 {
        let (mut scheduler, mut events) = watched(1);
        let head = add(&scheduler, takes("head", ms(10)).priority(9));
        for n in 0..4 {
            add(&scheduler, ok(&format!("follower {n}")).after([head]));
            add(&scheduler, ok(&format!("plain {n}")));
            add(&scheduler, ok(&format!("urgent {n}")).priority(1));
        }
        _ = scheduler.run_until_done().await;
        let started = events.take().into_iter().filter(|event| event.state == WorkState::Running);
        let started: Vec<_> = started.map(|event| event.name.to_string()).collect();
        let groups = ["urgent", "plain", "follower"];
        let group = |name| (0..4).map(move |n| format!("{name} {n}"));
        let expected: Vec<_> =
            ["head".to_owned()].into_iter().chain(groups.into_iter().flat_map(group)).collect();
        assert_eq!(started, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn ageing_makes_waiting_works_more_urgent() {
    for (rate, first) in [(0, "urgent"), (1, "old")] {
        let ageing = Ageing::new(Amount::from(rate), None).expect("a rate");
        let builder = WorkScheduler::builder().max_concurrency(1).ageing(ageing);
        let (mut scheduler, mut events) = watch(builder);
        add(&scheduler, takes("holder", secs(10)));
        add(&scheduler, ok("old"));
        let handle = scheduler.handle();
        tokio::spawn(async move {
            tokio::time::sleep(secs(8)).await;
            add(&handle, ok("urgent").priority(5));
        });
        _ = scheduler.run_until_done().await;
        assert_eq!(&*events.take()[2].name, first, "ageing by {rate} per second");
    }
}
