//! What happens to names, told once each, and counted.

use crate::lease::{HolderId, Token};
use crate::wait_queue::Name;

/// Something has happened to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinationEvent {
    /// It was taken.
    Acquired {
        /// The name.
        name: Name,
        /// By whom.
        holder: HolderId,
        /// Under which token.
        token: Token,
    },
    /// It was given back.
    Released {
        /// The name.
        name: Name,
        /// By whom.
        holder: HolderId,
        /// Under which token it was held.
        token: Token,
    },
    /// It was refused to someone who had not been waiting.
    Denied {
        /// The name.
        name: Name,
        /// To whom.
        holder: HolderId,
    },
    /// It was taken from a holder whose lease was stale.
    Reclaimed {
        /// The name.
        name: Name,
        /// From whom.
        from: HolderId,
        /// Under which token it was held.
        token: Token,
    },
    /// A lease was noticed to be stale, for the first time.
    Stale {
        /// The name.
        name: Name,
        /// Whose.
        holder: HolderId,
        /// Under which token it is held.
        token: Token,
    },
}

impl CoordinationEvent {
    /// To which name.
    #[must_use]
    pub fn name(&self) -> &Name {
        match self {
            CoordinationEvent::Acquired { name, .. }
            | CoordinationEvent::Released { name, .. }
            | CoordinationEvent::Denied { name, .. }
            | CoordinationEvent::Reclaimed { name, .. }
            | CoordinationEvent::Stale { name, .. } => name,
        }
    }
}

/// How often what has happened to a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinationStats {
    /// Taken.
    pub acquired: u64,
    /// Given back.
    pub released: u64,
    /// Refused to someone who had not been waiting.
    pub denied: u64,
    /// Taken from a stale holder.
    pub reclaimed: u64,
    /// Noticed to be stale.
    pub stale: u64,
}

impl CoordinationStats {
    pub(super) fn count(&mut self, event: &CoordinationEvent) {
        let counter = match event {
            CoordinationEvent::Acquired { .. } => &mut self.acquired,
            CoordinationEvent::Released { .. } => &mut self.released,
            CoordinationEvent::Denied { .. } => &mut self.denied,
            CoordinationEvent::Reclaimed { .. } => &mut self.reclaimed,
            CoordinationEvent::Stale { .. } => &mut self.stale,
        };
        *counter = counter.saturating_add(1);
    }
}
