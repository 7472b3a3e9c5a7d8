//! Catches up with a ledger from its history archives, as a node of a ledger network does.
//!
//! ```text
//!          ┌─► buckets ────────────────────────────────────┐
//!  state ──┤                                               ▼
//!          └─► headers n ─► transactions n ─► verify n ─► apply n ─► apply n + 1 ─► …
//! ```
//!
//! Sixteen works run at a time. Downloads and checks go on in any order; `apply` runs strictly in
//! the order of the checkpoints. One of the archives is rotten: its transactions fail the check, and
//! the retry asks another one. Ctrl-C cancels everything and waits until nothing is left.
//!
//! ```sh
//! cargo run -p windlass --example catchup
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use windlass::works::{Notice, RETRY_A_FEW, Subscription};
use windlass::{
    CancellationToken, Fatal, RetryPolicy, SubmitError, WorkError, WorkHandle, WorkRef,
    WorkScheduler, WorkSpec, work_after, work_cpu, work_fn,
};

const CHECKPOINTS: u64 = 40;
const BUCKETS: u64 = 10;
const WIDTH: usize = 16;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut scheduler = WorkScheduler::builder().max_concurrency(WIDTH).build()?;
    let archives = Arc::new(Archives::new(["north", "rotten", "south"]));
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    plan(&scheduler.handle(), &archives, &ledger)?;

    let total = scheduler.metrics().total;
    let progress = tokio::spawn(show_progress(scheduler.subscribe(), total));
    let summary = scheduler.run_until_done_with_cancel(on_ctrl_c()).await;
    let (works, attempts) = (scheduler.snapshot(), scheduler.metrics().attempts);
    drop(scheduler);
    progress.await?;

    if summary.cancelled > 0 {
        println!("stopped with {} of {total} works done", summary.success);
        return Ok(());
    }
    for work in works.iter().filter(|work| work.attempts > 1) {
        let error = work.last_error.as_deref().unwrap_or_default();
        println!("{error}; attempt {} {}", work.attempts, work.status());
    }
    let ledger = ledger.lock().expect("no holder panicked");
    let at_once = archives.most_at_once.load(Ordering::Relaxed);
    let success = summary.success;
    println!("{success} of {total} works succeeded in {attempts} attempts, {at_once} at once");
    println!("{} checkpoints applied, balance {}", ledger.applied.len(), ledger.balance);

    assert_eq!(success, total, "every work succeeds in the end");
    assert!(attempts > total as u64, "what was rotten was tried again");
    assert!(at_once <= WIDTH);
    assert!(ledger.applied.iter().copied().eq(0..CHECKPOINTS), "strictly in order");
    assert_eq!(ledger.balance, History::new().balance());
    Ok(())
}

/// Submits the whole graph. What one work brings travels to the next as a `WorkRef`.
fn plan(
    scheduler: &WorkHandle,
    archives: &Arc<Archives>,
    ledger: &Arc<Mutex<Ledger>>,
) -> Result<(), SubmitError> {
    let state = scheduler.spawn(download(archives, "state".to_owned()))?;

    let buckets = (0..BUCKETS)
        .map(|n| scheduler.spawn(download(archives, format!("bucket {n}")).after([&state])))
        .collect::<Result<Vec<_>, _>>()?;

    let mut previous: Option<(WorkRef<File>, WorkRef<()>)> = None;
    for n in 0..CHECKPOINTS {
        let headers = download(archives, format!("headers {n}")).after([&state]);
        let headers = scheduler.spawn(headers)?;
        let transactions = download(archives, format!("transactions {n}")).after([&headers]);
        let transactions = scheduler.spawn(transactions)?;

        let before = previous.as_ref().map(|(headers, _)| headers);
        let verified = scheduler.spawn(verify(n, before, &headers, &transactions))?;

        // Before further downloads, so that what is there is applied early.
        let apply = apply(n, &transactions, ledger).after([&verified]).priority(1);
        let applied = match &previous {
            Some((_, applied)) => scheduler.spawn(apply.after([applied]))?,
            None => scheduler.spawn(apply.after(&buckets))?,
        };
        previous = Some((headers, applied));
    }
    Ok(())
}

/// Downloads a file. An archive that serves a damaged one is not asked again.
fn download(archives: &Arc<Archives>, name: String) -> WorkSpec<File> {
    let archives = Arc::clone(archives);
    let gently = RetryPolicy::exponential(Duration::from_millis(20)).jitter().times(RETRY_A_FEW);
    let body = {
        let name = name.clone();
        move |_ctx| {
            let (archives, name) = (Arc::clone(&archives), name.clone());
            async move {
                let archive = archives.choose(&name);
                let file = archives.get(archive, &name).await;
                if !file.is_intact() {
                    archive.trusted.store(false, Ordering::Relaxed);
                    let text = format!("{name} from archive {:?} is damaged", archive.name);
                    return Err(WorkError::msg(text));
                }
                Ok(file)
            }
        }
    };
    work_fn(name, body).retry(gently).timeout(Duration::from_secs(5))
}

