//! Runs that are dropped and bodies that are cancelled or panic at any point: afterwards nothing is
//! left of them, neither a task nor a body nor held capacity, and the scheduler goes on.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::sleep;
use windlass::core::Random;
use windlass::{
    BatchWork, CancellationToken, ResourceCapacity, ResourceCost, Work, WorkContext, WorkError,
    WorkHandle, WorkId, WorkOutcome, WorkScheduler, WorkSpec, WorkState, work_fn,
};

use crate::events::check_order;
use crate::support::*;

fn cost(gpu: u32, ram: u32) -> ResourceCost {
    ResourceCost::from([("gpu", gpu), ("ram", ram)])
}

/// A scheduler on a shared capacity, and a count of the bodies that are alive.
struct Bench {
    capacity: ResourceCapacity,
    scheduler: WorkScheduler,
    events: Events,
    census: Census,
}

impl Bench {
    fn new(slots: usize) -> Self {
        let capacity = ResourceCapacity::new(cost(2, 4));
        let builder = WorkScheduler::builder().max_concurrency(slots).capacity(&capacity);
        let (scheduler, events) = watch(builder.retry_delay(ms(1)));
        Self { capacity, scheduler, events, census: Census::default() }
    }

    /// Asserts that every work has ended exactly once and that everything is free; then the scheduler runs
    /// another work.
    async fn check(&mut self, case: &str) {
        // An attempt that was asked to stop needs one more poll for that.
        _ = self.scheduler.run_until_done().await;
        assert_done(&self.scheduler);
        assert_eq!(self.capacity.available(), cost(2, 4), "{case}: all of it is free");
        check_order(&self.events.take());
        let next = self.scheduler.spawn(takes("next", ms(1)).needs(cost(2, 4)));
        _ = self.scheduler.run_until_done().await;
        next.expect("it is taken in").await.expect("the scheduler goes on");
    }

    /// Asserts that no body is left once the scheduler is dropped.
    async fn close(self, case: &str) {
        let Self { capacity, scheduler, census, .. } = self;
        drop(scheduler);
        settle().await;
        assert_eq!(census.alive(), 0, "{case}: a body is alive");
        assert_eq!(capacity.available(), cost(2, 4), "{case}: all of it is free");
    }
}

/// A fault at a poll of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cancel,
    CancelAll,
    Panic,
    DropRun,
    StopRun,
    ShutDown,
}

/// Causes a fault just before a body is polled for the n-th time.
#[derive(Clone)]
struct Trap {
    fault: Fault,
    at: usize,
    polls: Arc<AtomicUsize>,
    drop_run: Arc<Notify>,
    stop_run: CancellationToken,
}

impl Trap {
    fn new(fault: Fault, at: usize) -> Self {
        let (drop_run, stop_run) = (Arc::new(Notify::new()), CancellationToken::new());
        Self { fault, at, polls: Arc::default(), drop_run, stop_run }
    }

    fn has_sprung(&self) -> bool {
        self.polls.load(Ordering::Relaxed) >= self.at
    }

    fn spring(&self, ctx: &WorkContext) {
        let handle = ctx.handle();
        match self.fault {
            Fault::Cancel => assert!(handle.cancel(ctx.id)),
            Fault::CancelAll => handle.cancel_all(),
            Fault::Panic => panic!("on purpose"),
            Fault::DropRun => self.drop_run.notify_one(),
            Fault::StopRun => self.stop_run.cancel(),
            Fault::ShutDown => _ = tokio::spawn(async move { handle.shutdown().await }),
        }
    }

    async fn around<F: Future>(&self, ctx: &WorkContext, body: F) -> F::Output {
        let mut body = pin!(body);
        poll_fn(|cx| {
            if self.polls.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
                self.spring(ctx);
            }
            body.as_mut().poll(cx)
        })
        .await
    }
}

