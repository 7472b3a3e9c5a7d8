//! Spans and events of `tracing`.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use windlass::{Dependency, RetryPolicy, WorkError, WorkOutcome, work_fn};

use crate::support::*;

/// Records spans and events with their fields.
struct Recorder {
    spans: Log,
    events: Log,
    next: AtomicU64,
}

impl Recorder {
    /// Records everything until the guard is dropped.
    fn start() -> (Log, Log, DefaultGuard) {
        let (spans, events) = (Log::default(), Log::default());
        let recorder = Self { spans: spans.clone(), events: events.clone(), next: 1.into() };
        (spans, events, tracing::subscriber::set_default(recorder))
    }
}

#[derive(Default)]
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("windlass")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.spans.add(format!("{} {}", span.metadata().name(), fields.0.join(" ")));
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.events.add(format!("{} {}", event.metadata().level(), fields.0.join(" ")));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_span_with_its_work_and_number() {
    let (spans, _events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    add(&scheduler, answers("flaky", ms(1), &[retry(ms(1)), WorkOutcome::Success]).retries(1));
    add(&scheduler, fails("broken"));
    _ = scheduler.run_until_done().await;
    let expected = [
        "attempt work=flaky id=1 attempt=1",
        "attempt work=broken id=2 attempt=1",
        "attempt work=flaky id=1 attempt=2",
    ];
    assert_eq!(spans.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_reported_once_with_its_error_and_delay() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let flaky = work_fn("flaky", |ctx| async move {
        if ctx.attempt < 3 { Err(WorkError::msg("connection reset")) } else { Ok(()) }
    });
    let backoff = RetryPolicy::exponential(ms(100)).times(5);
    scheduler.submit(flaky.retry(backoff)).expect("nothing is in its way");
    _ = scheduler.run_until_done().await;
    let retried = |attempt, delay| {
        format!(
            "INFO message=work will be retried work=\"flaky\" id=1 attempt={attempt} \
             error=\"connection reset\" delay={delay}"
        )
    };
    let succeeded = "DEBUG message=work succeeded id=1 attempt=3".to_owned();
    assert_eq!(events.take(), [retried(1, "100ms"), retried(2, "200ms"), succeeded]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_each_blocked_or_skipped_work_are_reported_once() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let [good, bad] = [add(&scheduler, ok("good")), add(&scheduler, fails("bad"))];
    let next = add(&scheduler, ok("next").after([bad]));
    add(&scheduler, ok("last").after([next]));
    add(&scheduler, ok("report").after([Dependency::failed(good)]));
    _ = scheduler.run_until_done().await;
    let expected = [
        "DEBUG message=work skipped work=\"report\" id=5",
        "DEBUG message=work succeeded id=1 attempt=1",
        "WARN message=work failed work=\"bad\" id=2 attempt=1 error=\"broken\"",
        "INFO message=work blocked work=\"next\" id=3 error=\"it waits for \\\"bad\\\", which is Failed\"",
        "INFO message=work blocked work=\"last\" id=4 error=\"it waits for \\\"next\\\", which is Blocked\"",
    ];
    assert_eq!(events.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_running_or_waiting_work_is_reported_once() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let waits = add(&scheduler, ok("waits"));
    let stops = add(&scheduler, obedient("stops"));
    scheduler.cancel(waits);
    let handle = scheduler.handle();
    tokio::spawn(async move {
        settle().await;
        handle.cancel(stops);
    });
    _ = scheduler.run_until_done().await;
    let expected = [
        "INFO message=work cancelled work=\"waits\" id=1 attempt=0",
        "INFO message=work cancelled work=\"stops\" id=2 attempt=1",
    ];
    assert_eq!(events.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_reported_with_its_attempt_and_not_again_at_a_cancel() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let late = answers("late", ms(0), &[retry(secs(60))]).retries(1);
    let late = add(&scheduler, late.deadline(tokio::time::Instant::now() + secs(10)));
    let stopped = add(&scheduler, answers("stopped", ms(0), &[retry(secs(60))]).retries(1));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(secs(20)).await;
        handle.cancel(stopped);
    });
    _ = scheduler.run_until_done().await;
    let asked = "it asked to be tried again";
    let expected = [
        format!(
            "INFO message=work will be retried work=\"late\" id={late} attempt=1 error=\"{asked}\" delay=60s"
        ),
        format!(
            "INFO message=work will be retried work=\"stopped\" id={stopped} attempt=1 error=\"{asked}\" delay=60s"
        ),
        format!(
            "WARN message=work failed work=\"late\" id={late} attempt=1 error=\"{asked}; its deadline passed before attempt 2\""
        ),
        format!("INFO message=work cancelled work=\"stopped\" id={stopped} attempt=1"),
    ];
    assert_eq!(events.take(), expected);
}

#[tokio::test]
async fn a_caller_that_waits_while_no_run_is_under_way_is_reported_once() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let work = scheduler.spawn(ok("forgotten")).expect("it can run");
    let others = (0..3).map(|_| scheduler.spawn(ok("other")).expect("it can run"));
    let mut wait = join_all(others.chain([work]));
    let reports = loop {
        tokio::select! {
            biased;
            _ = &mut wait => unreachable!("no run is under way"),
            () = tokio::time::sleep(ms(10)) => {}
        }
        let reports = events.take();
        if !reports.is_empty() {
            break reports;
        }
    };
    let expected = "WARN message=waiting for work \"other\", but its scheduler is not running: \
                    call run_until_done";
    assert_eq!(reports, [expected]);
    let (ends, summary) = tokio::join!(wait, scheduler.run_until_done());
    assert!(ends.iter().all(Result::is_ok));
    assert_eq!(summary.success, 4);
    assert!(events.take().iter().all(|event| event.contains("work succeeded")));
}

#[tokio::test]
async fn a_caller_that_waits_for_a_run_which_begins_after_it_is_not_reported() {
    let (_spans, events, _guard) = Recorder::start();
    let mut scheduler = scheduler(1);
    let handle = scheduler.handle();
    // It takes longer than a caller may wait for a run.
    let slow = takes("slow", ms(1500));
    let (end, _) = tokio::join!(handle.execute(slow), scheduler.run_until_done());
    end.expect("it succeeds");
    assert_eq!(events.take(), ["DEBUG message=work succeeded id=1 attempt=1"]);
}
