//! Trying again: how often, after which delays, and when not to.
//!
//! The clock is paused, so what would take minutes passes in a moment; the times are exact.
//!
//! ```sh
//! cargo run -p windlass --example backoff
//! ```

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;
use windlass::core::Random;
use windlass::works::{RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE};
use windlass::{
    Fatal, RetryPolicy, Work, WorkContext, WorkError, WorkOutcome, WorkScheduler, WorkSpec, work_fn,
};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    show_policies();
    how_it_ends().await?;
    jitter_keeps_a_crowd_apart().await?;
    Ok(())
}

/// A policy is a value: what it will do can be looked at without doing it.
fn show_policies() {
    let second = Duration::from_secs(1);
    let policies = [
        ("fixed", RetryPolicy::fixed(second)),
        ("linear", RetryPolicy::linear(second)),
        ("exponential", RetryPolicy::exponential(second)),
        ("exponential, cap 5 s", RetryPolicy::exponential(second).cap(second * 5)),
        ("exponential, jitter", RetryPolicy::exponential(second).jitter()),
        ("default", RetryPolicy::default()),
    ];
    println!("delays before the first six retries, in seconds");
    for (name, policy) in policies {
        let mut random = Random::new(42);
        let delays = (1..=6).map(|n| policy.delay(n, &mut random).as_secs_f64());
        let delays: Vec<_> = delays.map(|delay| format!("{delay:6.2}")).collect();
        println!("  {name:22}{}", delays.join(" "));
    }
    println!(
        "as often as you like: NEVER {RETRY_NEVER}, ONCE {RETRY_ONCE}, A_FEW {RETRY_A_FEW}, A_LOT {RETRY_A_LOT}\n"
    );
}

/// A server that tells when to come back, which counts more than the policy.
struct RetryAfter;

#[windlass::async_trait]
impl Work for RetryAfter {
    fn name(&self) -> &str {
        "server says when"
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        match ctx.attempt {
            1 => {
                ctx.explain_retry("503, Retry-After: 30");
                WorkOutcome::Retry { delay: Duration::from_secs(30) }
            }
            _ => WorkOutcome::Success,
        }
    }
}

/// One of each kind, side by side; none holds a slot while it waits for its next attempt.
async fn how_it_ends() -> Result<(), Box<dyn Error>> {
    let mut scheduler = WorkScheduler::builder().max_concurrency(1).seed(1).build()?;
    let second = Duration::from_secs(1);

    let third_time = work_fn("third time lucky", |ctx| async move {
        if ctx.attempt < 3 {
            return Err(WorkError::msg("connection reset"));
        }
        Ok(())
    });
    let third_time = scheduler.submit(third_time.retry(RetryPolicy::exponential(second)))?;

    let hopeless = work_fn("hopeless", |_| async { Err::<(), _>(WorkError::msg("no route")) });
    let hopeless = scheduler.submit(hopeless.retries(RETRY_ONCE))?;

    let fatal = work_fn("wrong password", |_| async {
        // Not retried: it would fail again.
        Err::<(), _>(Fatal(WorkError::msg("401 Unauthorized")).into())
    });
    let fatal = scheduler.submit(fatal.retries(RETRY_A_LOT))?;

    let told = scheduler.submit(WorkSpec::new(RetryAfter).retry(RetryPolicy::fixed(second)))?;

    // Something looks in now and then, while all of this goes on in one slot.
    let handle = scheduler.handle();
    let watch = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for work in handle.snapshot() {
            println!("  after 0.5 s   {:18}{}", work.name, work.status());
        }
    });
    let start = Instant::now();
    let summary = scheduler.run_until_done().await;
    watch.await?;
    for work in scheduler.snapshot() {
        println!("  in the end    {:18}{} ({} attempts)", work.name, work.status(), work.attempts);
    }
    println!("  {summary}; all of it took {:?}\n", start.elapsed());

    let of = |id| scheduler.snapshot_of(id).expect("nothing was forgotten");
    assert_eq!((of(third_time).attempts, of(third_time).state.is_success()), (3, true));
    assert_eq!(of(hopeless).attempts, 2);
    let error = "no route; no retries left after attempt 2";
    assert_eq!(of(hopeless).last_error.as_deref(), Some(error));
    assert_eq!(of(fatal).attempts, 1, "fatal is fatal");
    assert!(of(told).state.is_success());
    assert_eq!(start.elapsed(), Duration::from_secs(30), "the delays passed side by side");
    Ok(())
}

/// Five that fail together do not come back together, and the same seed gives the same times.
async fn jitter_keeps_a_crowd_apart() -> Result<(), Box<dyn Error>> {
    let policy = RetryPolicy::exponential(Duration::from_secs(4));
    let together = second_attempts(policy, 7).await?;
    let apart = second_attempts(policy.jitter(), 7).await?;
    println!("five that failed at the same moment come back after");
    println!("  without jitter  {together:?}");
    println!("  with jitter     {apart:?}");
    assert!(together.iter().all(|at| *at == together[0]));
    assert!(apart.iter().any(|at| *at != apart[0]));
    assert_eq!(apart, second_attempts(policy.jitter(), 7).await?, "runs can be replayed");
    Ok(())
}

/// When each of five works makes its second attempt.
async fn second_attempts(policy: RetryPolicy, seed: u64) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut scheduler = WorkScheduler::builder().max_concurrency(5).seed(seed).build()?;
    let start = Instant::now();
    for n in 1..=5 {
        let client = work_fn(format!("client {n}"), |ctx| async move {
            if ctx.attempt == 1 { Err(WorkError::msg("503")) } else { Ok(()) }
        });
        scheduler.submit(client.retry(policy))?;
    }
    let handle = scheduler.handle();
    let look = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        handle.snapshot().into_iter().filter_map(|work| work.retry_at).collect::<Vec<_>>()
    });
    scheduler.run_until_done().await.into_result()?;
    Ok(look.await?.into_iter().map(|at| at.duration_since(start)).collect())
}
