//! Runs jobs that do nothing through a job queue in PostgreSQL, and prints how many seconds that took.
//!
//! `windlass-bench-peers NAME URL JOBS AT_ONCE`: the jobs are queued first; then the time counts from the start of
//! a worker until the last job was executed. Each queue is used as its own documentation shows.

use std::env;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// How many jobs are left, and a signal when there is none.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static NONE_LEFT: Notify = Notify::const_new();

fn count_one() {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        NONE_LEFT.notify_one();
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Nothing {
    number: usize,
}

struct Work {
    url: String,
    jobs: usize,
    at_once: usize,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [name, url, jobs, at_once] = &arguments[..] else {
        panic!("usage: windlass-bench-peers NAME URL JOBS AT_ONCE")
    };
    let number = |text: &str| text.parse().expect("a number");
    let work = Work { url: url.clone(), jobs: number(jobs), at_once: number(at_once) };
    LEFT.store(work.jobs, Ordering::Relaxed);
    let took = match name.as_str() {
        "graphile_worker" => graphile(&work).await,
        "apalis" => apalis(&work).await,
        "underway" => underway(&work).await,
        other => panic!("unknown queue: {other}"),
    };
    assert_eq!(LEFT.load(Ordering::Relaxed), 0, "every job was executed once");
    println!("{}", took.as_secs_f64());
}

/// Returns the time until no job is left, while `worker` works.
async fn until_none_is_left(worker: impl Future) -> Duration {
    let began = Instant::now();
    tokio::select! {
        _ = worker => panic!("the worker has ended early"),
        () = NONE_LEFT.notified() => began.elapsed(),
    }
}

impl graphile_worker::TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(
        self,
        _context: graphile_worker::WorkerContext,
    ) -> impl graphile_worker::IntoTaskHandlerResult {
        count_one();
        Ok::<(), String>(())
    }
}

/// With its queue of fetched jobs and with batches of ends: without them it fetches a job per notification or poll.
async fn graphile(work: &Work) -> Duration {
    use graphile_worker::{JobSpec, LocalQueueConfig, WorkerOptions};

    let options = WorkerOptions::default()
        .database_url(&work.url)
        .concurrency(work.at_once)
        .schema("graphile_worker")
        .define_job::<Nothing>()
        .local_queue(LocalQueueConfig::default().with_size(500))
        .complete_job_batch_delay(Duration::from_millis(1));
    let worker = options.init().await.expect("the schema is made");
    let spec = JobSpec::default();
    for chunk in (0..work.jobs).collect::<Vec<_>>().chunks(1000) {
        let jobs: Vec<_> = chunk.iter().map(|&number| (Nothing { number }, &spec)).collect();
        worker.create_utils().add_jobs(&jobs).await.expect("they are queued");
    }
    until_none_is_left(worker.run()).await
}

async fn apalis(work: &Work) -> Duration {
    use apalis::prelude::*;
    use apalis_postgres::{Config, PgPool, PostgresStorage};

    async fn execute(_job: usize) -> Result<(), BoxDynError> {
        count_one();
        Ok(())
    }

    let pool = PgPool::connect(&work.url).await.expect("it connects");
    PostgresStorage::setup(&pool).await.expect("the schema is made");
    let config = Config::default().queue("nothing").batch_size(100);
    let mut backend = PostgresStorage::new(&pool).with_config(config).with_pubsub();
    backend.push_bulk((0..work.jobs).collect()).await.expect("they are queued");
    let worker = WorkerBuilder::new("bench")
        .backend(backend)
        .concurrency(work.at_once)
        .parallelize(tokio::spawn)
        .build(execute);
    until_none_is_left(worker.run()).await
}

async fn underway(work: &Work) -> Duration {
    use underway::{Job, To};

    let pool = sqlx::PgPool::connect(&work.url).await.expect("it connects");
    underway::run_migrations(&pool).await.expect("the schema is made");
    let job = Job::builder()
        .step(|_context, _job: Nothing| async {
            count_one();
            To::done()
        })
        .name("nothing")
        .pool(pool)
        .build()
        .await
        .expect("the queue is made");
    for number in 0..work.jobs {
        job.enqueue(&Nothing { number }).await.expect("it is queued");
    }
    let mut worker = job.worker();
    worker.set_concurrency_limit(work.at_once);
    until_none_is_left(worker.run()).await
}
