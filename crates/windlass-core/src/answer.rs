//! What locks and semaphores answer to a release, a heartbeat and a check.

/// The answer to a release, a heartbeat or a check, of a [`Lock`](crate::Lock), a
/// [`Semaphore`](crate::Semaphore) or one of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was given back.
    Released,
    /// The lease goes on.
    Refreshed,
    /// The token is that of a present hold.
    Valid,
    /// The lock is someone else's, or held under another token.
    NotOwner,
    /// This holder has no slots under this token.
    NotHolder,
    /// Nobody holds it.
    AlreadyFree,
    /// The lease was stale already.
    Expired,
}

impl Answer {
    /// Whether what was asked for was done, or is so.
    #[must_use]
    pub fn is_yes(self) -> bool {
        matches!(self, Answer::Released | Answer::Refreshed | Answer::Valid)
    }
}
