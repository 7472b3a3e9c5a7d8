//! Scripted works, and schedulers with their events.

use std::fmt::Display;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use proptest::test_runner::{Config, RngSeed};
use windlass::{
    Notice, ResourceCost, Subscription, Work, WorkContext, WorkEvent, WorkHandle, WorkId,
    WorkOutcome, WorkScheduler, WorkSchedulerBuilder, WorkSnapshot, WorkSpec, WorkState, pool,
};

/// A work whose body is a closure.
pub(crate) struct Act {
    name: String,
    act: Box<dyn FnMut(WorkContext) -> BoxFuture<'static, WorkOutcome> + Send>,
}

#[windlass::async_trait]
impl Work for Act {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        (self.act)(ctx).await
    }
}

impl Act {
    pub(crate) fn new<F, Fut>(name: &str, mut act: F) -> Self
    where
        F: FnMut(WorkContext) -> Fut + Send + 'static,
        Fut: Future<Output = WorkOutcome> + Send + 'static,
    {
        Self { name: name.to_owned(), act: Box::new(move |ctx| act(ctx).boxed()) }
    }
}

pub(crate) fn act<F, Fut>(name: &str, act: F) -> WorkSpec
where
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = WorkOutcome> + Send + 'static,
{
    WorkSpec::new(Act::new(name, act))
}

/// A work that takes this long and then returns an outcome: the n-th one in the n-th attempt, and the last one
/// in all later attempts.
pub(crate) fn answers(name: &str, takes: Duration, answers: &[WorkOutcome]) -> WorkSpec {
    let answers = answers.to_vec();
    act(name, move |ctx| {
        let place = (ctx.attempt as usize).min(answers.len()) - 1;
        let answer = answers[place].clone();
        async move {
            tokio::time::sleep(takes).await;
            answer
        }
    })
}

pub(crate) fn takes(name: &str, takes: Duration) -> WorkSpec {
    answers(name, takes, &[WorkOutcome::Success])
}

/// A work that succeeds at once.
pub(crate) fn ok(name: &str) -> WorkSpec {
    act(name, |_| async { WorkOutcome::Success })
}

pub(crate) fn fails(name: &str) -> WorkSpec {
    act(name, |_| async { failed("broken") })
}

/// A work that ends when it is asked to stop.
pub(crate) fn obedient(name: &str) -> WorkSpec {
    act(name, |ctx| async move {
        ctx.cancel_token().cancelled().await;
        WorkOutcome::Success
    })
}

/// A work that never ends.
pub(crate) fn deaf(name: &str) -> WorkSpec {
    act(name, |_| std::future::pending())
}

pub(crate) fn failed(why: &str) -> WorkOutcome {
    WorkOutcome::Failed(why.to_owned())
}

pub(crate) fn retry(delay: Duration) -> WorkOutcome {
    WorkOutcome::Retry { delay }
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the id of a work of another scheduler.
pub(crate) fn foreign() -> WorkId {
    add(scheduler(1), ok("elsewhere"))
}

/// Returns the id of a work that the scheduler has forgotten.
pub(crate) fn forgotten(handle: impl AsRef<WorkHandle>) -> WorkId {
    let handle = handle.as_ref();
    let work = add(handle, ok("forgotten"));
    assert!(handle.cancel(work) && handle.forget(work));
    work
}

/// The events of a scheduler that change the state of a work.
pub(crate) struct Events(Subscription);

impl Events {
    /// Returns the events since the last call.
    pub(crate) fn take(&mut self) -> Vec<WorkEvent> {
        let next = || self.0.recv().now_or_never().flatten();
        let events = std::iter::from_fn(next).map(|notice| match notice {
            Notice::Event(event) => event,
            Notice::Missed(events) => panic!("{events} events were missed"),
        });
        events.filter(WorkEvent::changes_state).collect()
    }

    /// Returns the events since the last call as lines: `100ms a Running 1`.
    pub(crate) fn seen(&mut self) -> Vec<String> {
        let line = |event: WorkEvent| {
            let WorkEvent { at, name, state, attempt, .. } = event;
            format!("{at} {name} {state} {attempt}")
        };
        self.take().into_iter().map(line).collect()
    }
}

/// A scheduler with so many slots, and its events.
pub(crate) fn watched(slots: usize) -> (WorkScheduler, Events) {
    watch(WorkScheduler::builder().max_concurrency(slots))
}

pub(crate) fn watch(builder: WorkSchedulerBuilder) -> (WorkScheduler, Events) {
    let scheduler = builder.build().expect("it can run something");
    let events = Events(scheduler.subscribe());
    (scheduler, events)
}

pub(crate) fn scheduler(slots: usize) -> WorkScheduler {
    WorkScheduler::builder().max_concurrency(slots).build().expect("it can run something")
}

pub(crate) fn add<T>(handle: impl AsRef<WorkHandle>, spec: WorkSpec<T>) -> WorkId {
    let handle = handle.as_ref();
    handle.submit(spec).expect("it can be taken in")
}

pub(crate) fn state(handle: impl AsRef<WorkHandle>, work: WorkId) -> WorkState {
    let handle = handle.as_ref();
    handle.state(work).expect("it is known")
}

pub(crate) fn look(handle: impl AsRef<WorkHandle>, work: WorkId) -> WorkSnapshot {
    let handle = handle.as_ref();
    handle.snapshot_of(work).expect("it is known")
}

pub(crate) fn last_error(handle: impl AsRef<WorkHandle>, work: WorkId) -> String {
    let handle = handle.as_ref();
    look(handle, work).last_error.unwrap_or_else(|| "no error".to_owned())
}

/// Lines in the order in which clones have added them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Display) {
        self.0.lock().expect("no holder of the lock panics").push(line.to_string());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no holder of the lock panics"))
    }
}

