//! Notes under every interleaving, within a bound: each is seen to exactly once, by whoever holds the
//! lock, and its answer arrives.

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// The sum of all news; an answer is the sum with one's own.
type Sum = Relay<u32, u32, u32>;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// As a visit does: sees to its own, then to every note, and goes.
fn add(sum: &Sum, news: u32) -> u32 {
    match sum.hand_in(news) {
        Turn::Answered(answer) => answer,
        Turn::Held(mut state, news, _) => {
            *state += news;
            let answer = *state;
            answer_all(sum, &mut state);
            answer
        }
    }
}

fn answer_all(sum: &Sum, state: &mut MutexGuard<'_, u32>) {
    loop {
        let notes = sum.take_notes(state);
        if notes.is_empty() {
            return;
        }
        for Note { news, desk } in notes {
            **state += news;
            desk.answer(**state);
        }
    }
}

#[test]
fn what_is_handed_over_is_seen_to_once_and_answered() {
    check(|| {
        let sum = Arc::new(Sum::new(0));
        let other = Arc::clone(&sum);
        let thread = thread::spawn(move || add(&other, 2));
        let own = add(&sum, 1);
        let theirs = thread.join().expect("no panic");
        assert!((own, theirs) == (1, 3) || (own, theirs) == (3, 2), "{own} {theirs}");
        assert_eq!(*sum.lock(), 3);
    });
}

#[test]
fn three_at_once_are_all_served() {
    check(|| {
        let sum = Arc::new(Sum::new(0));
        let threads = [2, 4].map(|news| {
            let sum = Arc::clone(&sum);
            thread::spawn(move || add(&sum, news))
        });
        let mut answers = vec![add(&sum, 1)];
        answers.extend(threads.map(|thread| thread.join().expect("no panic")));
        assert_eq!(*sum.lock(), 7);
        assert_eq!(answers.iter().max(), Some(&7), "the last one saw all of them");
    });
}

#[test]
fn one_who_only_looks_leaves_nobody_behind() {
    check(|| {
        let sum = Arc::new(Sum::new(0));
        let other = Arc::clone(&sum);
        let thread = thread::spawn(move || add(&other, 2));
        assert!([0, 2].contains(&*sum.lock()));
        assert_eq!(thread.join().expect("no panic"), 2);
    });
}

#[test]
fn one_who_goes_on_after_an_answer_is_served_again() {
    check(|| {
        let sum = Arc::new(Sum::new(0));
        let other = Arc::clone(&sum);
        let thread = thread::spawn(move || add(&other, 1) + add(&other, 1));
        add(&sum, 4);
        thread.join().expect("no panic");
        assert_eq!(*sum.lock(), 6);
    });
}