/// A body that waits in every possible way.
async fn every_wait(ctx: WorkContext, census: Census) -> Result<(), WorkError> {
    let _one = census.one();
    yield_now().await;
    ctx.suspend(yield_now()).await?;
    ctx.add_child(child("first", &census))?;
    sleep(ms(1)).await;
    ctx.join_children().await?;
    ctx.add_child(child("second", &census))?;
    ctx.add_child(WorkSpec::new(BatchWork::new("batch", 2, {
        let census = census.clone();
        move || {
            let census = census.clone();
            (0..3).map(move |_| child("of the batch", &census))
        }
    })))?;
    tokio::select! {
        _ = ctx.suspend(std::future::pending::<()>()) => {}
        () = sleep(ms(1)) => {}
    }
    let (a, b) = tokio::join!(ctx.suspend(sleep(ms(1))), ctx.suspend(sleep(ms(2))));
    a.and(b)?;
    yield_now().await;
    Ok(())
}

fn child(name: &str, census: &Census) -> WorkSpec {
    let (body, census) = (census.one(), census.clone());
    let child = work_fn(name, move |ctx| {
        let (inside, census) = ((census.one(), body.clone()), census.clone());
        async move {
            yield_now().await;
            ctx.suspend(sleep(ms(1))).await?;
            ctx.add_child(work_fn("grandchild", {
                let one = census.one();
                move |_| {
                    let one = one.clone();
                    async move {
                        yield_now().await;
                        drop(one);
                        Ok(())
                    }
                }
            }))?;
            drop(inside);
            Ok(())
        }
    });
    child.needs(cost(1, 1))
}

/// Returns how the work with the fault ended.
async fn end_of_trapped(fault: Fault, at: usize, slots: usize) -> (Trap, WorkState) {
    let mut bench = Bench::new(slots);
    let trap = Trap::new(fault, at);
    let (inside, census) = (trap.clone(), bench.census.clone());
    let body = census.one();
    let parent = work_fn("parent", move |ctx| {
        let (trap, census, body) = (inside.clone(), census.clone(), body.clone());
        async move {
            let _body = body;
            trap.around(&ctx, every_wait(ctx.clone(), census)).await
        }
    });
    let parent = add(&bench.scheduler, parent.needs(cost(1, 2)));
    let follower = add(&bench.scheduler, ok("follower").after([parent]));
    {
        let run = bench.scheduler.run_until_done_with_cancel(trap.stop_run.clone());
        tokio::select! {
            biased;
            () = trap.drop_run.notified() => {}
            _ = run => {}
        }
    }
    let case = format!("{fault:?} at poll {at} with {slots} slots");
    if fault == Fault::ShutDown && trap.has_sprung() {
        bench.scheduler.shutdown().await;
    } else {
        bench.check(&case).await;
    }
    let end = state(&bench.scheduler, parent);
    let followed = state(&bench.scheduler, follower).is_success();
    assert!(end.is_success() || !followed, "{case}: no work follows one that did not succeed");
    bench.close(&case).await;
    (trap, end)
}

#[test]
fn at_every_await_point_a_fault_leaves_nothing_behind() {
    let faults = [
        (Fault::Cancel, WorkState::Cancelled),
        (Fault::CancelAll, WorkState::Cancelled),
        (Fault::Panic, WorkState::Failed),
        (Fault::DropRun, WorkState::Cancelled),
        (Fault::StopRun, WorkState::Cancelled),
        (Fault::ShutDown, WorkState::Cancelled),
    ];
    for (fault, end) in faults {
        for slots in [1, 4] {
            in_time(move || async move {
                let mut points = 0;
                loop {
                    let (trap, ended) = end_of_trapped(fault, points + 1, slots).await;
                    if !trap.has_sprung() {
                        assert_eq!(ended, WorkState::Success, "nothing went wrong");
                        break;
                    }
                    // A request of another thread may come too late for the last poll.
                    let in_time = ended == end || ended == WorkState::Success;
                    assert!(in_time, "{fault:?} before poll {}: {ended}", points + 1);
                    points += 1;
                }
                assert!(points > 8, "{points} points only");
            });
        }
    }
}

/// A body that is counted.
struct Counted {
    plan: u64,
    depth: u32,
    census: Census,
    _one: Arc<()>,
}