/// Yields until all tasks that are ready have been polled.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Asserts that every work has ended and that the counters add up.
pub(crate) fn assert_done(handle: impl AsRef<WorkHandle>) {
    let handle = handle.as_ref();
    let metrics = handle.metrics();
    assert_eq!((metrics.pending, metrics.running), (0, 0), "every work has ended");
    let ends = metrics.success + metrics.failed + metrics.blocked + metrics.cancelled;
    assert_eq!(ends, metrics.total, "the ends add up");
    assert_eq!(handle.snapshot().len(), metrics.total);
}

/// Does something when it is dropped.
pub(crate) struct OnDrop<F: FnOnce()>(pub(crate) Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// Amounts by name, each once.
pub(crate) fn cost<const N: usize>(pairs: [(&str, u32); N]) -> ResourceCost {
    ResourceCost::of(pairs).expect("each name once")
}

pub(crate) fn cpus(n: u32) -> ResourceCost {
    cost([("cpu", n)])
}

/// Polls a future once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a configuration for so many random cases, the same in every run unless `PROPTEST_RNG_SEED` is set.
pub(crate) fn cases(cases: u32) -> Config {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    match config.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(1), ..config },
        RngSeed::Fixed(_) => config,
    }
}

/// Fails if `act` takes longer than that, also if it hangs on a lock.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = act();
        // The receiver is gone if it took too long.
        let _ = tell.send(());
        result
    });
    match told.recv_timeout(limit) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Runs a future on a runtime of its own, with paused time, under a watchdog.
pub(crate) fn in_time<F, Fut>(act: F)
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    within(secs(20), move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(act());
    });
}

/// Counts the values that are alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census(Arc<()>);

impl Census {
    /// Returns a value that is counted until it is dropped.
    pub(crate) fn one(&self) -> Arc<()> {
        Arc::clone(&self.0)
    }

    pub(crate) fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

pub(crate) fn threads(n: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(n).enable_time().build().expect("a runtime")
}

/// Returns the processor time of this thread, which does not depend on other processes.
#[cfg(unix)]
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().expect("it is not negative")
}

#[cfg(not(unix))]
pub(crate) fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Keeps every worker of the global CPU pool busy until it is dropped.
pub(crate) struct BusyPool {
    _release: std::sync::mpsc::Sender<()>,
}

impl BusyPool {
    pub(crate) fn begin() -> Self {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let workers = pool::Scheduler::global().worker_count();
        // More than there are workers, so that they begin also behind tasks that other tests have queued.
        for _ in 0..4 * workers {
            let released = Arc::clone(&released);
            let blocks = move || _ = released.lock().map(|released| released.recv());
            drop(pool::Scheduler::global().spawn(blocks));
        }
        Self { _release: release }
    }
}
