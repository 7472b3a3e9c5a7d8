use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass::core::Timestamp;
use windlass::{
    Work, WorkContext, WorkEvent, WorkId, WorkOutcome, WorkScheduler, WorkSchedulerConfig, WorkSpec,
};
use windlass_sim::scenario::{End, Entry, Scenario, Trace, WorkPlan};

#[tokio::test(start_paused = true)]
async fn every_scenario_runs_on_the_tokio_driver() {
    for scenario in Scenario::all() {
        if !scenario.not_on.contains_key("tokio") {
            scenario.check(run(&scenario).await);
        }
    }
}

/// A work that does what its scenario says.
struct Scripted(WorkPlan);

#[windlass::async_trait]
impl Work for Scripted {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        tokio::time::sleep(self.0.takes).await;
        match self.0.end(ctx.attempt) {
            End::Ok => WorkOutcome::Success,
            End::Fail => WorkOutcome::Failed("as the scenario says".to_owned()),
            End::Retry(delay) => WorkOutcome::Retry { delay },
            End::Stopped => WorkOutcome::Cancelled,
            End::Lost => panic!("a body cannot be lost without its run"),
        }
    }
}

async fn run(scenario: &Scenario) -> Trace {
    let (event_tx, events) = mpsc::channel(1024);
    let mut scheduler = scheduler(scenario, event_tx);
    let watcher = tokio::spawn(watch(events, Instant::now()));
    scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().events_dropped, 0);
    drop(scheduler);
    let entries = watcher.await.expect("the watcher ends with the events");
    Trace { entries, refusals: Vec::new() }
}

fn scheduler(scenario: &Scenario, event_tx: mpsc::Sender<WorkEvent>) -> WorkScheduler {
    let config = WorkSchedulerConfig {
        max_concurrency: scenario.slots as usize,
        event_tx: Some(event_tx),
        ..WorkSchedulerConfig::default()
    };
    let builder = WorkScheduler::builder().config(config).limits(scenario.limits.clone());
    let mut scheduler = builder.build().expect("a scenario has slots");
    let mut ids: Vec<WorkId> = Vec::new();
    for plan in &scenario.works {
        let spec = WorkSpec::new(Scripted(plan.clone()))
            .after(plan.after.iter().map(|&(place, _)| ids[place]))
            .needs(plan.needs.clone())
            .priority(plan.priority)
            .retries(plan.retries);
        ids.push(scheduler.submit(spec).expect("a scenario asks for what there is"));
    }
    scheduler
}

async fn watch(mut events: mpsc::Receiver<WorkEvent>, start: Instant) -> Vec<Entry> {
    let mut trace = Vec::new();
    while let Some(event) = events.recv().await {
        // The paused clock moves in whole milliseconds.
        let at = Duration::from_millis(start.elapsed().as_millis() as u64);
        let WorkEvent { id, state, attempt, .. } = event;
        let at = Timestamp::ZERO.after(at);
        trace.push(Entry { at, work: id.index(), state, attempt });
    }
    trace
}
