//! What the feature `metrics` reports to a recorder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use windlass::{WorkHandle, WorkScheduler, work_fn};

use crate::support::*;

/// Everything that was recorded, by name and labels. Looks at a scheduler each time, which would deadlock under
/// the scheduler's lock.
#[derive(Clone)]
struct Notes {
    recorded: Arc<Mutex<BTreeMap<String, Vec<f64>>>>,
    handle: WorkHandle,
}

/// One instrument.
struct Note(String, Notes);

impl Note {
    fn add(&self, value: f64) {
        _ = self.1.handle.snapshot();
        let mut recorded = self.1.recorded.lock().expect("no panic");
        recorded.entry(self.0.clone()).or_default().push(value);
    }
}

impl CounterFn for Note {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _value: u64) {
        unreachable!("counters are incremented");
    }
}

impl GaugeFn for Note {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _value: f64) {
        unreachable!("gauges are incremented and decremented");
    }
}

impl HistogramFn for Note {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Notes {
    fn note(&self, key: &Key) -> Arc<Note> {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        Arc::new(Note(key.name().to_owned() + &labels.collect::<String>(), self.clone()))
    }
}

impl Recorder for Notes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.note(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.note(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.note(key))
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_ends_retries_and_times_are_recorded() {
    let builder = WorkScheduler::builder().max_concurrency(1).retry_delay(secs(10));
    let mut scheduler = builder.build().expect("slots");
    let notes = Notes { recorded: Arc::default(), handle: scheduler.handle() };
    let _recorder = metrics::set_default_local_recorder(&notes);
    let flaky = work_fn("flaky", |ctx| async move {
        tokio::time::sleep(secs(3)).await;
        if ctx.attempt == 1 { Err("no route".into()) } else { Ok(()) }
    });
    add(&scheduler, flaky.retries(1));
    // Waits three seconds for the slot, and keeps it until the other one is retried.
    let bad = add(&scheduler, answers("bad", secs(1), &[failed("broken")]));
    add(&scheduler, ok("held up").after([bad]));
    _ = scheduler.run_until_done().await;
    let recorded = std::mem::take(&mut *notes.recorded.lock().expect("no panic"));
    let expected = [
        ("windlass_attempt_seconds", vec![3.0, 1.0, 3.0]),
        ("windlass_attempts_started", vec![1.0; 3]),
        ("windlass_queue_seconds", vec![0.0, 3.0, 0.0]),
        ("windlass_retries", vec![1.0]),
        ("windlass_works_ended blocked", vec![1.0]),
        ("windlass_works_ended failed", vec![1.0]),
        ("windlass_works_ended success", vec![1.0]),
        ("windlass_works_running", vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0]),
    ];
    assert_eq!(recorded, expected.map(|(name, values)| (name.to_owned(), values)).into());
}
