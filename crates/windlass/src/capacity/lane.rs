//! The lane past the lock, for one who takes the same again and again while nobody could notice.
//!
//! While it is open, what one plan takes and gives back is counted in a single word, and the tree
//! does not know of it. Whoever takes the tree's lock closes the lane and puts down what the word
//! says before it does anything else. So:
//!
//! * Nobody who reads or changes the tree ever misses what went through the lane: only a holder of
//!   the lock opens it, only for one plan of the whole tree, and the swap that closes it is the last
//!   change of the word until it is opened again.
//! * Nobody is overtaken, and nobody has to be told: it is opened only where no one stands or
//!   watches, and whoever begins to does so under the lock, with the lane closed.
//! * Nothing is exceeded: the word starts with the room that the tree had, no other takes meanwhile,
//!   and a change of limits needs the lock.
//!
//! Knows nothing of costs or levels; a plan is a number here.

use crate::sync::{AtomicU64, Ordering};

/// A plan's number, how often it may still take, and how often it has taken; nothing when closed.
#[derive(Debug)]
pub(super) struct Lane(AtomicU64);

/// The number of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanId(u16);

/// What went through the lane while it was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) plan: PlanId,
    /// How often it could still have taken.
    pub(super) room: u64,
    pub(super) taken: u64,
}

const CLOSED: u64 = 0;
const BITS: u32 = 24;
const MOST: u64 = (1 << BITS) - 1;
/// One more that may be taken.
const ONE_MORE: u64 = 1 << BITS;
/// One more that was taken.
const ONE_TAKEN: u64 = 1;

impl PlanId {
    /// None if there are too many.
    pub(super) fn at(index: usize) -> Option<Self> {
        Some(Self(u16::try_from(index + 1).ok()?))
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

impl Lane {
    pub(super) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Takes for `plan`, if the lane is open for it and there is room.
    #[inline]
    pub(super) fn take(&self, plan: PlanId) -> bool {
        self.change(plan, |word| {
            (room(word) > 0 && taken(word) < MOST).then(|| word - ONE_MORE + ONE_TAKEN)
        })
    }

    /// Gives back what `plan` has taken, here or elsewhere, if the lane is open for it.
    #[inline]
    pub(super) fn give_back(&self, plan: PlanId) -> bool {
        self.change(plan, |word| (room(word) < MOST).then(|| word + ONE_MORE))
    }

    /// Opens it, for one who holds the lock. Returns with how much room.
    pub(super) fn open(&self, plan: PlanId, room: u64) -> u64 {
        let room = room.min(MOST);
        // With the acquire in `change`: whoever takes has seen all that was done under the lock.
        self.0.store(u64::from(plan.0) << (2 * BITS) | room << BITS, Ordering::Release);
        room
    }

    /// Closes it, for one who holds the lock.
    #[inline]
    pub(super) fn close(&self) -> Option<Passed> {
        // Relaxed is enough to see that it is closed: it was opened under the lock, if it was.
        if self.0.load(Ordering::Relaxed) == CLOSED {
            return None;
        }
        // Both ways with `change`: what was done before a return is seen from here on, and what was
        // done before by a holder of the lock by those who took.
        let word = self.0.swap(CLOSED, Ordering::AcqRel);
        Some(Passed { plan: plan(word), room: room(word), taken: taken(word) })
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) != CLOSED
    }

    #[inline]
    fn change(&self, wanted: PlanId, change: impl Fn(u64) -> Option<u64>) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        // A closed lane has no plan's number.
        while plan(word) == wanted
            && let Some(changed) = change(word)
        {
            // Whoever takes sees what was done before that was given back.
            match self.0.compare_exchange_weak(word, changed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }
}

#[inline]
fn plan(word: u64) -> PlanId {
    PlanId((word >> (2 * BITS)) as u16)
}

#[inline]
fn room(word: u64) -> u64 {
    word >> BITS & MOST
}

#[inline]
fn taken(word: u64) -> u64 {
    word & MOST
}

#[cfg(all(test, not(windlass_loom)))]
mod tests {
    use super::*;

    fn plans() -> [PlanId; 2] {
        [0, usize::from(u16::MAX) - 1].map(|index| PlanId::at(index).expect("not too many"))
    }

    #[test]
    fn only_the_plan_it_is_open_for_passes_and_only_while_there_is_room() {
        let (lane, [one, other]) = (Lane::closed(), plans());
        assert!(!lane.take(one) && !lane.give_back(one) && lane.close().is_none());
        for plan in [one, other] {
            assert_eq!(lane.open(plan, 2), 2);
            assert!(lane.take(plan) && lane.take(plan) && !lane.take(plan));
            assert!(lane.give_back(plan) && lane.take(plan));
            let stranger = if plan == one { other } else { one };
            assert!(!lane.take(stranger) && !lane.give_back(stranger));
            assert_eq!(lane.close(), Some(Passed { plan, room: 0, taken: 3 }));
            assert!(!lane.take(plan) && lane.close().is_none());
        }
    }

    #[test]
    fn no_count_runs_into_another() {
        let (lane, [_, plan]) = (Lane::closed(), plans());
        assert_eq!(lane.open(plan, u64::MAX), MOST);
        assert!(!lane.give_back(plan), "there is no more room that it could count");
        for _ in 0..MOST {
            assert!(lane.take(plan) && lane.give_back(plan));
        }
        assert!(!lane.take(plan), "it has taken as often as it can count");
        assert_eq!(lane.close(), Some(Passed { plan, room: MOST, taken: MOST }));
        assert!(PlanId::at(usize::from(u16::MAX)).is_none());
    }
}
