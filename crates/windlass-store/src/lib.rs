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
//! assert_eq!(store.look(|transaction| transaction.facts(&run.id))?, facts);
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
mod slate;
mod sqlite;
mod store;
mod transaction;

pub use access::Access;
pub use backend::{Act, Backend, Durability, Opener};
pub use bell::{Bell, Topic};
pub use component::Leftover;
pub use encoding::{DecodeError, decode, encode};
pub use error::{DiskFault, StoreError};
pub use memory::Memory;
pub use moment::{BootClock, Clock, ManualClock, Moment};
pub use name::{NAME_BYTES, NameError, check_name, check_text};
pub use process::{Process, Sight};
pub use records::{
    Event, Group, HoldState, Meta, Owner, Records, Request, StoredLease, StoredName, StoredTicket,
    Tree,
};
pub use run::{
    AttemptEnd, AttemptRecord, GuardWait, RunEnd, RunListing, RunOutcome, RunRecord, RunRecords,
};
pub use slate::{Extent, Jotting, Slate, SlateCopy};
pub use sqlite::{Network, Sqlite};
pub use store::{Store, StoreOpener};
pub use transaction::{Claim, Claimed, NameView, Patience, Refused, Transaction};
pub use windlass_core::{Answer, Hold, HolderId, LeaseTerms, Name, Need, Taken, Token};
