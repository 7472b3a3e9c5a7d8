//! Two teams on one cluster of 16 GPUs. By day one of them works, by night the other, and their
//! limits follow, one GPU every five seconds. Time is virtual.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass::capacity::{BalancedCapacity, BalancerOptions, HierarchicalBalancer};
use windlass::{ResourceCapacity, ResourceCost};

fn gpus(n: u32) -> ResourceCost {
    ResourceCost::from([("gpu", n)])
}

/// Keeps a team as busy as its limit allows until `end`.
async fn work(team: &ResourceCapacity, end: Instant) {
    let mut permits = Vec::new();
    while Instant::now() < end {
        while let Ok(permit) = team.try_acquire(gpus(1)) {
            permits.push(permit);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = ResourceCapacity::new(gpus(16)).named("cluster");
    let [day, night] = ["day", "night"].map(|name| cluster.child(gpus(12)).named(name));
    let balanced = |team: &ResourceCapacity| BalancedCapacity {
        capacity: team.clone(),
        min: gpus(4),
        max: gpus(15),
    };
    let options = BalancerOptions { increment: gpus(1), ..BalancerOptions::default() };
    let balancer = HierarchicalBalancer::new(vec![balanced(&day), balanced(&night)], options)?;

    balancer.start();
    let began = Instant::now();
    let minute = Duration::from_secs(60);
    for (busy, name) in [(&day, "day"), (&night, "night")] {
        work(busy, Instant::now() + minute).await;
        let (at, limits) = (began.elapsed().as_secs(), (day.limits(), night.limits()));
        println!("{at:>3} s  the {name} team has worked; day {}, night {}", limits.0, limits.1);
        let expected = if name == "day" { (gpus(15), gpus(4)) } else { (gpus(4), gpus(15)) };
        assert_eq!(limits, expected, "within four and fifteen");
    }
    balancer.stop();
    assert_eq!(cluster.available(), gpus(16));
    Ok(())
}
