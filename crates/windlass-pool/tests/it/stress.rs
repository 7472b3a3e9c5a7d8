//! Random programs that use the whole API, under a watchdog.
//!
//! They run for two seconds; `WINDLASS_STRESS_SECONDS` sets another time. `WINDLASS_STRESS_SEED`
//! repeats the same programs, though not the same interleavings.

use std::{
    env,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use windlass_pool::{
    Scheduler, SchedulerConfig, Scope, Task, cancelled, checkpoint, for_each, join, race,
    with_deadline_on, with_scope,
};

use crate::support::{TIMEOUT, silence_expected_panics};

/// A random number generator. Each task has its own, so a seed determines the programs.
#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn split(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }
}

struct RandomProgram {
    scheduler: Scheduler,
    steps: AtomicU64,
}

impl RandomProgram {
    /// Performs a random action, and random actions inside it, at most `depth` deep.
    fn act<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, mut rng: Rng, depth: u32) {
        self.step();
        if depth == 0 {
            return self.finish(&mut rng);
        }
        match rng.below(9) {
            0 => self.spawn_and_forget(scope, &mut rng, depth),
            1 => self.spawn_and_await(scope, &mut rng, depth),
            2 => self.open_scope(&mut rng, depth),
            3 => self.run_with_deadline(&mut rng, depth),
            4 => {
                let (left, right) = (rng.split(), rng.split());
                join(|| self.act(scope, left, depth - 1), || self.act(scope, right, depth - 1));
            }
            5 => {
                let (left, right) = (rng.split(), rng.split());
                race(|| self.act(scope, left, depth - 1), || self.act(scope, right, depth - 1));
            }
            6 => {
                let seed = rng.split().0;
                for_each(0..rng.below(6), |n| self.act(scope, Rng(seed ^ n), depth - 1));
            }
            7 => scope.cancel(),
            _ => self.finish(&mut rng),
        }
    }

    fn step(&self) {
        self.steps.fetch_add(1, Relaxed);
    }

    fn finish(&self, rng: &mut Rng) {
        match rng.below(8) {
            0 => panic!("on purpose: random"),
            1 => checkpoint(),
            2 => {
                let until = Instant::now() + Duration::from_micros(rng.below(200));
                while Instant::now() < until && !cancelled() {}
            }
            3 => thread::yield_now(),
            _ => {}
        }
    }

    fn spawn_and_forget<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        rng: &mut Rng,
        depth: u32,
    ) {
        for _ in 0..rng.below(5) {
            let rng = rng.split();
            let task = scope.spawn(move || self.act(scope, rng, depth - 1));
            if depth.is_multiple_of(3) {
                task.cancel();
            }
        }
    }

    /// Spawns tasks that await each other in a random order without cycles.
    fn spawn_and_await<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        rng: &mut Rng,
        depth: u32,
    ) {
        let earlier: Arc<Mutex<Vec<Task<'scope, ()>>>> = Arc::default();
        for _ in 0..rng.below(6) {
            let mut own = rng.split();
            let taken = {
                let mut earlier = earlier.lock().unwrap();
                let count = earlier.len() as u64;
                (count > 0 && own.below(2) == 0)
                    .then(|| earlier.swap_remove(usize::try_from(own.below(count)).unwrap()))
            };
            let task = scope.spawn(move || {
                if let Some(task) = taken {
                    let _ = task.await_result();
                }
                self.act(scope, own, depth - 1);
            });
            earlier.lock().unwrap().push(task);
        }
        let rest = std::mem::take(&mut *earlier.lock().unwrap());
        for mut task in rest {
            match rng.below(4) {
                0 => drop(task.await_timeout(Duration::from_micros(rng.below(300)))),
                1 => drop(task.try_result()),
                2 => task.cancel(),
                _ => drop(task.await_result()),
            }
        }
    }

    fn open_scope(&self, rng: &mut Rng, depth: u32) {
        let rng = rng.split();
        with_scope(&self.scheduler, |inner| {
            inner.on_cancel(|| self.step());
            inner.spawn(move || self.act(inner, rng, depth - 1));
        });
    }

    fn run_with_deadline(&self, rng: &mut Rng, depth: u32) {
        let limit = Duration::from_micros(rng.below(500));
        let rng = rng.split();
        with_deadline_on(&self.scheduler, limit, |inner| {
            inner.spawn(move || self.act(inner, rng, depth - 1));
        });
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn configs() -> [SchedulerConfig; 4] {
    let base = SchedulerConfig { worker_count: 2, ..SchedulerConfig::default() };
    [
        base.clone(),
        SchedulerConfig { worker_count: 3, spin_count: 0, ..base.clone() },
        SchedulerConfig { enable_stealing: false, ..base.clone() },
        SchedulerConfig { worker_count: 1, local_queue_size: 2, ..base },
    ]
}

/// Runs random programs on one pool. They must end, and the counters must add up.
fn run_programs(config: SchedulerConfig, mut rng: Rng, until: Instant) {
    let program =
        RandomProgram { scheduler: Scheduler::with_config(config), steps: AtomicU64::new(0) };
    for round in 0.. {
        if round > 3 && Instant::now() >= until {
            break;
        }
        let rng = rng.split();
        let _ = panic::catch_unwind(AssertUnwindSafe(|| {
            with_scope(&program.scheduler, |scope| {
                let program = &program;
                scope.spawn(move || program.act(scope, rng, 6));
            });
        }));
    }
    let total = program.scheduler.stats().total();
    assert_eq!(total.spawned, total.completed + total.cancelled + total.panicked);
    assert!(program.steps.into_inner() > 0);
}

#[test]
fn random_programs_end_and_their_counters_add_up() {
    silence_expected_panics();
    let seconds = number("WINDLASS_STRESS_SECONDS", if cfg!(miri) { 0 } else { 2 });
    let seed = number("WINDLASS_STRESS_SEED", u64::from(std::process::id()));
    let (done, all_done) = mpsc::channel();
    let runs = configs().map(|config| {
        let (done, name) = (done.clone(), format!("{config:?}"));
        let until = Instant::now() + Duration::from_secs(seconds);
        thread::spawn(move || {
            let passed = panic::catch_unwind(|| run_programs(config, Rng(seed), until)).is_ok();
            done.send((name, passed)).unwrap();
        })
    });
    for _ in &runs {
        let (name, passed) = all_done
            .recv_timeout(TIMEOUT + Duration::from_secs(seconds))
            .unwrap_or_else(|_| panic!("timed out; seed {seed}"));
        assert!(passed, "seed {seed}, {name}");
    }
}
