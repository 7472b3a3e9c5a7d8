//! Events of names, each reported once and counted.

use crate::lease::{HolderId, Token};
use crate::wait_queue::Name;

/// An event of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinationEvent {
    /// A holder acquired the name.
    Acquired {
        /// The name.
        name: Name,
        /// The new holder.
        holder: HolderId,
        /// The token of the hold.
        token: Token,
    },
    /// A holder released the name.
    Released {
        /// The name.
        name: Name,
        /// The former holder.
        holder: HolderId,
        /// The token of the hold.
        token: Token,
    },
    /// The name refused a new claim.
    Denied {
        /// The name.
        name: Name,
        /// The holder that claimed.
        holder: HolderId,
    },
    /// The name was reclaimed from a stale holder.
    Reclaimed {
        /// The name.
        name: Name,
        /// The stale holder.
        from: HolderId,
        /// The token of its hold.
        token: Token,
    },
    /// A lease was seen to be stale for the first time.
    Stale {
        /// The name.
        name: Name,
        /// The stale holder.
        holder: HolderId,
        /// The token of its hold.
        token: Token,
    },
}

impl CoordinationEvent {
    /// Returns the name of the event.
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

/// The number of events of each kind for one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinationStats {
    /// Acquired by a holder.
    pub acquired: u64,
    /// Released by a holder.
    pub released: u64,
    /// Refused to a new claim.
    pub denied: u64,
    /// Reclaimed from a stale holder.
    pub reclaimed: u64,
    /// Seen to be stale.
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
