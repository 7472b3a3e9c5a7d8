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
pub(crate) struct Invitation {
    open: AtomicBool,
}

impl Invitation {
    /// One that is open: whoever makes it looks, or asks somebody.
    pub(crate) fn open() -> Self {
        Self { open: AtomicBool::new(true) }
    }

    /// Something was put down; true if the caller has to invite somebody, once.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // SeqCst: pairs with the fence in `close`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        !self.open.load(Relaxed) && self.reopen()
    }

    /// Opens it; false if it is open already.
    pub(crate) fn reopen(&self) -> bool {
        // Relaxed: it orders nothing but itself; what was put down comes with the queue it is in.
        !self.open.swap(true, Relaxed)
    }

    /// The one who was invited is done. It looks once more afterwards, and if there is something
    /// calls [`Invitation::is_due`].
    pub(crate) fn close(&self) {
        // Relaxed: ordered by the fence.
        self.open.store(false, Relaxed);
        // SeqCst: pairs with the fence in `is_due`.
        fence(SeqCst);
    }
}
