//! Events.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use windlass::{
    CancellationToken, Notice, Phase, WorkEvent, WorkHandle, WorkId, WorkOutcome, WorkScheduler,
    WorkSchedulerConfig, WorkState, work_fn,
};

use crate::support::*;

/// A scheduler as the original design configures it, and the receiver of its channel for three events.
fn scheduler_with_channel() -> (WorkScheduler, mpsc::Receiver<WorkEvent>) {
    let (event_tx, events) = mpsc::channel(3);
    let event_tx = Some(event_tx);
    (WorkScheduler::new(WorkSchedulerConfig { event_tx, ..Default::default() }), events)
}

#[tokio::test(start_paused = true)]
async fn events_that_do_not_fit_into_the_channel_are_dropped_and_counted() {
    let (mut scheduler, mut events) = scheduler_with_channel();
    for n in 0..5 {
        add(&scheduler, ok(&format!("work {n}")));
    }
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().events_dropped, 7);
    assert_eq!(scheduler.metrics().success, 5, "nothing waits for the reader");
    let first: Vec<_> = std::iter::from_fn(|| events.try_recv().ok()).collect();
    assert_eq!(first.len(), 3);
    assert_eq!(first[0].state, WorkState::Running, "the earliest are kept");
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_after_the_receiver_of_the_channel_is_dropped() {
    let (mut scheduler, events) = scheduler_with_channel();
    drop(events);
    add(&scheduler, ok("work"));
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().events_dropped, 2);
}

#[tokio::test(start_paused = true)]
async fn the_channel_receives_the_events_of_a_subscription_that_change_a_state() {
    let (event_tx, mut channel) = mpsc::channel(1000);
    let config = WorkSchedulerConfig { event_tx: Some(event_tx), ..Default::default() };
    let mut scheduler = WorkScheduler::new(config);
    let subscription = scheduler.subscribe();
    fill(scheduler.as_ref());
    _ = scheduler.run_until_done().await;
    add(&scheduler, ok("cancelled by the drop"));
    drop(scheduler);
    let mut sent = Vec::new();
    while let Some(event) = channel.recv().await {
        sent.push(event);
    }
    let published = changes(subscription).await.into_iter().map(|notice| match notice {
        Notice::Event(event) => event,
        Notice::Missed(_) => panic!("nothing was missed"),
    });
    assert_eq!(sent, published.filter(WorkEvent::changes_state).collect::<Vec<_>>());
    check_order(&sent);
}

/// A graph in which everything happens.
fn fill(handle: &WorkHandle) {
    for n in 0..20 {
        let tried = answers("tried", ms(n), &[retry(ms(n + 1)), WorkOutcome::Success]);
        let tried = add(handle, tried.retries(1));
        let broken = add(handle, fails("broken").after([tried]));
        add(handle, ok("blocked").after([broken]));
        let parent = work_fn("parent", |ctx| async move {
            ctx.add_child(ok("child"))?;
            ctx.suspend(tokio::time::sleep(ms(3))).await?;
            ctx.join_children().await?;
            Ok(())
        });
        let parent = add(handle, parent.after([tried]));
        add(handle, ok("skipped").after([windlass::Dependency::failed(parent)]));
        add(handle, deaf("slow").timeout(ms(n)));
        let cancelled = add(handle, ok("cancelled").gate(std::future::pending()));
        handle.cancel(cancelled);
    }
}

fn may_follow(from: WorkState, to: WorkState) -> bool {
    use WorkState::*;
    match from {
        Pending => matches!(to, Running | Success | Failed | Blocked | Cancelled),
        Running => matches!(to, Pending | Success | Failed | Cancelled),
        _ => false,
    }
}

pub(crate) fn check_order(events: &[WorkEvent]) {
    let mut states: BTreeMap<WorkId, (WorkState, u32)> = BTreeMap::new();
    for pair in events.windows(2) {
        assert!(pair[0].number < pair[1].number, "totally ordered: {pair:?}");
        assert!(pair[0].at <= pair[1].at, "and by time: {pair:?}");
    }
    for event in events {
        let (state, attempt) = states.entry(event.id).or_insert((WorkState::Pending, 0));
        assert!(may_follow(*state, event.state), "{event:?} after {state}");
        let begins = event.state == WorkState::Running;
        assert_eq!(event.attempt, *attempt + u32::from(begins), "{event:?}");
        (*state, *attempt) = (event.state, event.attempt);
    }
    assert!(states.values().all(|(state, _)| state.is_terminal()), "every work has ended");
}

