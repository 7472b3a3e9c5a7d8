//! Scopes: what tasks borrow, and what a scope waits for.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

use windlass_pool::{Scheduler, Scope, TaskState, with_scope};

use crate::support::{Signal, amount, must_end};

#[test]
fn tasks_borrow_from_the_enclosing_frame() {
    let scheduler = Scheduler::new(2);
    let words = vec!["a".to_owned(), "bb".to_owned()];
    let total = AtomicUsize::new(0);
    with_scope(&scheduler, |scope| {
        for word in &words {
            let total = &total;
            scope.spawn(move || total.fetch_add(word.len(), SeqCst));
        }
    });
    assert_eq!(total.into_inner(), 3);
    drop(words);
}

#[test]
fn every_task_has_ended_when_the_scope_ends() {
    let scheduler = Scheduler::new(2);
    for count in [0, 1, 2, amount(20_000, 30)] {
        let ended = AtomicUsize::new(0);
        with_scope(&scheduler, |scope| {
            for _ in 0..count {
                scope.spawn(|| ended.fetch_add(1, SeqCst));
            }
        });
        assert_eq!(ended.into_inner(), count);
    }
}

#[test]
fn the_body_runs_on_the_calling_thread_and_tasks_on_workers() {
    let scheduler = Scheduler::new(2);
    let caller = thread::current().id();
    with_scope(&scheduler, |scope| {
        assert_eq!(thread::current().id(), caller);
        let worker = scope.spawn(|| thread::current().id());
        assert_ne!(worker.await_result().unwrap(), caller);
    });
}

#[test]
fn tasks_may_spawn_in_the_scope_they_are_in() {
    fn grow<'scope>(scope: &'scope Scope<'scope, '_>, depth: usize, leaves: &'scope AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        for _ in 0..2 {
            scope.spawn(move || grow(scope, depth - 1, leaves));
        }
    }
    let scheduler = Scheduler::new(2);
    let leaves = AtomicUsize::new(0);
    with_scope(&scheduler, |scope| grow(scope, amount(10, 4), &leaves));
    assert_eq!(leaves.into_inner(), 1 << amount(10, 4));
}

#[test]
fn a_task_is_completing_until_its_child_tasks_have_ended() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let (body_may_end, child_may_end) = (Signal::default(), Signal::default());
        with_scope(&scheduler, |scope| {
            let (body_may_end, child_may_end) = (&body_may_end, &child_may_end);
            let parent = scope.spawn(move || {
                scope.spawn(move || child_may_end.wait());
                body_may_end.wait();
            });
            while parent.state() != TaskState::Running {}
            body_may_end.raise();
            while parent.state() != TaskState::Completing {}
            assert_eq!(parent.state(), TaskState::Completing);
            child_may_end.raise();
            while parent.state() != TaskState::Completed {}
        });
    });
}

#[test]
fn awaiting_a_task_awaits_its_child_tasks() {
    let scheduler = Scheduler::new(2);
    let ended = AtomicUsize::new(0);
    with_scope(&scheduler, |scope| {
        let ended = &ended;
        let parent = scope.spawn(move || {
            for _ in 0..100 {
                scope.spawn(move || ended.fetch_add(1, SeqCst));
            }
        });
        parent.await_result().unwrap();
        assert_eq!(ended.load(SeqCst), 100);
    });
}

#[test]
fn an_inner_scope_does_not_wait_for_a_task_of_the_outer_one() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let inner_ended = Signal::default();
        with_scope(&scheduler, |outer| {
            let (scheduler, inner_ended) = (&scheduler, &inner_ended);
            with_scope(scheduler, |_inner| {
                outer.spawn(|| inner_ended.wait());
            });
            inner_ended.raise();
        });
    });
}

#[test]
fn an_unawaited_result_is_dropped_before_the_scope_ends() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let scheduler = Scheduler::new(2);
    let dropped = AtomicUsize::new(0);
    with_scope(&scheduler, |scope| {
        for round in 0..amount(1000, 20) {
            let task = scope.spawn(|| Counted(&dropped));
            if round % 2 == 0 {
                while task.state() != TaskState::Completed {
                    thread::yield_now();
                }
            }
        }
    });
    assert_eq!(dropped.into_inner(), amount(1000, 20));
}

#[test]
fn bodies_and_values_of_every_size_survive_a_spawn() {
    fn carry<const N: usize>(scheduler: &Scheduler) {
        let cargo = [7_u8; N];
        let back = with_scope(scheduler, |scope| scope.spawn(move || cargo).await_result());
        assert_eq!(back.unwrap(), cargo);
    }
    let scheduler = Scheduler::new(2);
    carry::<0>(&scheduler);
    carry::<16>(&scheduler);
    carry::<40>(&scheduler);
    carry::<200>(&scheduler);
    carry::<5000>(&scheduler);
}

#[test]
fn a_thread_local_may_open_a_scope_when_it_is_dropped() {
    struct ScopeOnDrop<'a>(&'a Scheduler, &'a Signal);
    impl Drop for ScopeOnDrop<'_> {
        fn drop(&mut self) {
            with_scope(self.0, |scope| drop(scope.spawn(|| self.1.raise())));
        }
    }
    thread_local! {
        static LAST: RefCell<Option<ScopeOnDrop<'static>>> = const { RefCell::new(None) };
    }
    static RAN: Signal = Signal::new();
    must_end(|| {
        let scheduler = Scheduler::global();
        let thread = thread::spawn(|| {
            LAST.set(Some(ScopeOnDrop(scheduler, &RAN)));
            // Creates the pool's own thread-locals, which are dropped before `LAST`.
            with_scope(scheduler, |scope| scope.spawn(|| ()).await_result().unwrap());
        });
        thread.join().unwrap();
        assert!(RAN.is_raised());
    });
}
