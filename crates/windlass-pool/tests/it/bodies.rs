//! Bodies: begun, polled, stopped and dropped at every point, small and large, well and badly.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicIsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    thread,
};

use proptest::{prelude::*, test_runner::Config};
use windlass_pool::body::{Body, Routine};

use crate::support::hush_panics;

/// What is alive.
#[derive(Default)]
struct Tally {
    routines: AtomicIsize,
    futures: AtomicIsize,
}

impl Tally {
    fn check(&self, routines: isize, futures: isize) {
        let alive = (self.routines.load(SeqCst), self.futures.load(SeqCst));
        assert_eq!(alive, (routines, futures), "routines and futures alive");
    }
}

/// Where a routine or its future panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Faults {
    in_begin: bool,
    in_poll: bool,
    in_drop_of_future: bool,
    in_drop_of_routine: bool,
}

/// A routine that counts itself and its futures; `N` and `M` bytes make it and its future large.
struct Probe<const N: usize, const M: usize> {
    tally: Arc<Tally>,
    faults: Faults,
    waits: u32,
    begun: u32,
    weight: [u8; N],
}

struct Counted {
    tally: Arc<Tally>,
    panics: bool,
}

impl Counted {
    fn new(tally: &Arc<Tally>, panics: bool) -> Self {
        tally.futures.fetch_add(1, SeqCst);
        Self { tally: Arc::clone(tally), panics }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.tally.futures.fetch_sub(1, SeqCst);
        // Two panics at a time would end the process.
        assert!(!self.panics || thread::panicking(), "on purpose: the future's drop");
    }
}

impl<const N: usize, const M: usize> Probe<N, M> {
    fn new(tally: &Arc<Tally>, waits: u32, faults: Faults) -> Self {
        tally.routines.fetch_add(1, SeqCst);
        Self { tally: Arc::clone(tally), faults, waits, begun: 0, weight: [1; N] }
    }
}

impl<const N: usize, const M: usize> Drop for Probe<N, M> {
    fn drop(&mut self) {
        self.tally.routines.fetch_sub(1, SeqCst);
        let panics = self.faults.in_drop_of_routine && !thread::panicking();
        assert!(!panics, "on purpose: the routine's drop");
    }
}

/// As what a probe is seen.
trait Seen: Send {
    fn begun(&self) -> u32;
    fn set_faults(&mut self, faults: Faults);
}

impl<const N: usize, const M: usize> Seen for Probe<N, M> {
    fn begun(&self) -> u32 {
        self.begun
    }

    fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }
}

impl<const N: usize, const M: usize> Routine<u32> for Probe<N, M> {
    type Output = u32;
    type View = dyn Seen;

    fn begin(&mut self, number: u32) -> impl Future<Output = u32> + Send {
        self.begun += 1;
        assert!(!self.faults.in_begin, "on purpose: the routine");
        let counted = Counted::new(&self.tally, self.faults.in_drop_of_future);
        let (load, mut left) = ([1_u8; M], self.waits);
        async move {
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            assert!(!self.faults.in_poll, "on purpose: the future");
            // The future borrows the routine, and is as large as it says.
            let weight = self.weight.iter().chain(&load).map(|&byte| u32::from(byte)).sum::<u32>();
            drop(counted);
            number + weight - (N + M) as u32
        }
    }

    fn view(&self) -> &Self::View {
        self
    }

    fn view_mut(&mut self) -> &mut Self::View {
        self
    }

    fn into_view(self) -> Box<Self::View> {
        Box::new(self)
    }
}

type Probed = Body<u32, u32, dyn Seen>;

/// One of several sizes: both small, a larger future, a large one, a large routine, both.
fn body(size: usize, tally: &Arc<Tally>, waits: u32, faults: Faults) -> Probed {
    match size {
        0 => Body::new(Probe::<0, 0>::new(tally, waits, faults)),
        1 => Body::new(Probe::<0, 100>::new(tally, waits, faults)),
        2 => Body::new(Probe::<40, 1000>::new(tally, waits, faults)),
        3 => Body::new(Probe::<1000, 0>::new(tally, waits, faults)),
        _ => Body::new(Probe::<300, 3000>::new(tally, waits, faults)),
    }
}

const SIZES: std::ops::Range<usize> = 0..5;