#[tokio::test(start_paused = true)]
async fn there_is_one_event_per_transition_in_order_with_number_and_time() {
    let (mut scheduler, mut events) = watched(3);
    fill(scheduler.as_ref());
    _ = scheduler.run_until_done().await;
    let seen = events.take();
    check_order(&seen);
    let works: std::collections::BTreeSet<_> = seen.iter().map(|event| event.id).collect();
    assert_eq!(works.len(), scheduler.metrics().total, "none is missing");
    assert_eq!(scheduler.metrics().events_dropped, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn events_are_in_order_on_several_threads() {
    let (mut scheduler, mut events) = watched(8);
    fill(scheduler.as_ref());
    _ = scheduler.run_until_done().await;
    check_order(&events.take());
}

/// Returns everything that a subscriber receives until the scheduler is dropped.
async fn changes(mut subscription: windlass::Subscription) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let Some(notice) = subscription.recv().await {
        notices.push(notice);
    }
    notices
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_receives_every_phase() {
    let mut scheduler = scheduler(1);
    let told = scheduler.subscribe();
    let work = work_fn("work", |ctx| async move {
        if ctx.attempt == 1 {
            return Err(windlass::WorkError::msg("not yet"));
        }
        ctx.suspend(tokio::time::sleep(ms(3))).await?;
        ctx.add_child(takes("child", ms(1)))?;
        Ok(())
    });
    let work = add(&scheduler, work.retries(1).gate(tokio::time::sleep(ms(5))));
    let follower = add(&scheduler, ok("follower").after([work]));
    _ = scheduler.run_until_done().await;
    drop(scheduler);
    let mut numbers = Vec::new();
    let mut phases: BTreeMap<WorkId, Vec<String>> = BTreeMap::new();
    for notice in changes(told).await {
        let Notice::Event(event) = notice else { panic!("nothing was missed") };
        numbers.push(event.number);
        let phase = format!("{:?}", event.phase);
        let phase = phase.split(' ').next().unwrap_or_default().to_owned();
        phases.entry(event.id).or_default().push(phase);
    }
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let first = [
        "Gated",
        "Ready",
        "Running",
        "Delayed",
        "Ready",
        "Running",
        "Suspended",
        "Resuming",
        "Running",
        "Joining",
        "Success",
    ];
    assert_eq!(phases[&work], first);
    assert_eq!(phases[&follower], ["Waiting", "Ready", "Running", "Success"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_numbered_before_the_first_subscription() {
    let mut scheduler = scheduler(1);
    let first = add(&scheduler, ok("first"));
    add(&scheduler, ok("second").after([first]));
    _ = scheduler.run_until_done().await;
    let told = scheduler.subscribe();
    add(&scheduler, ok("third"));
    _ = scheduler.run_until_done().await;
    drop(scheduler);
    let numbers = changes(told).await.into_iter().map(|notice| match notice {
        Notice::Event(event) => event.number,
        Notice::Missed(_) => panic!("nothing was missed"),
    });
    let before = 3 + 4;
    assert_eq!(numbers.collect::<Vec<_>>(), [before + 1, before + 2, before + 3]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_receives_the_number_of_missed_events() {
    let mut scheduler = scheduler(1);
    let mut told = scheduler.subscribe();
    for _ in 0..2000 {
        add(&scheduler, ok("work"));
    }
    _ = scheduler.run_until_done().await;
    let Some(Notice::Missed(missed)) = told.recv().await else { panic!("it was slow") };
    drop(scheduler);
    let rest = changes(told).await;
    assert_eq!(missed as usize + rest.len(), 2000 * 3, "Ready, Running, Success");
    let Notice::Event(first) = &rest[0] else { panic!("it is told once") };
    assert_eq!(first.number, missed + 1);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_a_stream_that_ends_with_the_scheduler() {
    use futures::StreamExt;
    let scheduler = scheduler(1);
    let (handle, told) = (scheduler.handle(), scheduler.subscribe());
    add(&handle, ok("work"));
    drop(scheduler);
    let phases = told.into_stream().map(|notice| match notice {
        Notice::Event(event) => event.phase,
        Notice::Missed(_) => panic!("nothing was missed"),
    });
    assert_eq!(phases.collect::<Vec<_>>().await, [Phase::Ready, Phase::Cancelled]);
    let late = changes(handle.subscribe());
    let late = tokio::time::timeout(secs(1), late).await.expect("it ends at once");
    assert_eq!(late, [], "there is nothing more to tell");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_emits_an_event_for_every_end() {
    let builder = WorkScheduler::builder().max_concurrency(3).cancel_grace(ms(1));
    let (mut scheduler, mut events) = watch(builder);
    fill(scheduler.as_ref());
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(ms(7)).await;
        stop.cancel();
    });
    let run = scheduler.run_until_done_with_cancel(cancel);
    _ = tokio::time::timeout(secs(60), run).await.expect("all of them stop");
    check_order(&events.take());
    assert_done(&scheduler);
}
