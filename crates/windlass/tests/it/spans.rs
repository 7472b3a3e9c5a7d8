//! What a subscriber of `tracing` sees of attempts.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use windlass::WorkOutcome;

use crate::support::*;

/// Notes which spans are made, with their fields.
struct Spans {
    log: Log,
    next: AtomicU64,
}

#[derive(Default)]
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("windlass")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.log.add(format!("{} {}", span.metadata().name(), fields.0.join(" ")));
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_span_with_its_work_and_number() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(Spans { log: log.clone(), next: 1.into() });
    let mut scheduler = scheduler(1);
    add(&scheduler, answers("flaky", ms(1), &[retry(ms(1)), WorkOutcome::Success]).retries(1));
    add(&scheduler, fails("broken"));
    scheduler.run_until_done().await;
    let expected = [
        "attempt work=flaky id=1 attempt=1",
        "attempt work=broken id=2 attempt=1",
        "attempt work=flaky id=1 attempt=2",
    ];
    assert_eq!(log.take(), expected);
}