impl Counted {
    fn spec(random: &mut Random, depth: u32, census: &Census) -> WorkSpec {
        let plan = random.number();
        let body = Self { plan, depth, census: census.clone(), _one: census.one() };
        let mut spec = WorkSpec::new(body).retries((plan >> 8) as u32 % 3);
        if plan >> 12 & 1 == 1 {
            spec = spec.needs(cost((plan >> 16) as u32 % 3, (plan >> 20) as u32 % 5));
        }
        if plan >> 24 & 3 == 0 {
            let one = census.one();
            spec = spec.gate(async move {
                sleep(ms(plan >> 28 & 3)).await;
                drop(one);
            });
        }
        if plan >> 32 & 3 == 0 {
            spec = spec.timeout(ms(1 + (plan >> 36 & 3)));
        }
        spec.priority((plan >> 40 & 3) as i64)
    }

    fn random(&self, ctx: &WorkContext) -> Random {
        Random::new(self.plan ^ u64::from(ctx.attempt))
    }
}

#[windlass::async_trait]
impl Work for Counted {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let _one = self.census.one();
        let mut random = self.random(&ctx);
        let time = ms(random.within(0..4));
        let family = self.depth < 2;
        match random.within(0..10) {
            0 => sleep(time).await,
            1 => return retry(time),
            2 => return failed("on purpose"),
            3 => panic!("on purpose"),
            4 => std::future::pending().await,
            5 => _ = ctx.suspend(sleep(time)).await,
            6 => {
                ctx.cancel_token().cancelled().await;
                yield_now().await;
            }
            7 if family => {
                let (census, depth, seed) = (self.census.clone(), self.depth + 1, random.number());
                let children = move || {
                    let (census, mut random) = (census.clone(), Random::new(seed));
                    (0..4).map(move |_| Counted::spec(&mut random, depth, &census))
                };
                let _ = ctx.add_child(WorkSpec::new(BatchWork::new("batch", 2, children)));
            }
            8 | 9 if family => {
                for _ in 0..2 {
                    let _ = ctx.add_child(Self::spec(&mut random, self.depth + 1, &self.census));
                }
                if random.one_in(2) {
                    let _ = ctx.join_children().await;
                }
            }
            _ => yield_now().await,
        }
        WorkOutcome::Success
    }
}

fn fill(handle: &WorkHandle, random: &mut Random, census: &Census) {
    let mut works: Vec<WorkId> = Vec::new();
    for _ in 0..12 {
        let mut spec = Counted::spec(random, 0, census);
        if !works.is_empty() && random.one_in(3) {
            let before = *random.pick(&works);
            spec = spec.after([windlass::Dependency::done(before)]);
        }
        works.push(add(handle, spec));
    }
}

/// Polls a future at most so often.
async fn so_often<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn drop_a_run(seed: u64) {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(random.within(1..5) as usize);
    fill(bench.scheduler.as_ref(), &mut random, &bench.census);
    let time = Duration::from_micros(random.within(0..8000));
    let run = so_often(random.within(1..40), bench.scheduler.run_until_done());
    // It may have returned by then.
    let _ = tokio::time::timeout(time, run).await;
    let before = bench.scheduler.metrics().attempts;
    assert_eq!(bench.scheduler.metrics().pending, 0, "seed {seed}: no work waits any more");
    let seed = format!("seed {seed}");
    if random.one_in(2) {
        bench.scheduler.shutdown().await;
        assert_eq!(bench.scheduler.metrics().attempts, before, "{seed}: nothing has started");
        assert_done(&bench.scheduler);
        check_order(&bench.events.take());
    } else {
        bench.check(&seed).await;
        assert_eq!(bench.scheduler.metrics().attempts, before + 1, "{seed}: only the next one");
    }
    bench.close(&seed).await;
}

#[test]
fn a_run_that_is_dropped_at_any_point_leaves_nothing_behind() {
    in_time(|| async {
        for seed in 0..400 {
            drop_a_run(seed).await;
        }
    });
}

#[test]
fn a_run_that_is_dropped_at_any_point_on_several_threads_leaves_nothing_behind() {
    within(secs(30), || {
        threads(3).block_on(async {
            for seed in 0..60 {
                drop_a_run_in_real_time(seed).await;
            }
        });
    });
}

