//! One who is asked to look, when several put things where only those find them who look.
//!
//! An invitation is *open* from when somebody is asked to look until that one has found something
//! or gives up. Whoever puts something down says so afterwards, and invites somebody unless an
//! invitation is open. Whoever was invited closes the invitation and then looks once more; if there
//! is something left, it invites the next.
//!
//! Nothing is overlooked: between putting down and reading the flag there is a SeqCst fence, and
//! another between closing and the last look. Of the two fences one comes first: either the putter
//! sees the invitation closed, or the looker sees what was put down.

use crate::sync::{AtomicBool, Relaxed, SeqCst, fence};

/// Whether somebody has been asked to look.
pub(crate) struct PendingSearch {
    active: AtomicBool,
}

impl PendingSearch {
    /// One that is active: whoever makes it looks, or asks somebody.
    pub(crate) fn started() -> Self {
        Self { active: AtomicBool::new(true) }
    }

    /// Something was put down; true if the caller has to invite somebody, once.
    #[inline]
    pub(crate) fn request(&self) -> bool {
        // SeqCst: pairs with the fence in `finish`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        !self.active.load(Relaxed) && self.try_start()
    }

    /// Opens it; false if it is open already.
    pub(crate) fn try_start(&self) -> bool {
        // Relaxed: it orders nothing but itself; what was put down comes with the queue it is in.
        !self.active.swap(true, Relaxed)
    }

    /// The one who was invited is done. It looks once more afterwards, and if there is something
    /// calls [`PendingSearch::request`].
    pub(crate) fn finish(&self) {
        // Relaxed: ordered by the fence.
        self.active.store(false, Relaxed);
        // SeqCst: pairs with the fence in `request`.
        fence(SeqCst);
    }
}
