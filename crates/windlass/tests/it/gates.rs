//! Gates and conditions.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use windlass::{ConditionalWork, Gate, Phase, Reason, Work, WorkContext, WorkOutcome, WorkState};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_gated_work_waits_without_a_slot_once_its_dependencies_are_met() {
    let (mut scheduler, mut events) = watched(1);
    let first = add(&scheduler, takes("first", ms(10)));
    let gated = add(&scheduler, ok("gated").after([first]).gate(sleep(ms(30))));
    add(&scheduler, takes("other", ms(15)));
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        let early = handle.explain(gated).expect("it is known");
        sleep(ms(20)).await;
        (early, look(&handle, gated), handle.explain(gated).expect("it is known"))
    });
    _ = scheduler.run_until_done().await;
    let (early, waiting, why) = looker.await.expect("it only looks");
    assert_eq!(early.reasons, [Reason::Dependency(first.into()), Reason::Gate]);
    assert_eq!((waiting.phase, waiting.state), (Phase::Gated, WorkState::Pending));
    assert_eq!(waiting.status(), "waiting for its gate");
    assert_eq!(why.reasons, [Reason::Gate]);
    assert_eq!(why.to_string(), "its gate has not opened");
    let seen = events.seen();
    assert_eq!(seen[3..], ["25ms other Success 1", "30ms gated Running 1", "30ms gated Success 1"]);
}

#[tokio::test(start_paused = true)]
async fn several_gates_must_all_open() {
    let (mut scheduler, mut events) = watched(1);
    let condition =
        ConditionalWork::new(|| true, Act::new("gated", |_| async { WorkOutcome::Success }));
    let spec = windlass::WorkSpec::new(condition).gate(sleep(ms(10))).gate(sleep(ms(25)));
    add(&scheduler, spec);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[0], "25ms gated Running 1");
}

#[tokio::test(start_paused = true)]
async fn a_gate_can_be_opened_by_hand_also_before_it_is_reached() {
    let (mut scheduler, mut events) = watched(1);
    let first = add(&scheduler, takes("first", ms(10)));
    let early = add(&scheduler, ok("early").after([first]).gate(std::future::pending()));
    let late = add(&scheduler, ok("late").gate(std::future::pending()));
    assert!(scheduler.open_gate(early), "its dependency has not ended");
    assert!(!scheduler.open_gate(early), "it is open");
    assert!(!scheduler.open_gate(first), "it has none");
    assert!(!scheduler.open_gate(foreign()));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(30)).await;
        assert!(handle.open_gate(late));
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2], "10ms early Running 1");
    assert_eq!(state(&scheduler, late), WorkState::Success);
}