async fn drop_a_run_in_real_time(seed: u64) {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(random.within(1..5) as usize);
    fill(bench.scheduler.as_ref(), &mut random, &bench.census);
    let time = Duration::from_micros(random.within(0..5000));
    let _ = tokio::time::timeout(time, bench.scheduler.run_until_done()).await;
    bench.check(&format!("seed {seed}")).await;
    let Bench { capacity, scheduler, census, .. } = bench;
    drop(scheduler);
    // Bodies are dropped on other threads, each at its next await.
    while census.alive() > 0 {
        yield_now().await;
    }
    assert_eq!(capacity.available(), cost(2, 4), "seed {seed}");
}

/// Drops a run while a body keeps its thread, submits another work, and lets the body go on.
async fn go_on_after_the_run(ends_at_once: bool) {
    let (mut scheduler, mut events) = watched(4);
    let (tell, told) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut parts = Some((tell, released));
    let stubborn = act("stubborn", move |_| {
        let (tell, released) = parts.take().expect("it is tried once");
        async move {
            tell.send(()).expect("the receiver is kept");
            // It never yields.
            released.recv().expect("it is released");
            if !ends_at_once {
                std::future::pending::<()>().await;
            }
            WorkOutcome::Success
        }
    });
    let stubborn = add(&scheduler, stubborn);
    tokio::select! {
        biased;
        _ = told => {}
        _ = scheduler.run_until_done() => unreachable!("one body never ends by itself"),
    }
    let next = add(&scheduler, ok("next"));
    release.send(()).expect("it listens");
    while !state(&scheduler, stubborn).is_terminal() {
        sleep(ms(1)).await;
    }
    sleep(ms(1)).await;
    assert_eq!(state(&scheduler, stubborn), WorkState::Cancelled);
    assert_eq!(state(&scheduler, next), WorkState::Pending, "nothing runs it");
    assert_eq!(events.take().len(), 2);
    _ = scheduler.run_until_done().await;
    assert_eq!(look(&scheduler, next).attempts, 1);
    assert_done(&scheduler);
}

#[test]
fn a_body_that_goes_on_after_its_run_starts_nothing() {
    for ends_at_once in [true, false] {
        within(secs(20), move || threads(2).block_on(go_on_after_the_run(ends_at_once)));
    }
}

/// A body that takes its time to be dropped.
struct Slow(Option<Arc<()>>);

#[windlass::async_trait]
impl Work for Slow {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        ctx.cancel_token().cancelled().await;
        WorkOutcome::Success
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_micros(300));
        drop(self.0.take());
    }
}

#[test]
fn a_shutdown_waits_until_no_body_is_left() {
    within(secs(20), || {
        threads(3).block_on(async {
            for _ in 0..30 {
                let (mut scheduler, census) = (scheduler(4), Census::default());
                for _ in 0..4 {
                    add(&scheduler, WorkSpec::new(Slow(Some(census.one()))));
                }
                let handle = scheduler.handle();
                let run = tokio::spawn(async move { scheduler.run_until_done().await });
                while handle.metrics().running < 4 {
                    yield_now().await;
                }
                handle.shutdown().await;
                assert_eq!(census.alive(), 0, "they were dropped before it returned");
                _ = run.await.expect("it returns");
            }
        });
    });
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_harms_no_work_and_no_caller() {
    struct Broken;
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let mut scheduler = scheduler(2);
    let waker = Waker::from(Arc::new(Broken));
    let mut broken = Context::from_waker(&waker);
    let awaited = scheduler.spawn(takes("awaited", ms(2))).expect("it fits");
    let mut awaiting = pin!(awaited.into_future());
    assert!(awaiting.as_mut().poll(&mut broken).is_pending());
    let mut events = scheduler.subscribe();
    let mut event = Box::pin(events.recv());
    assert!(event.as_mut().poll(&mut broken).is_pending());
    (0..20).for_each(|_| _ = add(&scheduler, takes("other", ms(1))));
    assert_eq!(scheduler.run_until_done().await.success, 21);

    let handle = scheduler.handle();
    let mut run = Box::pin(scheduler.run_until_done());
    let first = handle.spawn(takes("first", ms(1))).expect("it fits");
    assert!(run.as_mut().poll(&mut broken).is_pending());
    let second = handle.spawn(ok("second")).expect("the waker is no matter of its");
    assert_eq!(run.await.success, 2);
    assert!(first.await.is_ok() && second.await.is_ok());
}
