//! Many files from a few hosts that often refuse: so many at once in all, fewer from each host, tried
//! again with backoff, given up where that is of no use, and put together in the end.
//!
//! The hosts are made up and the clock is paused, so it takes a moment and no network.
//!
//! ```sh
//! cargo run -p windlass --example downloads
//! ```

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::works::{Notice, RETRY_A_FEW};
use windlass::{Fatal, ResourceCost, RetryPolicy, WorkError, WorkScheduler, work_after, work_fn};

/// How many downloads may go on at once in all, and from one host.
const IN_ALL: usize = 5;
const PER_HOST: u32 = 2;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let hosts = ["alpha", "beta", "gamma"].map(|name| Arc::new(Host::new(name)));
    // A limit for each host, by its name, beside the one for all.
    let per_host = ResourceCost::of(hosts.iter().map(|host| (host.name, PER_HOST)))?;
    let mut scheduler = WorkScheduler::builder()
        .max_concurrency(IN_ALL)
        .limits(per_host)
        .cancel_grace(Duration::from_secs(1)) // a cancel does not wait for a download
        .build()?;

    let patiently = RetryPolicy::exponential(Duration::from_millis(100))
        .cap(Duration::from_secs(5))
        .jitter()
        .times(RETRY_A_FEW);
    let mut files = Vec::new();
    for n in 0..30 {
        let host = Arc::clone(&hosts[n % hosts.len()]);
        let needs = ResourceCost::from([(host.name, 1)]);
        let download = work_fn(format!("{}/{n}", host.name), move |_ctx| {
            let host = Arc::clone(&host);
            async move { host.get(n).await.map_err(judged) }
        });
        let download = download.needs(needs).retry(patiently).timeout(Duration::from_secs(30));
        files.push(scheduler.spawn(download)?);
    }
    // After all of them, with what each brought.
    let whole = work_after("whole", &files, |_ctx, files| async move {
        Ok(files.iter().map(|file| file.len()).sum::<usize>())
    });
    let whole = scheduler.spawn(whole)?;
    let host = Arc::clone(&hosts[0]);
    let missing = work_fn("alpha/404", move |_ctx| {
        let host = Arc::clone(&host);
        async move { host.get(404).await.map_err(judged) }
    });
    let missing = missing.needs(ResourceCost::of([(hosts[0].name, 1)])?);
    let missing = scheduler.spawn(missing.retry(patiently))?;

    let progress = tokio::spawn(watch(scheduler.subscribe()));
    println!("{}", scheduler.run_until_done().await);
    println!("{} bytes in {} attempts", whole.await?, scheduler.metrics().attempts);
    println!("{}", missing.await.expect_err("there is no such file"));
    for host in &hosts {
        println!("{}: {} at once", host.name, host.peak.load(Ordering::Relaxed));
    }
    drop(scheduler); // ends the subscription
    println!("{} of 32 were seen to end", progress.await?);
    Ok(())
}

/// Counts the ends that are told of: what a progress bar would show.
async fn watch(mut events: windlass::Subscription) -> usize {
    let mut ended = 0;
    while let Some(notice) = events.recv().await {
        match notice {
            Notice::Event(event) if event.state.is_terminal() => ended += 1,
            Notice::Event(_) => {}
            Notice::Missed(count) => println!("{count} events went by"),
        }
    }
    ended
}

/// What is worth another try, and what is not.
fn judged(error: DownloadError) -> WorkError {
    match error {
        DownloadError::Busy => error.into(),
        DownloadError::NotFound(_) => Fatal(error).into(),
    }
}

#[derive(Debug)]
enum DownloadError {
    Busy,
    NotFound(usize),
}

impl fmt::Display for DownloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownloadError::Busy => f.write_str("the host is busy"),
            DownloadError::NotFound(file) => write!(f, "there is no file {file}"),
        }
    }
}

impl Error for DownloadError {}

/// A host that refuses every third request.
struct Host {
    name: &'static str,
    requests: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Host {
    fn new(name: &'static str) -> Self {
        let [requests, now, peak] = std::array::from_fn(|_| AtomicUsize::new(0));
        Self { name, requests, now, peak }
    }

    async fn get(&self, file: usize) -> Result<Vec<u8>, DownloadError> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        match (file, request % 3) {
            (404, _) => Err(DownloadError::NotFound(file)),
            (_, 2) => Err(DownloadError::Busy),
            _ => Ok(vec![0; 100]),
        }
    }
}