/// Counts how often its condition is checked, and notes when it is dropped.
struct Probe {
    asked: Arc<AtomicUsize>,
    dropped: Arc<AtomicBool>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

/// A work under a condition that holds from the n-th check on.
struct Case {
    work: ConditionalWork<Act>,
    asked: Arc<AtomicUsize>,
    dropped: Arc<AtomicBool>,
}

fn conditional(log: &Log, holds_at: usize) -> Case {
    let (asked, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let probe = Probe { asked: asked.clone(), dropped: dropped.clone() };
    let condition = move || {
        let probe = &probe;
        probe.asked.fetch_add(1, Ordering::Relaxed) + 1 >= holds_at
    };
    let (log, gone) = (log.clone(), dropped.clone());
    let act = Act::new("work", move |_| {
        log.add(format!("starts, condition dropped: {}", gone.load(Ordering::Relaxed)));
        async { WorkOutcome::Success }
    });
    Case { work: ConditionalWork::new(condition, act), asked, dropped }
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_checked_at_its_interval_and_dropped_once_it_holds() {
    for (poll, starts_at) in [(None, 400), (Some(ms(7)), 28)] {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        let Case { mut work, asked, dropped } = conditional(&log, 5);
        if let Some(poll) = poll {
            work = work.poll(poll);
        }
        scheduler.add_work(Box::new(work), vec![], 0);
        let start = Instant::now();
        _ = scheduler.run_until_done().await;
        assert_eq!(start.elapsed(), ms(starts_at));
        assert_eq!(log.take(), ["starts, condition dropped: true"]);
        assert_eq!(asked.load(Ordering::Relaxed), 5);
        assert!(dropped.load(Ordering::Relaxed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_while_the_condition_is_checked_is_not_lost() {
    let (mut scheduler, notify) = (scheduler(1), Arc::new(Notify::new()));
    let (bell, mut asked) = (notify.clone(), 0);
    let condition = move || {
        asked += 1;
        // It becomes true just after it was checked.
        bell.notify_waiters();
        asked > 1
    };
    let work =
        ConditionalWork::new(condition, Act::new("work", |_| async { WorkOutcome::Success }));
    scheduler.add_work(Box::new(work.poll(secs(3600)).notify(notify)), vec![], 0);
    let start = Instant::now();
    _ = scheduler.run_until_done().await;
    assert_eq!(start.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn a_notification_has_the_condition_checked_at_once() {
    let (mut scheduler, log) = (scheduler(1), Log::default());
    let Case { work, asked, .. } = conditional(&log, 2);
    let notify = Arc::new(Notify::new());
    scheduler.add_work(Box::new(work.poll(secs(3600)).notify(notify.clone())), vec![], 0);
    tokio::spawn(async move {
        sleep(ms(40)).await;
        notify.notify_one();
    });
    let start = Instant::now();
    _ = scheduler.run_until_done().await;
    assert_eq!((start.elapsed(), asked.load(Ordering::Relaxed)), (ms(40), 2));
}

#[tokio::test(start_paused = true)]
async fn a_gated_work_never_starts_if_it_is_cancelled_first() {
    let (mut scheduler, mut events) = watched(1);
    let log = Log::default();
    let Case { work, dropped, .. } = conditional(&log, usize::MAX);
    let work = scheduler.add_work(Box::new(work), vec![], 5);
    let handle = scheduler.handle();
    let canceller = tokio::spawn(async move {
        sleep(ms(250)).await;
        assert!(handle.cancel(work));
    });
    _ = scheduler.run_until_done().await;
    canceller.await.expect("it cancels");
    settle().await;
    assert!(dropped.load(Ordering::Relaxed), "the condition is gone");
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(events.seen(), ["250ms work Cancelled 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_has_opened_is_not_polled_again_for_a_retry() {
    let (mut scheduler, mut events) = watched(1);
    let work = answers("work", ms(0), &[retry(ms(10)), WorkOutcome::Success]);
    add(&scheduler, work.retries(1).gate(sleep(ms(5))));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[2], "15ms work Running 2");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_gate_or_a_condition_fails_the_work() {
    let (mut scheduler, mut events) = watched(1);
    let gate = add(&scheduler, ok("gate").gate(async { panic!("no way in") }).retries(3));
    let condition = || panic!("no idea");
    let work = ConditionalWork::new(condition, Act::new("condition", |_| async { failed("ran") }));
    let condition = scheduler.add_work(Box::new(work), vec![], 3);
    add(&scheduler, ok("follower").after([gate]));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.contains(&"0ns gate Failed 0".to_owned()), "{seen:?}");
    assert_eq!(last_error(&scheduler, gate), "the work panicked: no way in");
    assert_eq!(last_error(&scheduler, condition), "the work panicked: no idea");
    assert_eq!(scheduler.metrics().blocked, 1);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_gate_may_use_a_handle() {
    let mut scheduler = scheduler(1);
    let handle = scheduler.handle();
    let first = scheduler.spawn(takes("first", ms(10))).expect("it is taken in");
    let gate = async move {
        handle.execute(ok("asked for by the gate")).await.expect("it runs");
        first.await.expect("it succeeds");
    };
    let gated = add(&scheduler, ok("gated").gate(gate));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, gated), WorkState::Success);
    assert_eq!(scheduler.metrics().success, 3);
}

/// A work with a gate of its own.
struct Shy;

#[windlass::async_trait]
impl Work for Shy {
    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        WorkOutcome::Success
    }

    fn gate(&mut self) -> Option<Gate> {
        Some(Gate::new(sleep(ms(12))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_work_may_have_its_own_gate_and_is_named_after_its_type() {
    let (mut scheduler, mut events) = watched(1);
    scheduler.add_work(Box::new(Shy), vec![], 0);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["12ms Shy Running 1", "12ms Shy Success 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_polled_as_soon_as_it_is_reached_while_other_works_run() {
    let (mut scheduler, log, start) = (scheduler(1), Log::default(), Instant::now());
    let seen = log.clone();
    let first = add(&scheduler, ok("first"));
    let gate = async move { seen.add(format!("{:?}", start.elapsed())) };
    add(&scheduler, ok("gated").after([first]).gate(gate));
    add(&scheduler, takes("long", secs(1)));
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["0ns"], "and not when the long one has ended");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_panics_after_it_was_opened_by_hand_fails_no_work() {
    let mut scheduler = scheduler(1);
    let gate = async {
        sleep(ms(10)).await;
        panic!("too late");
    };
    let work = add(&scheduler, takes("gated", ms(20)).gate(gate));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(5)).await;
        assert!(handle.open_gate(work));
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(look(&scheduler, work).last_error, None);
    assert_eq!(state(&scheduler, work), WorkState::Success);
}

/// A gate that never opens. Its run has polled it when the sender that it holds has sent.
fn polled_gate(
    census: &Census,
) -> (impl Future<Output = ()> + Send + use<>, oneshot::Receiver<()>) {
    let (reach, reached) = oneshot::channel();
    let alive = census.one();
    let gate = async move {
        let _alive = alive;
        reach.send(()).expect("the test waits for it");
        std::future::pending::<()>().await;
    };
    (gate, reached)
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_dropped_before_a_shutdown_returns() {
    let (mut scheduler, census) = (scheduler(1), Census::default());
    let (gate, reached) = polled_gate(&census);
    add(&scheduler, ok("gated").gate(gate));
    let handle = scheduler.handle();
    let run = tokio::spawn(async move { scheduler.run_until_done().await });
    reached.await.expect("the run polls the gate");
    handle.shutdown().await;
    assert_eq!(census.alive(), 0);
    assert_eq!(run.await.expect("no panic").cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_a_dropped_run_is_dropped_before_a_shutdown_returns() {
    let (mut scheduler, census) = (scheduler(1), Census::default());
    let (gate, reached) = polled_gate(&census);
    add(&scheduler, ok("gated").gate(gate));
    tokio::select! {
        _ = scheduler.run_until_done() => unreachable!("the gate never opens"),
        reached = reached => reached.expect("the run polls the gate"),
    }
    scheduler.shutdown().await;
    assert_eq!(census.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_dropped_before_its_run_returns() {
    let (mut scheduler, census) = (scheduler(1), Census::default());
    let (gate, reached) = polled_gate(&census);
    let gated = add(&scheduler, ok("gated").gate(gate));
    let handle = scheduler.handle();
    let canceller = tokio::spawn(async move {
        reached.await.expect("the run polls the gate");
        handle.cancel(gated)
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(census.alive(), 0);
    assert!(canceller.await.expect("no panic"));
}

#[test]
fn a_gate_that_is_polled_on_another_thread_is_dropped_before_a_shutdown_returns() {
    within(secs(20), || {
        threads(2).block_on(async {
            for _ in 0..200 {
                let (mut scheduler, census) = (scheduler(1), Census::default());
                let alive = census.one();
                let gate = async move {
                    let _alive = alive;
                    loop {
                        tokio::task::yield_now().await;
                    }
                };
                add(&scheduler, ok("gated").gate(gate));
                let handle = scheduler.handle();
                let run = tokio::spawn(async move { scheduler.run_until_done().await });
                tokio::task::yield_now().await;
                handle.shutdown().await;
                assert_eq!(census.alive(), 0);
                _ = run.await.expect("no panic");
            }
        });
    });
}
