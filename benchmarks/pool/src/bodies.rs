//! What a driver pays to keep a closure and to run the future it makes: bodies against two boxes.

use std::{
    hint::black_box,
    pin::Pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    thread,
};

use windlass_bench_report::{Report, Row};
use windlass_pool::body::{Body, Routine};

const MANY: u64 = 100_000;

pub(crate) fn run(report: &mut Report) {
    report.measure(Row {
        name: "100k bodies made, run and dropped, per body",
        operations: MANY,
        expected: sum(),
        contenders: vec![
            ("windlass", Box::new(|| all_at_once(keep, run_body))),
            ("two boxes", Box::new(|| all_at_once(boxed, run_boxes))),
        ],
    });
    report.measure(Row {
        name: "bodies one after the other, per body",
        operations: MANY,
        expected: sum(),
        contenders: vec![
            ("windlass", Box::new(|| one_by_one(keep, run_body))),
            ("two boxes", Box::new(|| one_by_one(boxed, run_boxes))),
        ],
    });
    report.measure(Row {
        name: "bodies made by one thread, run and dropped by another, per body",
        operations: MANY,
        expected: sum(),
        contenders: vec![
            ("windlass", Box::new(|| handed_over(keep, run_body))),
            ("two boxes", Box::new(|| handed_over(boxed, run_boxes))),
        ],
    });
}

fn sum() -> u64 {
    (0..MANY).map(|number| number + 3).sum()
}

fn all_at_once<B>(make: impl Fn(u64) -> B, mut run: impl FnMut(&mut B) -> u64) -> u64 {
    let mut bodies: Vec<B> = (0..MANY).map(make).collect();
    bodies.iter_mut().map(&mut run).sum()
}

fn one_by_one<B>(make: impl Fn(u64) -> B, mut run: impl FnMut(&mut B) -> u64) -> u64 {
    (0..MANY).map(|number| run(&mut make(number))).sum()
}

/// In batches, so that both are at work at the same time.
fn handed_over<B: Send>(
    make: impl Fn(u64) -> B + Copy + Send,
    mut run: impl FnMut(&mut B) -> u64,
) -> u64 {
    const BATCH: u64 = 500;
    let (give, take) = mpsc::sync_channel::<Vec<B>>(4);
    thread::scope(|scope| {
        scope.spawn(move || {
            for first in (0..MANY).step_by(BATCH as usize) {
                give.send((first..first + BATCH).map(make).collect()).expect("it is taken");
            }
        });
        take.iter().flatten().map(|mut body| run(&mut body)).sum()
    })
}

/// A closure with a few words in it, and a future with a few more.
struct Work {
    number: u64,
    words: [u64; 3],
}

impl Work {
    fn new(number: u64) -> Self {
        Self { number, words: black_box([1; 3]) }
    }
}

impl Routine<[u64; 4]> for Work {
    type Output = u64;
    type View = Self;

    async fn begin(&mut self, context: [u64; 4]) -> u64 {
        black_box(&context);
        self.number + self.words.iter().sum::<u64>()
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

fn keep(number: u64) -> Body<[u64; 4], u64, Work> {
    Body::new(Work::new(number))
}

fn run_body(body: &mut Body<[u64; 4], u64, Work>) -> u64 {
    body.begin(black_box([1; 4]));
    ready(body.poll(&mut Context::from_waker(Waker::noop())))
}

type Boxed = Box<dyn FnMut([u64; 4]) -> Pin<Box<dyn Future<Output = u64> + Send>> + Send>;

fn boxed(number: u64) -> Boxed {
    let Work { number, words } = Work::new(number);
    Box::new(move |context| {
        Box::pin(async move {
            black_box(&context);
            number + words.iter().sum::<u64>()
        })
    })
}

fn run_boxes(body: &mut Boxed) -> u64 {
    let mut future = body(black_box([1; 4]));
    ready(future.as_mut().poll(&mut Context::from_waker(Waker::noop())))
}

fn ready(polled: Poll<u64>) -> u64 {
    match polled {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it never waits"),
    }
}
