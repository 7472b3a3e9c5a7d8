//! What outlives a process: names that are held and waited for, numbered events, runs with their
//! journal of facts, and requests to whoever runs them.
//!
//! A [`Store`] does things in transactions over a [`Backend`]: SQLite, in one file that all
//! processes of a user on a machine share, or those of a group's members, or memory. Nothing here decides: who gets a name is
//! decided by core's machines, inside the transaction that stores the answer. A start of a step, the
//! names it takes and the end of its predecessor can share one commit.
//!
//! Whoever leads a run holds its name, and the token of that hold is the epoch under which facts are
//! appended. One who has lost the name cannot append any more:
//!
//! ```
//! use windlass_core::{Fact, Happening, Timestamp, Token, WorkId};
//! use windlass_store::{Claim, Claimed, HolderId, Name, Need, RunRecord, Store, StoreError};
//!
//! let mut store = Store::in_memory()?;
//! let (me, run) = (HolderId::new("me"), RunRecord { id: "3fa9c2d1".into(), ..Default::default() });
//! let needs = [Need::one(Name::Run(run.id.clone()))];
//! let submitted = Happening::Submitted { work: WorkId::from_index(0) };
//! let facts = [Fact { at: Timestamp::ZERO, what: submitted }];
//!
//! // The run, the right to lead it, and its first fact: all of it, or nothing.
//! let epoch = store.transact(|transaction| {
//!     transaction.insert_run(&run)?;
//!     let Claimed::Held(holds) = transaction.claim(&Claim::new(&me, &needs))? else {
//!         unreachable!("nobody else knows the run")
//!     };
//!     transaction.append(&run.id, holds[0].token, &facts)?;
//!     transaction.emit("run:submitted")?;
//!     Ok(holds[0].token)
//! })?;
//! assert_eq!(store.read(|transaction| transaction.facts(&run.id))?, facts);
//!
//! let stale = Token(epoch.0 - 1);
//! let refused = store.transact(|transaction| transaction.append(&run.id, stale, &facts));
//! assert!(matches!(refused, Err(StoreError::StaleEpoch { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What survives what is told in `docs/guarantees.md` of the repository; every backend passes one
//! suite (`tests/it/conformance.rs`).

mod access;
mod backend;
mod clock;
mod encoding;
mod error;
mod lease_group;
mod memory;
mod name;
mod process;
mod run;
mod sqlite;
mod store;
mod tables;
mod transaction;
mod wakeup;
mod wal;

pub use access::Access;
pub use backend::{Act, Backend, Durability, Opener};
pub use clock::{BootClock, Clock, ClockReading, ManualClock};
pub use encoding::{DecodeError, decode, encode};
pub use error::{DiskFault, StoreError};
pub use lease_group::Leftover;
pub use memory::Memory;
pub use name::{NAME_BYTES, NameError, check_name, check_text};
pub use process::{Liveness, Process};
pub use run::{
    AttemptEnd, AttemptRecord, GuardWait, RunEnd, RunListing, RunOutcome, RunRecord, RunTables,
};
pub use sqlite::{Network, Sqlite};
pub use store::{Store, StoreOpener};
pub use tables::{
    Event, HoldState, Meta, Owner, ProcessGroup, ProcessTree, Request, StoredLease, StoredName,
    StoredWaiter, Tables,
};
pub use transaction::{Claim, Claimed, NameView, OnRefusal, Refused, Transaction};
pub use wakeup::{Topic, Wakeup};
pub use wal::{JournalPosition, Wal, WalSnapshot, WalTail};
pub use windlass_core::{Answer, Hold, HolderId, LeaseTerms, Name, Need, Taken, Token};
