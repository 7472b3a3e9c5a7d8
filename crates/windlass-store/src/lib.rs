//! What outlives a process: runs with their journal of facts, leases on names, and tickets.
//!
//! One SQLite file holds everything, so all processes of a user on a machine share names, and the
//! start of a step, the names it takes and the end of its predecessor share one commit. Writers
//! pass a gate one at a time. Nothing here decides: who gets a name is decided by core's machines,
//! inside the transaction that stores the answer.

mod encoding;
mod process;
mod store;
mod transaction;

pub use encoding::{DecodeError, decode, encode};
pub use process::Process;
pub use store::{RunRecord, Store, StoreError};
pub use transaction::{Claim, Claimed, Name, Refused, Transaction};
