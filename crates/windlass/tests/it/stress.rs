//! Many callers use one scheduler at once: nothing hangs, the totals add up, and nothing accumulates.
//!
//! Takes two seconds, or `WINDLASS_STRESS_SECONDS`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::yield_now;
use windlass::core::Random;
use windlass::{
    BatchWork, CancellationToken, Dependency, Notice, ResourceCapacity, ResourceCost, WorkContext,
    WorkHandle, WorkId, WorkOutcome, WorkScheduler, WorkSpec, WorkState,
};

use crate::support::*;

const HANDS: u64 = 16;

/// How many works a caller leaves alive before it forgets them.
const KEPT: usize = 60;

fn duration() -> Duration {
    let seconds = std::env::var("WINDLASS_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// What all callers have done together.
#[derive(Default)]
struct Tally {
    submitted: AtomicU64,
    children: AtomicU64,
    forgotten: AtomicU64,
    begun: AtomicU64,
}

impl Tally {
    fn one_more(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Common {
    handle: WorkHandle,
    tally: Arc<Tally>,
    census: Census,
}

fn cost(gpu: u64, ram: u64) -> ResourceCost {
    let (gpu, ram) = (gpu as u32, ram as u32);
    ResourceCost::from([("gpu", gpu), ("ram", ram)])
}

/// A body that does something short.
async fn body(ctx: WorkContext, plan: u64, common: Common) -> WorkOutcome {
    Tally::one_more(&common.tally.begun);
    let _one = common.census.one();
    let mut random = Random::new(plan ^ u64::from(ctx.attempt));
    match random.within(0..12) {
        0 => return failed("on purpose"),
        1 => return retry(Duration::from_micros(random.within(1..500))),
        2 => _ = ctx.suspend(tokio::time::sleep(Duration::from_micros(500))).await,
        3 => tokio::time::sleep(Duration::from_micros(random.within(1..2000))).await,
        4 => _ = ctx.suspend(ctx.woken()).await,
        5 | 6 => {
            for _ in 0..random.within(1..4) {
                if ctx.add_child(child(common.clone())).is_ok() {
                    Tally::one_more(&common.tally.children);
                }
            }
            if random.one_in(2) {
                let _ = ctx.join_children().await;
            }
        }
        7 => {
            // Another caller may have changed that.
            let _ = ctx.handle().explain(ctx.id);
            let _ = ctx.handle().snapshot_of(ctx.id);
        }
        _ => yield_now().await,
    }
    WorkOutcome::Success
}

fn child(common: Common) -> WorkSpec {
    act("child", move |_| {
        let one = common.census.one();
        Tally::one_more(&common.tally.begun);
        async move {
            yield_now().await;
            drop(one);
            WorkOutcome::Success
        }
    })
}

/// One caller.
struct Hand {
    common: Common,
    random: Random,
    works: Vec<WorkId>,
}

impl Hand {
    fn submit(&mut self) {
        let (common, plan) = (self.common.clone(), self.random.number());
        let mut spec: WorkSpec = act("work", move |ctx| body(ctx, plan, common.clone()));
        if self.random.one_in(2) {
            spec = spec.needs(cost(self.random.within(0..3), self.random.within(0..3)));
        }
        if !self.works.is_empty() && self.random.one_in(3) {
            let before = *self.random.pick(&self.works);
            spec = spec.after([Dependency::done(before)]);
        }
        if self.random.one_in(8) {
            spec = spec.gate(tokio::time::sleep(Duration::from_micros(300)));
        }
        if self.random.one_in(8) {
            spec = spec.timeout(Duration::from_micros(self.random.within(1..3000)));
        }
        if self.random.one_in(8) {
            let time = Duration::from_micros(self.random.within(1..5000));
            spec = spec.deadline(tokio::time::Instant::now() + time);
        }
        spec = spec.retries(self.random.within(0..3) as u32);
        let spec = spec.priority(self.random.within(0..4) as i64);
        // Refused if the one before it is forgotten by now, or the limits are low at the moment.
        if let Ok(work) = self.common.handle.submit(spec) {
            Tally::one_more(&self.common.tally.submitted);
            self.works.push(work);
        }
    }

    fn meddle(&mut self) {
        let Self { common, random, works } = self;
        let handle = &common.handle;
        if works.is_empty() {
            return;
        }
        let work = *random.pick(works);
        match random.within(0..10) {
            0 => _ = handle.cancel(work),
            1 => _ = handle.add_dependency(work, *random.pick(works)),
            2 => handle.set_limits(cost(random.within(1..5), random.within(1..5))),
            3 => handle.set_max_concurrency(random.within(1..12) as usize),
            4 => _ = handle.wake(work),
            5 => _ = handle.reopen(work),
            6 => _ = handle.open_gate(work),
            7 => _ = (handle.metrics(), handle.snapshot_of(work), handle.state(work)),
            8 => _ = handle.explain(work),
            _ => self.forget(work),
        }
    }

    fn forget(&mut self, work: WorkId) {
        if self.common.handle.forget(work) {
            Tally::one_more(&self.common.tally.forgotten);
            self.works.retain(|known| *known != work);
        }
    }

    /// Ends and forgets all works that it has submitted.
    async fn clear_up(&mut self) {
        while let Some(&work) = self.works.last() {
            self.common.handle.cancel(work);
            self.forget(work);
            // A work that runs or was reopened takes a while.
            if self.works.last() == Some(&work) {
                self.works.rotate_right(1);
                yield_now().await;
            }
        }
    }

    async fn go(mut self, until: Instant) {
        while Instant::now() < until {
            self.submit();
            self.meddle();
            if self.works.len() > KEPT {
                self.clear_up().await;
            }
            if self.random.one_in(4) {
                yield_now().await;
            }
        }
        self.clear_up().await;
    }
}

/// Counts the events that a subscriber received and missed.
async fn listen(mut told: windlass::Subscription) -> u64 {
    let (mut last, mut missed) = (0, 0);
    while let Some(notice) = told.recv().await {
        match notice {
            Notice::Missed(more) => missed += more,
            Notice::Event(event) => {
                assert!(event.number > last, "in order");
                last = event.number;
            }
        }
    }
    last.max(missed)
}

#[test]
fn sixteen_concurrent_callers_leave_nothing_behind() {
    let duration = duration();
    within(duration + secs(30), move || threads(3).block_on(stress(duration)));
}

async fn stress(duration: Duration) {
    let capacity = ResourceCapacity::new(cost(8, 8));
    let builder =
        WorkScheduler::builder().max_concurrency(4).capacity(&capacity).limits(cost(4, 4));
    let mut scheduler = builder.cancel_grace(ms(5)).build().expect("slots");
    let (tally, census) = (Arc::<Tally>::default(), Census::default());
    let (handle, stop) = (scheduler.handle(), CancellationToken::new());
    let (stopped, told) = (stop.clone(), tokio::spawn(listen(scheduler.subscribe())));
    let service = tokio::spawn(async move {
        _ = scheduler.run_until_cancelled(stopped).await;
        scheduler
    });
    let until = Instant::now() + duration;
    let hands = (0..HANDS).map(|seed| {
        let common =
            Common { handle: handle.clone(), tally: tally.clone(), census: census.clone() };
        tokio::spawn(Hand { common, random: Random::new(seed), works: Vec::new() }.go(until))
    });
    for hand in hands.collect::<Vec<_>>() {
        hand.await.expect("it goes on to its end");
    }
    let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let metrics = handle.metrics();
    assert!(counted(&tally.submitted) > 1000, "{} works only", counted(&tally.submitted));
    // Children whose parents are forgotten have no parent, but are known; others went with a retry.
    let children = handle.snapshot();
    assert!(children.iter().all(|work| &*work.name == "child"), "{children:?}");
    assert_eq!(metrics.total, children.len());
    for child in children {
        while !handle.forget(child.id) {
            yield_now().await;
        }
    }
    stop.cancel();
    let mut scheduler = service.await.expect("the run goes on to its end");

    let metrics = handle.metrics();
    assert_eq!((metrics.total, metrics.pending, metrics.running), (0, 0, 0), "nothing piles up");
    assert_eq!(metrics.forgotten, counted(&tally.submitted) + counted(&tally.children));
    assert_eq!(metrics.attempts, counted(&tally.begun), "every attempt was begun once");
    assert_eq!(metrics.retries_left, 0);
    assert_eq!(capacity.available(), cost(8, 8), "all of it is free");
    handle.set_limits(cost(4, 4));
    handle.set_max_concurrency(4);
    let next = add(&handle, ok("next").needs(cost(4, 4)));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&handle, next), WorkState::Success, "it goes on");
    drop(scheduler);
    assert!(told.await.expect("in order") > counted(&tally.submitted));
    assert_eq!(census.alive(), 0, "no body is left");
    assert_done(&handle);
}

#[test]
fn graphs_of_batches_and_batches_of_graphs_leave_nothing_behind() {
    within(secs(30), || {
        threads(2).block_on(async {
            let builder = WorkScheduler::builder().max_concurrency(3).keep_ended(10);
            let mut scheduler = builder.build().expect("slots");
            let census = Census::default();
            for _ in 0..20 {
                let census = census.clone();
                let inner = move || {
                    let census = census.clone();
                    (0..20).map(move |_| {
                        let one = census.one();
                        act("leaf", move |_| {
                            let one = one.clone();
                            async move {
                                yield_now().await;
                                drop(one);
                                WorkOutcome::Success
                            }
                        })
                    })
                };
                add(&scheduler, WorkSpec::new(BatchWork::new("batch", 4, inner)));
            }
            _ = scheduler.run_until_done().await;
            let metrics = scheduler.metrics();
            assert_eq!(metrics.attempts, 20 + 400);
            assert_eq!(metrics.total as u64 + metrics.forgotten, 420);
            assert!(metrics.total <= 10);
            // The thread that forgets a work drops it after it has freed the lock: the last one
            // perhaps a moment after the run has returned.
            while census.alive() > 10 {
                yield_now().await;
            }
        });
    });
}

/// A scheduler among others on one capacity, with works that all need some of it.
async fn share(capacity: ResourceCapacity, seed: u64) -> u64 {
    let builder = WorkScheduler::builder().max_concurrency(5).capacity(&capacity);
    let mut scheduler = builder.build().expect("slots");
    let mut random = Random::new(seed);
    for _ in 0..150 {
        let (plan, needs) = (random.number(), cost(random.within(0..3), random.within(0..3)));
        let work = act("work", move |ctx| async move {
            match (plan ^ u64::from(ctx.attempt)) % 4 {
                0 => yield_now().await,
                1 => _ = ctx.suspend(yield_now()).await,
                2 => return retry(Duration::from_micros(50)),
                _ => {}
            }
            WorkOutcome::Success
        });
        add(&scheduler, work.needs(needs).retries(9).priority((plan % 3) as i64));
    }
    _ = scheduler.run_until_done().await;
    assert_done(&scheduler);
    scheduler.metrics().attempts
}

#[test]
fn schedulers_on_one_capacity_lose_no_wake_up() {
    within(secs(30), || {
        threads(3).block_on(async {
            let capacity = ResourceCapacity::new(cost(2, 2));
            let shares = (0..6).map(|seed| tokio::spawn(share(capacity.clone(), seed)));
            for share in shares.collect::<Vec<_>>() {
                assert!(share.await.expect("it goes on to its end") >= 150);
            }
            assert_eq!(capacity.available(), cost(2, 2), "all of it is free");
        });
    });
}
