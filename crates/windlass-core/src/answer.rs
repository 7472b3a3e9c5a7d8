//! The result of a release, a heartbeat or a check of a lock or semaphore.

/// The result of a release, a heartbeat or a check on a [`Lock`](crate::Lock), a
/// [`Semaphore`](crate::Semaphore) or a [`CoordinationState`](crate::CoordinationState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The holder released the name.
    Released,
    /// The lease was extended.
    Refreshed,
    /// The token belongs to a current hold.
    Valid,
    /// Another holder has the lock, or it is held under another token.
    NotOwner,
    /// The holder has no slots under this token.
    NotHolder,
    /// No holder has the name.
    AlreadyFree,
    /// The lease was stale before the call.
    Expired,
}

impl Answer {
    /// Returns whether the call succeeded, or the checked token is valid.
    #[must_use]
    pub fn is_yes(self) -> bool {
        matches!(self, Answer::Released | Answer::Refreshed | Answer::Valid)
    }
}
