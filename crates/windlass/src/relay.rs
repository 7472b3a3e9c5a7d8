//! A lock whose holder does for others what they came for.
//!
//! Whoever finds it taken leaves a note, and whoever holds it answers the notes before it goes. So
//! what the lock protects stays with one core while several are at it, and nobody waits longer than
//! until its own note is answered.
//!
//! That no note is forgotten needs no fence: whoever leaves one goes on trying to get the lock, at
//! last by waiting for it as anybody would, and notes are taken from the box only by one who holds
//! the lock. So whoever has it finds its own note answered, or still in the box, and then sees to it
//! itself. A holder that goes without looking into the box holds nobody up for longer than it holds
//! the lock.
//!
//! Knows nothing of what is protected, nor of what notes say.

use std::sync::{PoisonError, TryLockError};

use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, SPINS, spin};

pub(crate) struct Relay<S, N, A> {
    state: Mutex<S>,
    notes: Mutex<Vec<Note<N, A>>>,
    /// How many notes there are, for those who would look in vain.
    count: AtomicUsize,
}

/// What somebody wants done, and where it waits for the answer.
pub(crate) struct Note<N, A> {
    pub(crate) news: N,
    pub(crate) desk: Desk<A>,
}

/// Where an answer is laid down.
pub(crate) struct Desk<A>(Arc<Answer<A>>);

struct Answer<A> {
    is_there: AtomicBool,
    answer: Mutex<Option<A>>,
}

/// What became of somebody who came with news.
pub(crate) enum Turn<'a, S, N, A> {
    /// It has the lock, and has to see to it itself; it has waited for it, or not.
    Held(MutexGuard<'a, S>, N, Waited),
    /// Another one has seen to it.
    Answered(A),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    No,
    Yes,
}

/// In how many rounds of looking for an answer the lock is tried once.
const TRY_EVERY: usize = 8;

impl<S, N, A> Relay<S, N, A> {
    pub(crate) fn new(state: S) -> Self {
        let (notes, count) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        Self { state: Mutex::new(state), notes, count }
    }

    /// Takes the lock. A panic under it is a bug; what had been done by then is all there is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, or has its holder see to `news`.
    pub(crate) fn hand_in(&self, news: N) -> Turn<'_, S, N, A> {
        match self.try_lock() {
            Some(state) => Turn::Held(state, news, Waited::No),
            None => self.leave_note(news),
        }
    }

    fn leave_note(&self, news: N) -> Turn<'_, S, N, A> {
        let desk = Desk::new();
        let mut notes = self.notes();
        notes.push(Note { news, desk: desk.clone() });
        // With the acquire in `take_notes`; one that is seen late is seen to by whoever left it.
        self.count.store(notes.len(), Ordering::Release);
        drop(notes);
        for round in 0..SPINS {
            if desk.is_answered() {
                return Turn::Answered(desk.take().expect(ONCE));
            }
            // Each try takes the lock's memory away from its holder.
            if round % TRY_EVERY == 0
                && let Some(state) = self.try_lock()
            {
                return self.take_turn(state, &desk);
            }
            spin();
        }
        self.take_turn(self.lock(), &desk)
    }

    fn take_turn<'a>(&self, state: MutexGuard<'a, S>, desk: &Desk<A>) -> Turn<'a, S, N, A> {
        if let Some(answer) = desk.take() {
            return Turn::Answered(answer);
        }
        let mut notes = self.notes();
        let own = notes.iter().position(|note| Arc::ptr_eq(&note.desk.0, &desk.0));
        let own = own.expect("nobody takes a note and does not answer it");
        let Note { news, .. } = notes.swap_remove(own);
        self.count.store(notes.len(), Ordering::Release);
        drop(notes);
        Turn::Held(state, news, Waited::Yes)
    }

    /// Whether somebody has left a note.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        // With the release in `leave_note`.
        self.count.load(Ordering::Acquire) > 0
    }

    /// All notes that were left, for one who holds the lock and answers them.
    pub(crate) fn take_notes(&self, _held: &MutexGuard<'_, S>) -> Vec<Note<N, A>> {
        if !self.has_notes() {
            return Vec::new();
        }
        let mut notes = self.notes();
        self.count.store(0, Ordering::Release);
        std::mem::take(&mut *notes)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, S>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn notes(&self) -> MutexGuard<'_, Vec<Note<N, A>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ONCE: &str = "an answer is taken once";

impl<A> Desk<A> {
    fn new() -> Self {
        let (is_there, answer) = (AtomicBool::new(false), Mutex::new(None));
        Self(Arc::new(Answer { is_there, answer }))
    }

    pub(crate) fn answer(&self, answer: A) {
        *self.0.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        // With the acquire in `is_answered`.
        self.0.is_there.store(true, Ordering::Release);
    }

    fn is_answered(&self) -> bool {
        self.0.is_there.load(Ordering::Acquire)
    }

    fn take(&self) -> Option<A> {
        self.0.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(all(test, windlass_loom))]
mod models;
