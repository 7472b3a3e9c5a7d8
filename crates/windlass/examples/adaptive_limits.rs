//! Limits that follow what a server can bear, changed while everything runs.
//!
//! The limit of requests that the server takes at once is unknown and changes. A controller
//! watches latency and errors, and moves the limit: a little up while all is well, a little down when
//! answers become slow, by half when requests are turned away. Works that wait for the limit start
//! as soon as it is raised; when it is lowered, running ones end in peace.
//!
//! The clock is paused, so that a minute passes in a moment, in the same way every time.
//!
//! ```sh
//! cargo run -p windlass --example adaptive_limits
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use windlass::works::RETRY_A_LOT;
use windlass::{Amount, ResourceCost, RetryPolicy, WorkError, WorkHandle, WorkScheduler, work_fn};

const REQUESTS: u32 = 5000;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Arc::new(Server::default());
    let mut scheduler =
        WorkScheduler::builder().max_concurrency(1000).limits(at_once(2)).build()?;
    let patiently = RetryPolicy::fixed(Duration::from_millis(200)).jitter().times(RETRY_A_LOT);
    for n in 0..REQUESTS {
        let server = Arc::clone(&server);
        let request = work_fn(format!("request {n}"), move |_ctx| {
            let server = Arc::clone(&server);
            async move { server.answer().await }
        });
        scheduler.submit(request.needs(at_once(1)).retry(patiently))?;
    }

    let mut controller = Controller { limit: 2, seen: Vec::new() };
    let handle = scheduler.handle();
    let summary = tokio::select! {
        summary = scheduler.run_until_done() => summary,
        () = controller.run(&handle, &server) => unreachable!("it goes on for ever"),
    };

    let attempts = scheduler.metrics().attempts;
    println!("{} requests answered in {attempts} attempts", summary.success);
    assert_eq!(summary.success, REQUESTS as usize, "every request was answered");
    for (seconds, can_bear) in [(10..20, 12), (25..35, 5), (42..48, 16)] {
        let limits = controller.seen.iter().filter(|(at, _)| seconds.contains(at));
        let limits: Vec<_> = limits.map(|(_, limit)| *limit).collect();
        let mean = limits.iter().sum::<u32>() / limits.len() as u32;
        println!("seconds {seconds:?}: the server bears {can_bear}, the limit was {mean}");
        assert!(mean.abs_diff(can_bear) <= 3, "the limit follows the server");
    }
    Ok(())
}

/// This many requests.
fn at_once(requests: u32) -> ResourceCost {
    ResourceCost::new().with("requests", Amount::from(requests))
}

/// Moves the limit: up by one, down by one, or down by half.
struct Controller {
    limit: u32,
    /// The limit at each second.
    seen: Vec<(u64, u32)>,
}

impl Controller {
    async fn run(&mut self, handle: &WorkHandle, server: &Server) {
        let start = Instant::now();
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        loop {
            tick.tick().await;
            let Observed { answers, latency, refusals } = server.observed();
            let mean = latency.checked_div(answers).unwrap_or_default();
            self.limit = match mean {
                _ if refusals > 0 => (self.limit / 2).max(1),
                slow if slow > Server::QUICK.mul_f64(1.1) => (self.limit - 1).max(1),
                _ => self.limit + 1,
            };
            handle.set_limits(at_once(self.limit));

            let seconds = start.elapsed().as_secs();
            self.seen.push((seconds, self.limit));
            if refusals > 0 || self.seen.len() % 4 == 1 {
                let (mean, bar) = (mean.as_millis(), "#".repeat(self.limit as usize));
                println!("{seconds:3} s {mean:4} ms {refusals:3} refused, limit {bar}");
            }
        }
    }
}

/// Stands in for a remote server.
struct Server {
    start: Instant,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    in_flight: u32,
    observed: Observed,
}

/// What was seen since the last look.
#[derive(Clone, Copy, Default)]
struct Observed {
    answers: u32,
    latency: Duration,
    refusals: u32,
}

impl Default for Server {
    fn default() -> Self {
        Self { start: Instant::now(), now: Mutex::default() }
    }
}

impl Server {
    const QUICK: Duration = Duration::from_millis(100);

    /// How many at once it answers quickly; only the server knows.
    fn can_bear(&self) -> u32 {
        match self.start.elapsed().as_secs() {
            0..20 => 12,
            20..35 => 5,
            _ => 16,
        }
    }

    /// Slow with more requests than it can bear; with twice as many, it turns them away.
    async fn answer(&self) -> Result<(), WorkError> {
        let (arrived, can_bear) = (Instant::now(), self.can_bear());
        let Some(in_flight) = self.accept(can_bear) else {
            tokio::time::sleep(Self::QUICK / 2).await;
            return Err(WorkError::msg("503 Service Unavailable"));
        };
        tokio::time::sleep(Self::QUICK * in_flight.max(can_bear) / can_bear).await;
        let mut now = self.now.lock().expect("no holder panicked");
        now.in_flight -= 1;
        now.observed.answers += 1;
        now.observed.latency += arrived.elapsed();
        Ok(())
    }

    /// How many are under way with this one; none if it is turned away.
    fn accept(&self, can_bear: u32) -> Option<u32> {
        let mut now = self.now.lock().expect("no holder panicked");
        if now.in_flight >= 2 * can_bear {
            now.observed.refusals += 1;
            return None;
        }
        now.in_flight += 1;
        Some(now.in_flight)
    }

    fn observed(&self) -> Observed {
        std::mem::take(&mut self.now.lock().expect("no holder panicked").observed)
    }
}
