//! Models of the fork deque: its owner against thieves.

use std::ptr::NonNull;

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::model;
use crate::fork::{ForkDeque, Popped};

/// Two forks, each a number.
type Forks = [AtomicUsize; 2];

fn deque_and_forks() -> Arc<(ForkDeque<AtomicUsize>, Forks)> {
    Arc::new((ForkDeque::new(), [AtomicUsize::new(0), AtomicUsize::new(0)]))
}

fn pointer_to(fork: &AtomicUsize) -> NonNull<AtomicUsize> {
    NonNull::from(fork)
}

/// Steals a fork, and returns its index and its number.
fn steal(deque: &ForkDeque<AtomicUsize>, forks: &Forks) -> Option<(usize, usize)> {
    let stolen = deque.steal()?;
    let index = forks.iter().position(|fork| pointer_to(fork) == stolen);
    index.map(|index| (index, forks[index].load(Relaxed)))
}

#[test]
fn a_fork_goes_to_its_owner_or_to_one_thief() {
    model(|| {
        let shared = deque_and_forks();
        let thieves = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        });
        let (deque, forks) = &*shared;
        forks[0].store(7, Relaxed);
        assert!(deque.push(pointer_to(&forks[0])));
        let popped = deque.pop();
        let stolen: Vec<_> = thieves.into_iter().filter_map(|t| t.join().unwrap()).collect();
        match popped {
            Popped::Untouched => assert_eq!(stolen, []),
            Popped::Taken => assert_eq!(stolen, [(0, 7)]),
        }
        assert!(!deque.has_some());
    });
}

#[test]
fn the_outermost_of_two_forks_is_stolen_first() {
    model(|| {
        let shared = deque_and_forks();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (deque, forks) = &*shared;
        for fork in forks {
            fork.store(7, Relaxed);
            assert!(deque.push(pointer_to(fork)));
        }
        let popped = [deque.pop(), deque.pop()];
        let expected = match popped {
            [Popped::Untouched, Popped::Untouched] => None,
            [Popped::Untouched, Popped::Taken] => Some((0, 7)),
            [Popped::Taken, _] => panic!("the inner fork was stolen first"),
        };
        assert_eq!(thief.join().unwrap(), expected);
    });
}

#[test]
fn a_thief_never_gets_a_fork_whose_slot_was_reused() {
    model(|| {
        let shared = deque_and_forks();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (deque, forks) = &*shared;
        let popped = [0, 1].map(|index| {
            // Both use the same slot.
            forks[index].store(7, Relaxed);
            assert!(deque.push(pointer_to(&forks[index])));
            deque.pop()
        });
        let stolen = thief.join().unwrap();
        for (index, popped) in popped.into_iter().enumerate() {
            assert_eq!(popped == Popped::Taken, stolen == Some((index, 7)));
        }
    });
}

#[test]
fn a_fork_shared_by_its_owner_is_not_stolen_too() {
    model(|| {
        let shared = deque_and_forks();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (deque, forks) = &*shared;
        assert!(deque.push(pointer_to(&forks[0])));
        let given = deque.share();
        assert_eq!(deque.pop(), Popped::Taken);
        assert_ne!(given.is_some(), thief.join().unwrap().is_some());
    });
}
