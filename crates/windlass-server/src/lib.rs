//! Runs workflows durably, and commands under host-wide locks.
//!
//! A [`Coordinator`] takes everything that has happened, applies all of it to the engine, appends
//! all facts in one transaction, and only then acts. Names that steps share with the rest of the
//! machine are taken in the same commit as the start that needs them. No policy lives here: what
//! starts when is decided by the engine, who holds a name by core's lock.

mod attempt;
mod clock;
mod coordinator;
mod hold;
mod leftovers;
mod order;
mod schedule;
mod signals;
mod unsupported;

pub use coordinator::{Change, Coordinator, End, RunError};
pub use hold::{Hold, HoldError, hold};
pub use unsupported::{Unsupported, unsupported};
pub use windlass_core::WorkState;
pub use windlass_store::{Store, StoreError};
