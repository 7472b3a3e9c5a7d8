//! Keeps at most one searcher pending for items that several threads add.
//!
//! A search is *active* from when a searcher is requested until it has found an item or gives up. A
//! thread that adds an item then requests a search, which starts one unless one is active. A
//! searcher marks its search as finished and then checks once more for items; if there are any, it
//! requests the next search.
//!
//! No item is missed. The adder adds the item, passes a SeqCst fence and reads the flag. The
//! searcher clears the flag, passes a SeqCst fence and checks for items. One of the two fences comes
//! first: either the adder reads the cleared flag, or the searcher sees the item.
//!
//! Knows nothing of the items or of who searches.

use crate::sync::{AtomicBool, Relaxed, SeqCst, fence};

/// Whether a search is active.
pub(crate) struct PendingSearch {
    active: AtomicBool,
}

impl PendingSearch {
    /// Creates the flag with an active search, which the caller has to run or spawn.
    pub(crate) fn started() -> Self {
        Self { active: AtomicBool::new(true) }
    }

    /// Requests a search, after an item was added. Returns true if the caller has to start it.
    #[inline]
    pub(crate) fn request(&self) -> bool {
        // SeqCst: pairs with the fence in `finish`.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        !self.active.load(Relaxed) && self.try_start()
    }

    /// Marks a search as active. Returns false if one is active already.
    pub(crate) fn try_start(&self) -> bool {
        // Relaxed: the flag publishes nothing; the deque that holds an item publishes it.
        !self.active.swap(true, Relaxed)
    }

    /// Marks the search as finished. The caller has to check for items afterwards, and to call
    /// [`PendingSearch::request`] if there are any.
    pub(crate) fn finish(&self) {
        // Relaxed: ordered by the fence.
        self.active.store(false, Relaxed);
        // SeqCst: pairs with the fence in `request`.
        fence(SeqCst);
    }
}
