//! What a scheduler tells those who watch it.

use std::sync::Arc;

use windlass_core::{WorkId, WorkState};

/// A work changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkEvent {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: Arc<str>,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
}
