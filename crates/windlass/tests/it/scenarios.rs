use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass::core::Timestamp;
use windlass::{
    Dependency, Work, WorkContext, WorkEvent, WorkId, WorkOutcome, WorkScheduler,
    WorkSchedulerConfig, WorkSpec,
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
    let (places, refusals) = submit(&mut scheduler, scenario);
    let watcher = tokio::spawn(watch(events, places, Instant::now()));
    scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().events_dropped, 0);
    drop(scheduler);
    let entries = watcher.await.expect("the watcher ends with the events");
    Trace { entries, refusals }
}

fn scheduler(scenario: &Scenario, event_tx: mpsc::Sender<WorkEvent>) -> WorkScheduler {
    let config = WorkSchedulerConfig {
        max_concurrency: scenario.slots as usize,
        event_tx: Some(event_tx),
        ..WorkSchedulerConfig::default()
    };
    let mut builder = WorkScheduler::builder()
        .config(config)
        .limits(scenario.limits.clone())
        .ageing(scenario.ageing)
        .order(scenario.order);
    for (name, rate) in &scenario.rates {
        builder = builder.rate(name, *rate);
    }
    for (name, quota) in &scenario.quotas {
        builder = builder.quota(name, *quota);
    }
    builder.build().expect("a scenario has slots")
}

/// Submits everything; the places of the works that were taken in, and what was refused.
fn submit(
    scheduler: &mut WorkScheduler,
    scenario: &Scenario,
) -> (BTreeMap<WorkId, usize>, Vec<(Timestamp, String)>) {
    let mut ids: Vec<Option<WorkId>> = Vec::new();
    let mut refusals = Vec::new();
    for plan in &scenario.works {
        let submitted = submit_one(scheduler, plan, &ids);
        let name = &plan.name;
        let refused = submitted.as_ref().err().map(|error| format!("submit {name}: {error}"));
        refusals.extend(refused.map(|refusal| (Timestamp::ZERO, refusal)));
        ids.push(submitted.ok());
    }
    let places = ids.into_iter().enumerate().filter_map(|(place, id)| Some((id?, place)));
    (places.collect(), refusals)
}

fn submit_one(
    scheduler: &mut WorkScheduler,
    plan: &WorkPlan,
    ids: &[Option<WorkId>],
) -> Result<WorkId, String> {
    let dependency = |&(place, kind): &(usize, _)| Some(Dependency { work: ids[place]?, kind });
    let after = plan.after.iter().map(dependency).collect::<Option<Vec<_>>>();
    let spec = WorkSpec::new(Scripted(plan.clone()))
        .after(after.ok_or("it follows a work that was refused")?)
        .needs(plan.needs.clone())
        .priority(plan.priority)
        .retries(plan.retries);
    scheduler.submit(spec).map_err(|error| error.to_string())
}

async fn watch(
    mut events: mpsc::Receiver<WorkEvent>,
    places: BTreeMap<WorkId, usize>,
    start: Instant,
) -> Vec<Entry> {
    let mut trace = Vec::new();
    while let Some(event) = events.recv().await {
        // The paused clock moves in whole milliseconds.
        let at = Duration::from_millis(start.elapsed().as_millis() as u64);
        let WorkEvent { id, state, attempt, .. } = event;
        let at = Timestamp::ZERO.after(at);
        trace.push(Entry { at, work: places[&id], state, attempt });
    }
    trace
}
