//! Random calls at several levels, against lists of what was taken: the sums always match, and at
//! every quiet point no waiter sleeps whose request fits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::Future;
use proptest::prelude::*;
use windlass::Permit;

use super::*;
use crate::support::cases;

const NAMES: [&str; 2] = ["cpu", "gpu"];
/// The root, two levels under it, and one under the second of these.
const PARENTS: [Option<usize>; 4] = [None, Some(0), Some(0), Some(2)];

type Amounts = [u32; NAMES.len()];

/// One step of a random run. Numbers that choose among what there is are taken modulo its count.
#[derive(Clone, Debug)]
enum Step {
    Acquire {
        level: usize,
        amounts: Amounts,
    },
    TryAcquire {
        level: usize,
        amounts: Amounts,
    },
    /// Acquires the same several times without a check between, and keeps the last permit.
    TakeOften {
        level: usize,
        amounts: Amounts,
        times: usize,
    },
    AcquireImmediate {
        level: usize,
        amounts: Amounts,
    },
    Release {
        level: usize,
        amounts: Amounts,
    },
    DropPermit {
        which: usize,
    },
    Reconcile {
        which: usize,
        actual: Amounts,
    },
    DropWaiter {
        which: usize,
    },
    SetLimits {
        level: usize,
        limits: Amounts,
    },
    /// Everything that was woken looks again.
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<usize>();
    let level = || 0..PARENTS.len();
    let amounts = || [0..4u32, 0..4u32];
    let limits = [3..9u32, 3..9u32];
    prop_oneof![
        6 => (level(), amounts()).prop_map(|(level, amounts)| Step::Acquire { level, amounts }),
        3 => (level(), amounts()).prop_map(|(level, amounts)| Step::TryAcquire { level, amounts }),
        4 => (level(), amounts(), 1..6usize)
            .prop_map(|(level, amounts, times)| Step::TakeOften { level, amounts, times }),
        2 => (level(), amounts())
            .prop_map(|(level, amounts)| Step::AcquireImmediate { level, amounts }),
        2 => (level(), amounts()).prop_map(|(level, amounts)| Step::Release { level, amounts }),
        6 => any.prop_map(|which| Step::DropPermit { which }),
        1 => (any, amounts()).prop_map(|(which, actual)| Step::Reconcile { which, actual }),
        3 => any.prop_map(|which| Step::DropWaiter { which }),
        2 => (level(), limits).prop_map(|(level, limits)| Step::SetLimits { level, limits }),
        6 => Just(Step::Run),
    ]
}

fn named(amounts: Amounts) -> ResourceCost {
    let pairs = NAMES.into_iter().zip(amounts).filter(|(_, n)| *n > 0);
    ResourceCost::of(pairs).expect("each name once")
}

/// Remembers that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Waiting {
    level: usize,
    amounts: Amounts,
    future: Pin<Box<dyn Future<Output = Permit>>>,
    woken: Arc<Flag>,
}

/// The capacities, and the lists of what was taken.
struct World {
    levels: Vec<ResourceCapacity>,
    limits: Vec<Amounts>,
    permits: Vec<(usize, Amounts, Permit)>,
    immediate: Vec<Amounts>,
    /// In the order in which they came.
    line: Vec<Waiting>,
    /// How often a request was granted.
    accepted: u64,
}

impl World {
    fn new() -> Self {
        let limits = vec![[8, 8], [6, 6], [6, 6], [4, 4]];
        let mut levels = vec![ResourceCapacity::new(named(limits[0]))];
        for (place, parent) in PARENTS.into_iter().enumerate().skip(1) {
            let parent = &levels[parent.expect("only the root has none")];
            levels.push(parent.child(named(limits[place])));
        }
        let immediate = vec![[0; 2]; PARENTS.len()];
        Self { levels, limits, permits: Vec::new(), immediate, line: Vec::new(), accepted: 0 }
    }

