//! What outlives a process: names that are held and waited for, numbered events, runs with their
//! journal of facts, and requests to whoever runs them.
//!
//! A [`Store`] does things in transactions over a [`Backend`]: SQLite, in one file that all
//! processes of a user on a machine share, or memory. Nothing here decides: who gets a name is
//! decided by core's machines, inside the transaction that stores the answer. A start of a step, the
//! names it takes and the end of its predecessor can share one commit.

mod backend;
mod bell;
mod component;
mod encoding;
mod error;
mod memory;
mod moment;
mod name;
mod process;
mod records;
mod run;
mod sqlite;
mod store;
mod transaction;
mod writer;

pub use backend::{Act, Backend, Durability, Opener};
pub use bell::{Bell, Topic};
pub use component::Leftover;
pub use encoding::{DecodeError, decode, encode};
pub use error::StoreError;
pub use memory::Memory;
pub use moment::{BootClock, Clock, ManualClock, Moment};
pub use name::{NAME_BYTES, NameError, check_name, check_text};
pub use process::Process;
pub use records::{
    Event, Group, Meta, Owner, Records, Request, StoredLease, StoredName, StoredTicket, Tree,
};
pub use run::{
    AttemptEnd, AttemptRecord, GuardWait, RunEnd, RunListing, RunOutcome, RunRecord, RunRecords,
};
pub use sqlite::{Network, Sqlite};
pub use store::{Store, StoreOpener};
pub use transaction::{Claim, Claimed, NameView, Patience, Refused, Transaction};
pub use windlass_core::{Answer, Hold, HolderId, LeaseTerms, Name, Need, Taken, Token};
pub use writer::Writer;
