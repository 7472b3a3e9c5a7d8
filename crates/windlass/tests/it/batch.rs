//! Batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::{BatchWork, Phase, SubmitError, WorkSpec, WorkState};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn children_are_created_lazily_and_at_most_width_are_alive() {
    let (mut scheduler, mut events) = watched(100);
    let yielded = Arc::new(AtomicUsize::new(0));
    let count = yielded.clone();
    let children = move || {
        let count = count.clone();
        (0..50).map(move |n| {
            count.fetch_add(1, Ordering::Relaxed);
            takes(&format!("child {n}"), ms(10 + n % 3))
        })
    };
    let batch = add(&scheduler, WorkSpec::new(BatchWork::new("batch", 4, children)));
    assert_eq!(yielded.load(Ordering::Relaxed), 0, "not before it runs");
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        let mut most = 0;
        while !state(&handle, batch).is_terminal() {
            let seen = look(&handle, batch);
            let known = handle.metrics();
            most = most.max(seen.children.open());
            assert!(known.total <= 1 + 4, "finished children are freed: {known:?}");
            assert!(yielded.load(Ordering::Relaxed) <= seen.children.total + 1, "lazily");
            if seen.children.total > 0 {
                assert_eq!(seen.phase, Phase::Suspended, "it holds no slot");
            }
            tokio::time::sleep(ms(1)).await;
        }
        most
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(looker.await.expect("never too many"), 4);
    let events = events.take();
    assert_eq!(events.len(), 2 + 50 * 2);
    let mut alive = 0_usize;
    for event in events.iter().filter(|event| event.id != batch) {
        alive = alive
            .checked_add_signed(if event.state.is_terminal() { -1 } else { 1 })
            .expect("begun");
        assert!(alive <= 4);
    }
    let seen = look(&scheduler, batch);
    assert_eq!((seen.state, seen.children.succeeded), (WorkState::Success, 50));
    assert_eq!(scheduler.metrics().total, 1, "all of them are freed");
    assert_eq!(scheduler.metrics().forgotten, 50);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_succeeds() {
    let (mut scheduler, mut events) = watched(1);
    add(&scheduler, WorkSpec::new(BatchWork::new("empty", 1, Vec::new)));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns empty Running 1", "0ns empty Success 1"]);
}

#[tokio::test(start_paused = true)]
async fn any_failure_fails_the_batch_after_cancelling_the_rest() {
    let (mut scheduler, mut events) = watched(100);
    let children = || {
        (0..1000).map(|n| match n {
            2 => answers("breaks", ms(10), &[failed("bad block")]),
            _ => obedient(&format!("child {n}")),
        })
    };
    let batch = add(&scheduler, WorkSpec::new(BatchWork::new("batch", 4, children)));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen[5], "10ms breaks Failed 1");
    let cancelled = [0, 1, 3].map(|n| format!("10ms child {n} Cancelled 1"));
    let mut rest = seen[6..9].to_vec();
    rest.sort();
    assert_eq!(rest, cancelled);
    assert_eq!(seen[9..], ["10ms batch Failed 1"], "no other child was added");
    let error = "its child \"breaks\" failed: bad block";
    assert_eq!(last_error(&scheduler, batch), error);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_retry_starts_the_iterator_anew() {
    let mut scheduler = scheduler(2);
    let (log, tries) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let seen = log.clone();
    let children = move || {
        let (seen, attempt) = (seen.clone(), tries.fetch_add(1, Ordering::Relaxed));
        (0..3).map(move |n| {
            seen.add(format!("{attempt}.{n}"));
            if (attempt, n) == (0, 1) { fails("child") } else { ok("child") }
        })
    };
    let batch = WorkSpec::new(BatchWork::new("batch", 1, children)).retries(1);
    let batch = add(&scheduler, batch);
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, batch), WorkState::Success);
    let seen = log.take();
    assert_eq!(seen[..2], ["0.0", "0.1"]);
    assert_eq!(seen[seen.len() - 3..], ["1.0", "1.1", "1.2"]);
    assert_eq!(scheduler.metrics().total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_batch_cancels_its_children_and_adds_no_more() {
    let (mut scheduler, mut events) = watched(100);
    let children = || (0..1000).map(|_| obedient("child"));
    let batch = add(&scheduler, WorkSpec::new(BatchWork::new("batch", 3, children)));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(10)).await;
        handle.cancel(batch);
    });
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen.len(), 8);
    assert_eq!(seen[7], "10ms batch Cancelled 1");
    assert_eq!(scheduler.metrics().cancelled, 4);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_iterator_fails_the_batch() {
    let mut scheduler = scheduler(4);
    let children = || {
        (0..10).map(|n| match n {
            2 => panic!("no more blocks"),
            _ => obedient("child"),
        })
    };
    let batch = WorkSpec::new(BatchWork::new("batch", 5, children)).retries(3);
    let batch = add(&scheduler, batch);
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, batch), WorkState::Failed);
    assert_eq!(last_error(&scheduler, batch), "the work panicked: no more blocks");
    assert_eq!(scheduler.metrics().cancelled, 2, "its children were asked to stop");
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_can_never_run_fails_the_batch() {
    let mut scheduler = scheduler(4);
    let unknown = windlass::ResourceCost::from([("gpu", 1)]);
    let needs = unknown.clone();
    let children = move || [ok("fine"), ok("never").needs(unknown.clone())];
    let batch = add(&scheduler, WorkSpec::new(BatchWork::new("batch", 1, children)));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, batch), WorkState::Failed);
    let Err(refused @ SubmitError::Cost(_)) = scheduler.submit(ok("never").needs(needs)) else {
        panic!("no level declares that")
    };
    assert_eq!(last_error(&scheduler, batch), format!("a child was refused: {refused}"));
}

#[tokio::test(start_paused = true)]
async fn batches_of_batches_run_at_one_slot() {
    let mut scheduler = scheduler(1);
    let inner =
        || (0..5).map(|_| WorkSpec::new(BatchWork::new("inner", 2, || (0..5).map(|_| ok("leaf")))));
    let batch = add(&scheduler, WorkSpec::new(BatchWork::new("outer", 3, inner)));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, batch), WorkState::Success);
    assert_eq!(scheduler.metrics().attempts, 1 + 5 + 25);
}

#[test]
#[should_panic(expected = "a batch of width 0 could never run anything")]
fn a_batch_has_a_width() {
    let _ = BatchWork::new("batch", 0, Vec::new);
}

#[tokio::test(start_paused = true)]
async fn the_iterator_is_not_advanced_after_a_failure() {
    let mut scheduler = scheduler(100);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let children = move || {
        let count = count.clone();
        (0..1000).map(move |n| {
            count.fetch_add(1, Ordering::Relaxed);
            match n {
                2 => answers("breaks", ms(10), &[failed("bad block")]),
                _ => obedient(&format!("child {n}")),
            }
        })
    };
    add(&scheduler, WorkSpec::new(BatchWork::new("batch", 4, children)));
    _ = scheduler.run_until_done().await;
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}
