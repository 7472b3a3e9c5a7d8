//! Everything at once, at random, under a watchdog.
//!
//! Two seconds by default; `WINDLASS_STRESS_SECONDS` makes it longer, and `WINDLASS_STRESS_SEED`
//! repeats a run as far as threads allow.

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

use crate::support::{PATIENCE, hush_panics};

/// A small random number generator; each task has its own, so a seed determines what is done.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn split(&mut self) -> Self {
        Self(self.roll(u64::MAX))
    }
}

struct Chaos {
    scheduler: Scheduler,
    steps: AtomicU64,
}

impl Chaos {
    /// Does something, and things inside it, at most `depth` deep.
    fn act<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, mut dice: Dice, depth: u32) {
        self.step();
        if depth == 0 {
            return self.finish(&mut dice);
        }
        match dice.roll(9) {
            0 => self.spawn_and_forget(scope, &mut dice, depth),
            1 => self.spawn_and_await(scope, &mut dice, depth),
            2 => self.nest(&mut dice, depth),
            3 => self.hurry(&mut dice, depth),
            4 => {
                let (left, right) = (dice.split(), dice.split());
                join(|| self.act(scope, left, depth - 1), || self.act(scope, right, depth - 1));
            }
            5 => {
                let (left, right) = (dice.split(), dice.split());
                race(|| self.act(scope, left, depth - 1), || self.act(scope, right, depth - 1));
            }
            6 => {
                let seed = dice.split().0;
                for_each(0..dice.roll(6), |n| self.act(scope, Dice(seed ^ n), depth - 1));
            }
            7 => scope.cancel(),
            _ => self.finish(&mut dice),
        }
    }

    fn step(&self) {
        self.steps.fetch_add(1, Relaxed);
    }

    fn finish(&self, dice: &mut Dice) {
        match dice.roll(8) {
            0 => panic!("on purpose: chaos"),
            1 => checkpoint(),
            2 => {
                let until = Instant::now() + Duration::from_micros(dice.roll(200));
                while Instant::now() < until && !cancelled() {}
            }
            3 => thread::yield_now(),
            _ => {}
        }
    }

    fn spawn_and_forget<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        dice: &mut Dice,
        depth: u32,
    ) {
        for _ in 0..dice.roll(5) {
            let dice = dice.split();
            let task = scope.spawn(move || self.act(scope, dice, depth - 1));
            if depth.is_multiple_of(3) {
                task.cancel();
            }
        }
    }

    /// Tasks that await each other in a random order that has no circles.
    fn spawn_and_await<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        dice: &mut Dice,
        depth: u32,
    ) {
        let earlier: Arc<Mutex<Vec<Task<'scope, ()>>>> = Arc::default();
        for _ in 0..dice.roll(6) {
            let mut own = dice.split();
            let taken = {
                let mut earlier = earlier.lock().unwrap();
                let count = earlier.len() as u64;
                (count > 0 && own.roll(2) == 0)
                    .then(|| earlier.swap_remove(usize::try_from(own.roll(count)).unwrap()))
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
            match dice.roll(4) {
                0 => drop(task.await_timeout(Duration::from_micros(dice.roll(300)))),
                1 => drop(task.try_result()),
                2 => task.cancel(),
                _ => drop(task.await_result()),
            }
        }
    }

    fn nest(&self, dice: &mut Dice, depth: u32) {
        let dice = dice.split();
        with_scope(&self.scheduler, |inner| {
            inner.on_cancel(|| self.step());
            inner.spawn(move || self.act(inner, dice, depth - 1));
        });
    }

    fn hurry(&self, dice: &mut Dice, depth: u32) {
        let limit = Duration::from_micros(dice.roll(500));
        let dice = dice.split();
        with_deadline_on(&self.scheduler, limit, |inner| {
            inner.spawn(move || self.act(inner, dice, depth - 1));
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

/// One pool, many trees; everything must end and the counters must add up.
fn storm(config: SchedulerConfig, mut dice: Dice, until: Instant) {
    let chaos = Chaos { scheduler: Scheduler::with_config(config), steps: AtomicU64::new(0) };
    for round in 0.. {
        if round > 3 && Instant::now() >= until {
            break;
        }
        let dice = dice.split();
        let _ = panic::catch_unwind(AssertUnwindSafe(|| {
            with_scope(&chaos.scheduler, |scope| {
                let chaos = &chaos;
                scope.spawn(move || chaos.act(scope, dice, 6));
            });
        }));
    }
    let total = chaos.scheduler.stats().total();
    assert_eq!(total.spawned, total.completed + total.cancelled + total.panicked);
    assert!(chaos.steps.into_inner() > 0);
}

#[test]
fn a_storm_of_everything_passes() {
    hush_panics();
    let seconds = number("WINDLASS_STRESS_SECONDS", if cfg!(miri) { 0 } else { 2 });
    let seed = number("WINDLASS_STRESS_SEED", u64::from(std::process::id()));
    let (done, all_done) = mpsc::channel();
    let storms = configs().map(|config| {
        let (done, name) = (done.clone(), format!("{config:?}"));
        let until = Instant::now() + Duration::from_secs(seconds);
        thread::spawn(move || {
            let passed = panic::catch_unwind(|| storm(config, Dice(seed), until)).is_ok();
            done.send((name, passed)).unwrap();
        })
    });
    for _ in &storms {
        let (name, passed) = all_done
            .recv_timeout(PATIENCE + Duration::from_secs(seconds))
            .unwrap_or_else(|_| panic!("it hangs; seed {seed}"));
        assert!(passed, "seed {seed}, {name}");
    }
}
