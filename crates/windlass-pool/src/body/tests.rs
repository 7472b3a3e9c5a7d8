//! What cannot be seen from outside: where bodies lie, and how large they are.

use std::task::Waker;

use super::*;

/// A routine of `N` bytes whose future keeps `M` more across a wait.
struct Sized<const N: usize, const M: usize>([u8; N]);

impl<const N: usize, const M: usize> Routine<()> for Sized<N, M> {
    type Output = usize;
    type View = ();

    async fn begin(&mut self, (): ()) -> usize {
        let load = [1_u8; M];
        std::future::ready(()).await;
        self.0.iter().chain(&load).map(|&byte| usize::from(byte)).sum()
    }

    fn view(&self) -> &() {
        &()
    }

    fn view_mut(&mut self) -> &mut () {
        Box::leak(Box::new(()))
    }

    fn into_view(self) -> Box<()> {
        Box::new(())
    }
}

type Any = Body<(), usize, ()>;

fn body<const N: usize, const M: usize>() -> Any {
    Body::new(Sized::<N, M>([1; N]))
}

fn run(body: &mut Any) -> usize {
    body.begin(());
    match body.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(sum) => sum,
        Poll::Pending => unreachable!("it never waits"),
    }
}

#[test]
fn a_body_is_one_word() {
    assert_eq!(size_of::<Option<Any>>(), size_of::<usize>());
}

#[test]
fn a_body_lies_where_one_of_its_size_has_been_dropped() {
    let check = |make: fn() -> Any| {
        let first = make();
        let place = first.head;
        drop(first);
        assert_eq!(make().head, place);
    };
    check(body::<0, 0>);
    check(body::<40, 0>);
    check(body::<0, 2000>);
    check(body::<400, 2000>);
}

#[test]
fn bodies_of_all_sizes_work() {
    let sizes: [(fn() -> Any, usize); 6] = [
        (body::<0, 0>, 0),
        (body::<8, 8>, 16),
        (body::<100, 0>, 100),
        (body::<0, 100>, 100),
        (body::<200, 300>, 500),
        (body::<5000, 5000>, 10_000),
    ];
    for (make, sum) in sizes {
        let mut body = make();
        assert_eq!((run(&mut body), run(&mut body)), (sum, sum));
    }
}
