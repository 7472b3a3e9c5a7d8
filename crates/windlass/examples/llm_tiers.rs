//! Requests to a language model in three tiers, under a budget of tokens per minute.
//!
//! Waiting makes more urgent, so the free tier is served late, but it is served. No limit says how
//! many tokens an answer takes: each request takes an estimate first and puts in its place what was
//! really used. Time is virtual.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep};
use windlass::streams::{OnError, PrioritySource, ScheduledTask, TaskPoolRunner, TaskProgressKind};
use windlass::works::Ageing;
use windlass::{Amount, Rate, ResourceCapacity, ResourceCost};

type Request = ScheduledTask<(), u32, std::io::Error>;

const ESTIMATE: u32 = 500;

fn tokens(n: u32) -> ResourceCost {
    ResourceCost::from([("tokens", n)])
}

/// A request that takes two seconds and uses so many tokens.
fn request(name: String, budget: &ResourceCapacity, used: u32) -> Request {
    let budget = budget.clone();
    Request::new(name, move || {
        let budget = budget.clone();
        async move {
            let estimate = budget.acquire(&tokens(ESTIMATE)).await;
            let mut permit = estimate.expect("the estimate is within the burst");
            sleep(Duration::from_secs(2)).await;
            permit.reconcile(tokens(used)).expect("tokens are declared");
            Ok(used)
        }
    })
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One connection, and 6000 tokens a minute, of which 2000 may gather.
    let model = ResourceCapacity::new([("capacity", 1)]);
    let minute = Duration::from_secs(60);
    model.set_rate("tokens", Rate { amount: 6000.into(), per: minute, burst: 2000.into() })?;

    // One level of priority per second, twenty at most.
    let ageing = Ageing::new("0.001".parse()?, Some(Amount::from(20)))?;
    let requests = PrioritySource::with_ageing(ageing);
    let runner = TaskPoolRunner::new("model", &requests, &model);
    requests.enqueue(request("free".into(), &model, 400), 1)?;
    // A steady flow of paying customers, one every two seconds.
    let paying = async {
        for n in 1..=10 {
            let (tier, priority) = if n % 2 == 0 { ("pro", 5) } else { ("enterprise", 10) };
            requests.enqueue(request(format!("{tier}-{n}"), &model, 300), priority)?;
            sleep(Duration::from_secs(2)).await;
        }
        requests.close();
        Ok::<_, windlass::SourceClosed>(())
    };
    let began = Instant::now();
    let serve = async {
        let mut order = Vec::new();
        let mut run = runner.run_tasks(OnError::Stop);
        while let Some(progress) = run.next().await {
            let TaskProgressKind::Final(used) = progress.kind else { unreachable!("none fails") };
            let left = model.available();
            println!(
                "{:>3} s  {:<13} used {used}; {left}",
                began.elapsed().as_secs(),
                progress.key
            );
            order.push(progress.key.to_string());
        }
        order
    };
    let (enqueued, order) = tokio::join!(paying, serve);
    enqueued?;
    let place = order.iter().position(|key| key == "free").expect("it is served");
    println!("the free request was served as number {} of {}", place + 1, order.len());
    assert_eq!(order.len(), 11);
    assert!(place > 0 && place < 10, "neither first nor last");
    Ok(())
}