fn poll(body: &mut Probed) -> Poll<u32> {
    body.poll(&mut Context::from_waker(Waker::noop()))
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_body_can_be_begun_again_after_its_future_is_ready() {
    for size in SIZES {
        let tally = Arc::default();
        let mut body = body(size, &tally, 1, Faults::default());
        for round in 1..4 {
            body.begin(round);
            assert!(body.is_begun());
            assert_eq!(poll(&mut body), Poll::Pending);
            tally.check(1, 1);
            assert_eq!(poll(&mut body), Poll::Ready(round));
            assert!(!body.is_begun());
            tally.check(1, 0);
            assert_eq!(body.view().begun(), round);
        }
        drop(body);
        tally.check(0, 0);
    }
}

#[test]
fn a_body_may_be_dropped_or_stopped_at_any_point() {
    for size in SIZES {
        for polls in 0..3 {
            let tally = Arc::default();
            let mut stopped = body(size, &tally, 5, Faults::default());
            let mut dropped = body(size, &tally, 5, Faults::default());
            for body in [&mut stopped, &mut dropped] {
                body.begin(1);
                (0..polls).for_each(|_| assert_eq!(poll(body), Poll::Pending));
            }
            tally.check(2, 2);
            stopped.stop();
            tally.check(2, 1);
            stopped.stop();
            tally.check(2, 1);
            assert_eq!(stopped.view().begun(), 1, "a stop leaves the routine");
            drop(dropped);
            tally.check(1, 0);
        }
    }
}

#[test]
fn a_future_goes_before_the_routine_that_it_borrows() {
    struct Order(Arc<AtomicIsize>);
    struct Late<'a>(&'a Order);
    impl Drop for Order {
        fn drop(&mut self) {
            self.0.store(-1, SeqCst);
        }
    }
    impl Drop for Late<'_> {
        fn drop(&mut self) {
            assert_ne!(self.0.0.fetch_add(1, SeqCst), -1, "the routine is gone");
        }
    }
    impl Routine<()> for Order {
        type Output = ();
        type View = Self;

        fn begin(&mut self, (): ()) -> impl Future<Output = ()> + Send {
            let late = Late(self);
            async move {
                std::future::pending::<()>().await;
                drop(late);
            }
        }

        fn view(&self) -> &Self {
            self
        }

        fn view_mut(&mut self) -> &mut Self {
            self
        }

        fn into_view(self) -> Box<Self> {
            Box::new(self)
        }
    }
    let drops = Arc::new(AtomicIsize::new(0));
    let mut body = Body::new(Order(Arc::clone(&drops)));
    body.begin(());
    body.stop();
    assert_eq!(drops.load(SeqCst), 1);
    body.begin(());
    drop(body);
    assert_eq!(drops.load(SeqCst), -1);
}

#[test]
fn a_routine_that_panics_leaves_an_idle_body() {
    hush_panics();
    for size in SIZES {
        let tally = Arc::default();
        let mut body = body(size, &tally, 0, Faults { in_begin: true, ..Faults::default() });
        assert!(panics(|| body.begin(1)));
        assert!(!body.is_begun());
        tally.check(1, 0);
        body.view_mut().set_faults(Faults::default());
        body.begin(2);
        assert_eq!(poll(&mut body), Poll::Ready(2));
    }
}

#[test]
fn a_future_that_panics_stays_until_it_is_stopped() {
    hush_panics();
    for size in SIZES {
        let tally = Arc::default();
        let mut body = body(size, &tally, 0, Faults { in_poll: true, ..Faults::default() });
        body.begin(1);
        assert!(panics(|| _ = poll(&mut body)));
        assert!(body.is_begun());
        body.stop();
        tally.check(1, 0);
        assert_eq!(body.view().begun(), 1);
        drop(body);
        tally.check(0, 0);
    }
}

#[test]
fn a_panic_in_a_drop_leaves_nothing_behind() {
    hush_panics();
    let faults = Faults { in_drop_of_future: true, ..Faults::default() };
    for size in SIZES {
        let tally = Arc::default();
        let begun = || {
            let mut body = body(size, &tally, 1, faults);
            body.begin(1);
            body
        };
        let mut stopped = begun();
        assert!(panics(|| stopped.stop()));
        assert!(!stopped.is_begun());
        tally.check(1, 0);
        drop(stopped);
        let dropped = begun();
        assert!(panics(|| drop(dropped)));
        tally.check(0, 0);
        let mut ready = begun();
        assert_eq!(poll(&mut ready), Poll::Pending);
        assert!(panics(|| _ = poll(&mut ready)));
        ready.stop();
        drop(ready);
        let bad = body(size, &tally, 1, Faults { in_drop_of_routine: true, ..Faults::default() });
        assert!(panics(|| drop(bad)));
        tally.check(0, 0);
    }
}

#[test]
fn a_body_refuses_what_does_not_fit_its_phase() {
    hush_panics();
    let tally = Arc::default();
    let mut idle = body(0, &tally, 1, Faults::default());
    assert!(panics(|| _ = poll(&mut idle)));
    idle.begin(1);
    assert!(panics(|| idle.begin(2)));
    assert!(panics(|| _ = idle.view().begun()));
    assert!(panics(|| idle.view_mut().set_faults(Faults::default())));
    assert_eq!(poll(&mut idle), Poll::Pending);
    assert_eq!(poll(&mut idle), Poll::Ready(1));
    idle.begin(3);
    assert!(panics(|| _ = idle.into_view()), "and it is dropped as a whole");
    tally.check(0, 0);
}

