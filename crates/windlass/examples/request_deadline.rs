//! A service whose requests have deadlines.
//!
//! The scheduler also runs while there is nothing to do; tasks with a handle submit requests
//! and awaits their values. A request that cannot be served in time fails at its deadline, whether
//! it runs (then it is dropped at its next await) or still waits, and gives back what it holds. Why a
//! request waits can be asked at any time.
//!
//! ```sh
//! cargo run -p windlass --example request_deadline
//! ```

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;
use windlass::works::ExecuteError;
use windlass::{
    Amount, CancellationToken, ResourceCost, WorkFailure, WorkHandle, WorkScheduler, WorkSpec,
    WorkState, work_fn,
};

const RUNNING: Option<WorkState> = Some(WorkState::Running);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut scheduler = WorkScheduler::builder()
        .max_concurrency(100)
        .limits(connections(2))
        .keep_ended(1000) // a service runs for long: older requests are forgotten
        .build()?;
    let service = scheduler.handle();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { scheduler.run_until_cancelled(stop).await }
    });

    one_that_is_served(&service).await?;
    three_that_are_late(&service).await?;
    one_that_waits(&service).await?;

    stop.cancel();
    println!("{}", running.await?);
    println!("stopped: {} works known, none left open", service.metrics().total);
    assert_eq!(service.metrics().pending + service.metrics().running, 0);
    Ok(())
}

/// What a request takes from the database's pool while it runs.
fn connections(count: u32) -> ResourceCost {
    ResourceCost::new().with("connections", Amount::from(count))
}

/// A request that has to be answered within `time`.
fn within(time: Duration, request: WorkSpec<String>) -> WorkSpec<String> {
    request.needs(connections(1)).deadline(Instant::now() + time)
}

/// Stands in for a query to the database that takes so long.
fn query(name: &str, takes: Duration) -> WorkSpec<String> {
    let answer = format!("rows of {name}");
    work_fn(name, move |_ctx| {
        let answer = answer.clone();
        async move {
            tokio::time::sleep(takes).await;
            Ok(answer)
        }
    })
}

async fn one_that_is_served(service: &WorkHandle) -> Result<(), ExecuteError> {
    let users = query("users", Duration::from_millis(1));
    let rows = service.execute(within(Duration::from_secs(10), users)).await?;
    println!("served: {rows}");
    assert_eq!(*rows, "rows of users");
    Ok(())
}

/// Two slow requests have both connections; a third one waits for them. None is served in time.
async fn three_that_are_late(service: &WorkHandle) -> Result<(), Box<dyn Error>> {
    let (long, soon) = (Duration::from_secs(3600), Duration::from_millis(600));
    let orders = service.spawn(within(soon, query("orders", long)))?;
    let invoices = service.spawn(within(soon, query("invoices", long)))?;

    let late = service.execute(within(soon / 2, query("stock", long))).await;
    let Err(ExecuteError::Failed(failure)) = late else { return Err("it was taken in".into()) };
    println!("late: {failure}");
    assert_eq!(failure.error.as_deref(), Some("its deadline passed before it began"));

    for request in [orders, invoices] {
        let failure: WorkFailure = request.await.expect_err("it takes an hour");
        println!("late: {failure}");
        assert_eq!(failure.state, WorkState::Failed);
        assert!(failure.error.is_some_and(|error| error.starts_with("its deadline passed")));
    }
    Ok(())
}

/// A request that waits for a connection, and why.
async fn one_that_waits(service: &WorkHandle) -> Result<(), Box<dyn Error>> {
    let (second, patient) = (Duration::from_secs(1), Duration::from_secs(60));
    let orders = service.spawn(within(patient, query("orders", second)))?;
    let invoices = service.spawn(within(patient, query("invoices", second)))?;
    let stock = service.spawn(within(patient, query("stock", Duration::ZERO)))?;

    while [&orders, &invoices].iter().any(|work| service.state(work.id()) != RUNNING) {
        tokio::task::yield_now().await;
    }
    let why = service.explain(stock.id()).expect("it is not forgotten");
    println!("stock waits: {why}");
    assert!(why.to_string().contains("held by \"orders\", \"invoices\""), "{why}");
    for request in [orders, invoices, stock] {
        println!("served: {}", request.await?);
    }
    Ok(())
}