/// Checks a checkpoint against the one before it: much to compute, so it runs on the CPU pool.
fn verify(
    n: u64,
    before: Option<&WorkRef<File>>,
    headers: &WorkRef<File>,
    transactions: &WorkRef<File>,
) -> WorkSpec {
    let inputs = (before.cloned(), headers.clone(), transactions.clone());
    let verify = work_cpu(format!("verify {n}"), move |_ctx| {
        let brought = |work: &WorkRef<File>| work.value().expect("it has succeeded before");
        let (before, headers, transactions) = &inputs;
        let chain = before.as_ref().map_or(0, |before| digest(&brought(before).lines));
        if brought(headers).lines != [chain, digest(&brought(transactions).lines)] {
            // Trying again would find the same.
            return Err(Fatal(WorkError::msg("the chain of headers is broken")).into());
        }
        Ok(())
    });
    verify.after([transactions]).after(before)
}

/// Applies a checkpoint to the ledger.
fn apply(n: u64, transactions: &WorkRef<File>, ledger: &Arc<Mutex<Ledger>>) -> WorkSpec {
    let ledger = Arc::clone(ledger);
    work_after(format!("apply {n}"), transactions, move |_ctx, transactions| {
        let mut ledger = ledger.lock().expect("no holder panicked");
        ledger.balance += transactions.lines.iter().sum::<u64>();
        ledger.applied.push(n);
        async { Ok(()) }
    })
}

/// A bar where there is a terminal to draw it on; plain lines elsewhere.
async fn show_progress(mut events: Subscription, total: usize) {
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:20}");
        ProgressBar::new(total as u64).with_style(style.expect("the template is right"))
    });
    let (mut ended, mut retries) = (0, 0);
    while let Some(notice) = events.recv().await {
        // The works themselves are not held up by a slow reader: it is told what it missed.
        let Notice::Event(event) = notice else { continue };
        retries += usize::from(matches!(event.phase, windlass::Phase::Delayed { .. }));
        if !event.state.is_terminal() {
            continue;
        }
        ended += 1;
        match &bar {
            Some(bar) => {
                bar.set_position(ended as u64);
                bar.set_message(event.name.to_string());
            }
            None if ended % 20 == 0 || ended == total => {
                println!("{ended:4}/{total} ended, {retries} retries, last {}", event.name);
            }
            None => {}
        }
    }
    if let Some(bar) = bar {
        bar.finish_with_message("done");
    }
}

/// A token that is triggered by Ctrl-C.
fn on_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            trigger.cancel();
        }
    });
    cancel
}

/// What is built up, checkpoint by checkpoint.
#[derive(Debug, Default)]
struct Ledger {
    balance: u64,
    applied: Vec<u64>,
}

/// A file of an archive, with the checksum it was written with.
struct File {
    lines: Vec<u64>,
    checksum: u64,
}

impl File {
    fn is_intact(&self) -> bool {
        digest(&self.lines) == self.checksum
    }
}

fn digest(lines: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}

/// Several copies of the same history, one of them rotten.
struct Archives {
    history: History,
    all: Vec<Archive>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

struct Archive {
    name: &'static str,
    trusted: AtomicBool,
}

impl Archives {
    fn new<const N: usize>(names: [&'static str; N]) -> Self {
        let archive = |name| Archive { name, trusted: true.into() };
        Self {
            history: History::new(),
            all: names.map(archive).into(),
            at_once: 0.into(),
            most_at_once: 0.into(),
        }
    }

    /// One that is still trusted, so that the load spreads over all of them.
    fn choose(&self, file: &str) -> &Archive {
        let trusted = |archive: &&Archive| archive.trusted.load(Ordering::Relaxed);
        let trusted: Vec<_> = self.all.iter().filter(trusted).collect();
        trusted[spread(file) % trusted.len()]
    }

    /// Stands in for a request over the network.
    async fn get(&self, archive: &Archive, name: &str) -> File {
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20 + spread(name) as u64 % 60)).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);

        let mut lines = self.history.files[name].clone();
        let checksum = digest(&lines);
        if archive.name == "rotten" && name.starts_with("transactions") {
            lines.push(0xdead);
        }
        File { lines, checksum }
    }
}

/// A number that differs from file to file, and is the same in every run.
fn spread(file: &str) -> usize {
    file.bytes().fold(7, |sum, byte| (sum * 31 + usize::from(byte)) % 10_007)
}

/// The true history: what every sound archive has.
struct History {
    files: BTreeMap<String, Vec<u64>>,
}

impl History {
    fn new() -> Self {
        let mut files = BTreeMap::from([("state".to_owned(), vec![CHECKPOINTS, BUCKETS])]);
        files.extend((0..BUCKETS).map(|n| (format!("bucket {n}"), vec![n; 100])));
        let mut chain = 0;
        for n in 0..CHECKPOINTS {
            let transactions: Vec<u64> = (0..64).map(|place| n * 64 + place).collect();
            let headers = vec![chain, digest(&transactions)];
            chain = digest(&headers);
            files.insert(format!("headers {n}"), headers);
            files.insert(format!("transactions {n}"), transactions);
        }
        Self { files }
    }

    fn balance(&self) -> u64 {
        (0..CHECKPOINTS * 64).sum()
    }
}