#[test]
fn a_routine_can_be_taken_out() {
    for size in SIZES {
        let tally = Arc::default();
        let mut body = body(size, &tally, 0, Faults::default());
        body.begin(1);
        assert_eq!(poll(&mut body), Poll::Ready(1));
        let view = body.into_view();
        tally.check(1, 0);
        assert_eq!(view.begun(), 1);
        drop(view);
        tally.check(0, 0);
    }
}

#[test]
fn a_body_moves_between_threads_and_its_future_stays_in_place() {
    for size in SIZES {
        let tally = Arc::default();
        let mut moving = body(size, &tally, 3, Faults::default());
        moving.begin(7);
        for _ in 0..3 {
            moving = thread::spawn(move || {
                assert_eq!(poll(&mut moving), Poll::Pending);
                moving
            })
            .join()
            .unwrap();
        }
        assert_eq!(poll(&mut moving), Poll::Ready(7));
        thread::spawn(move || drop(moving)).join().unwrap();
        tally.check(0, 0);
    }
}

#[test]
fn a_routine_with_a_strict_alignment_is_kept() {
    #[repr(align(128))]
    struct Strict(u8);
    impl Routine<u8> for Strict {
        type Output = usize;
        type View = Self;

        async fn begin(&mut self, more: u8) -> usize {
            let more = Self(more);
            self.0 += more.0;
            (&raw const *self).addr() % 128 + (&raw const more).addr() % 128
        }

        fn view(&self) -> &Self {
            self
        }

        fn view_mut(&mut self) -> &mut Self {
            self
        }

        fn into_view(self) -> Box<Self> {
            Box::new(self)
        }
    }
    let mut body = Body::new(Strict(1));
    body.begin(2);
    assert_eq!(body.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(0));
    assert_eq!(body.view().0, 3);
}

/// What may be done to one of several bodies.
#[derive(Clone, Debug)]
enum Step {
    Make { size: usize, waits: u32, faults: Faults },
    Begin,
    Poll,
    Stop,
    Drop,
    TakeOut,
}

fn faults() -> impl Strategy<Value = Faults> {
    let fault = || prop::bool::weighted(0.2);
    let all = (fault(), fault(), fault(), fault());
    all.prop_map(|(in_begin, in_poll, in_drop_of_future, in_drop_of_routine)| Faults {
        in_begin,
        in_poll,
        in_drop_of_future,
        in_drop_of_routine,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (SIZES, 0..3_u32, faults())
            .prop_map(|(size, waits, faults)| Step::Make { size, waits, faults }),
        3 => Just(Step::Begin),
        5 => Just(Step::Poll),
        1 => Just(Step::Stop),
        1 => Just(Step::Drop),
        1 => Just(Step::TakeOut),
    ]
}

/// A body where it may be absent, and what it should be.
#[derive(Default)]
struct Place {
    body: Option<Probed>,
    begun: u32,
}

impl Place {
    /// Any of these may panic; what is left is what the body itself says.
    fn take(&mut self, step: &Step, tally: &Arc<Tally>) {
        match (step, &mut self.body) {
            (Step::Make { size, waits, faults }, place) => {
                self.begun = 0;
                let old = place.replace(body(*size, tally, *waits, *faults));
                drop(old);
            }
            (Step::Begin, Some(body)) if !body.is_begun() => {
                self.begun += 1;
                body.begin(self.begun);
            }
            (Step::Poll, Some(body)) if body.is_begun() => {
                if let Poll::Ready(number) = poll(body) {
                    assert_eq!(number, self.begun);
                }
            }
            (Step::Stop, Some(body)) => body.stop(),
            (Step::Drop, place) => drop(place.take()),
            (Step::TakeOut, Some(body)) if !body.is_begun() => {
                drop(self.body.take().map(Body::into_view));
            }
            _ => {}
        }
    }

    fn check(&self) -> (isize, isize) {
        let Some(body) = &self.body else { return (0, 0) };
        if body.is_begun() {
            return (1, 1);
        }
        assert_eq!(body.view().begun(), self.begun);
        (1, 0)
    }
}

const CASES: u32 = if cfg!(miri) { 12 } else { 512 };

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_happens_everything_is_dropped_once(
        steps in prop::collection::vec((0..3_usize, step()), 0..40)
    ) {
        hush_panics();
        let tally = Arc::default();
        let mut places: [Place; 3] = Default::default();
        for (place, step) in &steps {
            let _ = catch_unwind(AssertUnwindSafe(|| places[*place].take(step, &tally)));
            let alive = places.iter().map(Place::check);
            let (routines, futures) = alive.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            // One that has panicked is begun without anything left in it.
            prop_assert_eq!(tally.routines.load(SeqCst), routines);
            prop_assert!(tally.futures.load(SeqCst) <= futures);
        }
        for place in &mut places {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(place.body.take())));
        }
        tally.check(0, 0);
    }
}
