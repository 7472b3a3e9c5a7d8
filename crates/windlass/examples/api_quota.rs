//! Calls to an API that allows five a second, two at once, and ten in each minute.
//!
//! Both limits count starts: a call that has ended gives nothing back. Time is virtual.

use std::time::Duration;

use tokio::time::Instant;
use windlass::{Quota, Rate, ResourceCapacity, ResourceCost};

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = ResourceCapacity::new(ResourceCost::new()).named("api");
    let second = Duration::from_secs(1);
    api.set_rate("calls", Rate { amount: 5.into(), per: second, burst: 2.into() })?;
    api.set_quota("calls_per_minute", Quota { amount: 10.into(), window: 60 * second })?;
    let call = ResourceCost::from([("calls", 1), ("calls_per_minute", 1)]);

    let began = Instant::now();
    let mut starts = Vec::new();
    for number in 1..=14 {
        let permit = api.acquire(&call).await?;
        let at = began.elapsed();
        println!("{:>6} ms  call {number:>2}; left: {}", at.as_millis(), api.available());
        starts.push(at.as_millis());
        drop(permit);
        if number == 10 {
            let refusal = api.try_acquire(&call).expect_err("the window is used up");
            println!("           call 11 would be refused: {refusal}");
        }
    }
    let expected =
        [0, 0, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 60_000, 60_000, 60_200, 60_400];
    assert_eq!(starts, expected);
    Ok(())
}
