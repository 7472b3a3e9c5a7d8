//! Runs workflows durably, commands under host-wide locks and semaphores, and guards.
//!
//! A [`Coordinator`] takes everything that has happened, applies all of it to the engine, appends
//! all facts in one transaction, and only then acts. Names that steps share with the rest of the
//! machine are taken in the same commit as the start that needs them. No policy lives here: what
//! starts when is decided by the engine, who holds a name by core's lock.

mod asking;
mod attempt;
mod clock;
mod coordinator;
mod events;
mod guard;
mod hold;
mod leftovers;
mod order;
mod outputs;
mod poll;
mod primitive;
mod pulse;
mod schedule;
mod signals;
mod spawn;
mod tree;
mod unsupported;

pub use coordinator::{Change, Coordinator, End, RunError};
pub use events::{EventError, EventReader, emit};
pub use guard::{
    Broken, Check, CheckResult, GuardEnd, GuardError, GuardNews, NotYet, Verdict, Vigil, VigilStep,
    Watch, check, decide, verdict, watch,
};
pub use hold::{Hold, HoldError, hold};
pub use primitive::{Acquire, acquire, check as check_token, heartbeat, release};
pub use pulse::Lost;
pub use unsupported::{Unsupported, unsupported};
pub use windlass_core::{
    Answer, Hold as NameHold, HolderId, LeaseTerms, Name, Need, Presence, Taken, Token, WorkState,
};
pub use windlass_store::{
    AttemptEnd, Event, NameView, Network, Process, Refused, Store, StoreError, StoreOpener,
    StoredLease, StoredTicket, check_name,
};