    fn chain(level: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(level), |level| PARENTS[*level])
    }

    fn in_use(&self, level: usize, resource: usize) -> u32 {
        let permits = self.permits.iter().map(|(at, amounts, _)| (*at, *amounts));
        let immediate = self.immediate.iter().copied().enumerate();
        let below = permits.chain(immediate).filter(|(at, _)| Self::chain(*at).any(|l| l == level));
        below.map(|(_, amounts)| amounts[resource]).sum()
    }

    /// Returns whether `amounts` are free at `level` beside all that these others request.
    fn fits(&self, level: usize, amounts: Amounts, before: &[Waiting]) -> bool {
        Self::chain(level).all(|bound| {
            let others = before.iter().filter(|w| Self::chain(w.level).any(|l| l == bound));
            (0..NAMES.len()).all(|resource| {
                let wanted: u32 = others.clone().map(|waiting| waiting.amounts[resource]).sum();
                let needed = amounts[resource] + wanted + self.in_use(bound, resource);
                amounts[resource] == 0 || needed <= self.limits[bound][resource]
            })
        })
    }

    fn is_possible(&self, level: usize, amounts: Amounts) -> bool {
        let within = |bound: usize| (0..NAMES.len()).all(|r| amounts[r] <= self.limits[bound][r]);
        Self::chain(level).all(within)
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Acquire { level, amounts } => self.acquire(level, amounts),
            Step::TryAcquire { level, amounts } => self.try_acquire(level, amounts),
            Step::TakeOften { level, amounts, times } => self.take_often(level, amounts, times),
            Step::AcquireImmediate { level, amounts } => self.acquire_immediate(level, amounts),
            Step::Release { level, amounts } => self.release(level, amounts),
            Step::DropPermit { which } if !self.permits.is_empty() => {
                drop(self.permits.swap_remove(which % self.permits.len()));
            }
            Step::Reconcile { which, actual } if !self.permits.is_empty() => {
                let place = which % self.permits.len();
                let (_, amounts, permit) = &mut self.permits[place];
                permit.reconcile(named(actual)).expect("both names are declared");
                *amounts = actual;
            }
            Step::DropWaiter { which } if !self.line.is_empty() => {
                drop(self.line.remove(which % self.line.len()));
            }
            Step::SetLimits { level, limits } => {
                self.levels[level].set_limits(named(limits));
                self.limits[level] = limits;
            }
            Step::Run => self.run(),
            _ => {}
        }
    }

    fn acquire(&mut self, level: usize, amounts: Amounts) {
        let capacity = self.levels[level].clone();
        if !self.is_possible(level, amounts) {
            assert!(capacity.validate_cost(named(amounts)).is_err());
            return;
        }
        let future = async move { capacity.acquire(&named(amounts)).await.expect("possible") };
        let woken = Arc::new(Flag::default());
        let waiting = Waiting { level, amounts, future: Box::pin(future), woken };
        let may_pass = self.fits(level, amounts, &self.line);
        self.line.push(waiting);
        let waits = self.poll(self.line.len() - 1).is_pending();
        assert!(!(waits && may_pass), "it would have fitted beside all that wait");
    }

    fn try_acquire(&mut self, level: usize, amounts: Amounts) {
        let can = self.levels[level].can_acquire(named(amounts));
        let taken = self.levels[level].try_acquire(named(amounts));
        assert_eq!(can, taken.is_ok());
        assert!(!can || self.fits(level, amounts, &[]), "more than there is");
        self.accepted += u64::from(can);
        self.permits.extend(taken.map(|permit| (level, amounts, permit)));
    }

    fn take_often(&mut self, level: usize, amounts: Amounts, times: usize) {
        let cost = named(amounts);
        for time in 1..=times {
            let (fits, free) =
                (self.fits(level, amounts, &[]), self.fits(level, amounts, &self.line));
            let taken = self.levels[level].try_acquire(&cost);
            assert!(fits || taken.is_err(), "more than there is");
            assert!(!free || taken.is_ok(), "it would have fitted beside all that wait");
            self.accepted += u64::from(taken.is_ok());
            if time == times {
                self.permits.extend(taken.map(|permit| (level, amounts, permit)));
            }
        }
    }

    fn acquire_immediate(&mut self, level: usize, amounts: Amounts) {
        if self.levels[level].acquire_immediate(named(amounts)).is_ok() {
            (0..NAMES.len()).for_each(|r| self.immediate[level][r] += amounts[r]);
            self.accepted += 1;
        }
    }

    fn release(&mut self, level: usize, amounts: Amounts) {
        let held = self.immediate[level];
        let enough = (0..NAMES.len()).all(|resource| amounts[resource] <= held[resource]);
        let released = self.levels[level].release(named(amounts));
        assert_eq!(released.is_ok(), enough, "{released:?}");
        if enough {
            (0..NAMES.len()).for_each(|r| self.immediate[level][r] -= amounts[r]);
        }
    }

    /// Polls a waiter and adds its permit to the list if it has been granted.
    fn poll(&mut self, place: usize) -> Poll<()> {
        let waiting = &mut self.line[place];
        waiting.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&waiting.woken));
        let Poll::Ready(permit) = waiting.future.as_mut().poll(&mut Context::from_waker(&waker))
        else {
            return Poll::Pending;
        };
        let Waiting { level, amounts, .. } = self.line.remove(place);
        assert!(self.fits(level, amounts, &[]), "more than there is");
        self.accepted += 1;
        self.permits.push((level, amounts, permit));
        Poll::Ready(())
    }

    /// Polls the waiters that were woken, until none is.
    fn run(&mut self) {
        let woken = |waiting: &Waiting| waiting.woken.0.load(Ordering::Relaxed);
        while let Some(place) = self.line.iter().position(woken) {
            let _ = self.poll(place);
        }
        for (place, waiting) in self.line.iter().enumerate() {
            let fits = self.fits(waiting.level, waiting.amounts, &self.line[..place]);
            assert!(!fits, "the one at place {place} sleeps though it fits");
        }
    }

    fn compare(&self) {
        for (level, capacity) in self.levels.iter().enumerate() {
            let free = |resource: usize| {
                self.limits[level][resource].saturating_sub(self.in_use(level, resource))
            };
            let expected = cost([(NAMES[0], free(0)), (NAMES[1], free(1))]);
            assert_eq!(capacity.available(), expected, "level {level}");
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_sums_match_and_no_waiter_sleeps_whose_request_fits(
        steps in prop::collection::vec((step(), any::<bool>()), 1..120),
    ) {
        let mut world = World::new();
        for (step, looks) in &steps {
            world.apply(step);
            if *looks {
                world.compare();
            }
        }
        world.compare();
        world.run();
        world.line.clear();
        world.permits.clear();
        let whole = world.levels.iter().zip(&world.immediate);
        for (capacity, held) in whole {
            capacity.release(named(*held)).expect("it is held");
        }
        world.immediate.iter_mut().for_each(|held| *held = [0; 2]);
        world.compare();
        let metrics = world.levels[0].metrics();
        assert_eq!((metrics.waiting, metrics.in_flight), (0, 0));
        assert_eq!(metrics.accepted, world.accepted);
    }
}

/// A few numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// One of several tasks that acquire, wait, stop waiting and release, on threads of their own. Returns how
/// often it has taken.
async fn mingle(capacity: ResourceCapacity, seed: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let mut permits = Vec::new();
    let mut taken = 0;
    for _ in 0..400 {
        let wanted = named([numbers.below(3), 1 + numbers.below(2)]);
        match numbers.below(6) {
            0 => {
                let permit = capacity.try_acquire(&wanted).ok();
                taken += u64::from(permit.is_some());
                permits.extend(permit);
            }
            5 => {
                // Mostly of one kind: that may need no lock.
                let one = named([0, 1]);
                for _ in 0..20 {
                    taken += u64::from(capacity.try_acquire(&one).is_ok());
                }
            }
            1 => {
                // It could wait for what it holds itself, and so could the others.
                permits.clear();
                permits.push(capacity.acquire(&wanted).await.expect("it can be had"));
                taken += 1;
            }
            2 => {
                let mut gives_up = Box::pin(capacity.acquire(&wanted));
                for _ in 0..numbers.below(3) {
                    if poll_once(&mut gives_up).is_ready() {
                        taken += 1;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            3 => drop(permits.pop()),
            _ => tokio::task::yield_now().await,
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_several_threads_leave_the_capacity_whole() {
    for round in 0..5 {
        let cluster = ResourceCapacity::new(named([6, 6]));
        let teams = [cluster.clone(), cluster.child(named([4, 4])), cluster.child(named([3, 4]))];
        let tasks = (0..12).map(|task: u64| {
            let capacity = teams[usize::try_from(task).expect("small") % 3].clone();
            tokio::spawn(mingle(capacity, round * 100 + task))
        });
        let mut taken = 0;
        for task in tasks.collect::<Vec<_>>() {
            taken += task.await.expect("no panic");
        }
        assert_eq!(cluster.available(), named([6, 6]));
        let metrics = cluster.metrics();
        assert_eq!((metrics.waiting, metrics.in_flight), (0, 0));
        assert_eq!(metrics.accepted, taken);
    }
}
