//! Models of the stack of right sides: owner and thieves.

use std::ptr::NonNull;

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::model;
use crate::fork::{Popped, Stack};

/// Two things that can be put on a stack.
type Sides = [AtomicUsize; 2];

fn stack_and_sides() -> Arc<(Stack<AtomicUsize>, Sides)> {
    Arc::new((Stack::new(), [AtomicUsize::new(0), AtomicUsize::new(0)]))
}

fn pointer_to(side: &AtomicUsize) -> NonNull<AtomicUsize> {
    NonNull::from(side)
}

/// Takes a side as a thief does, and returns which one it is and what is written there.
fn steal(stack: &Stack<AtomicUsize>, sides: &Sides) -> Option<(usize, usize)> {
    let stolen = stack.steal()?;
    let index = sides.iter().position(|side| pointer_to(side) == stolen);
    index.map(|index| (index, sides[index].load(Relaxed)))
}

#[test]
fn a_right_side_goes_to_its_owner_or_to_a_thief() {
    model(|| {
        let shared = stack_and_sides();
        let thieves = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        });
        let (stack, sides) = &*shared;
        sides[0].store(7, Relaxed);
        assert!(stack.push(pointer_to(&sides[0])));
        let popped = stack.pop();
        let stolen: Vec<_> = thieves.into_iter().filter_map(|t| t.join().unwrap()).collect();
        match popped {
            Popped::Untouched => assert_eq!(stolen, []),
            Popped::Taken => assert_eq!(stolen, [(0, 7)]),
        }
        assert!(!stack.has_some());
    });
}

#[test]
fn the_outermost_of_two_right_sides_is_taken_first() {
    model(|| {
        let shared = stack_and_sides();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (stack, sides) = &*shared;
        for side in sides {
            side.store(7, Relaxed);
            assert!(stack.push(pointer_to(side)));
        }
        let popped = [stack.pop(), stack.pop()];
        let expected = match popped {
            [Popped::Untouched, Popped::Untouched] => None,
            [Popped::Untouched, Popped::Taken] => Some((0, 7)),
            [Popped::Taken, _] => panic!("the inner one was taken first"),
        };
        assert_eq!(thief.join().unwrap(), expected);
    });
}

#[test]
fn a_thief_never_gets_a_right_side_that_is_gone_from_its_place() {
    model(|| {
        let shared = stack_and_sides();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (stack, sides) = &*shared;
        let popped = [0, 1].map(|index| {
            // The same place again.
            sides[index].store(7, Relaxed);
            assert!(stack.push(pointer_to(&sides[index])));
            stack.pop()
        });
        let stolen = thief.join().unwrap();
        for (index, popped) in popped.into_iter().enumerate() {
            assert_eq!(popped == Popped::Taken, stolen == Some((index, 7)));
        }
    });
}

#[test]
fn a_side_shared_by_its_owner_is_not_stolen_too() {
    model(|| {
        let shared = stack_and_sides();
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steal(&shared.0, &shared.1))
        };
        let (stack, sides) = &*shared;
        assert!(stack.push(pointer_to(&sides[0])));
        let given = stack.share();
        assert_eq!(stack.pop(), Popped::Taken);
        assert_ne!(given.is_some(), thief.join().unwrap().is_some());
    });
}
