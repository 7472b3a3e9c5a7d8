//! Durable state that processes share: locks and semaphores, numbered events, runs with their journal
//! of facts, and requests to the processes that lead runs.
//!
//! A [`Store`] runs transactions over a [`Backend`]: SQLite, in one file that all processes of a user
//! or of a group's members on one machine share, or memory. The store decides nothing: `windlass-core`
//! decides which claim gets a name, inside the transaction that stores the answer. So the end of a
//! step, the start of the next one and the names it takes can share one commit.
//!
//! The leader of a run holds the run's name, and appends facts under the token of that lease, the
//! *epoch*. A leader that has lost the name cannot append any more:
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
//! // The run, the lease to lead it, and its first fact: all of it, or nothing.
//! let epoch = store.transact(|tx| {
//!     tx.runs().insert(&run)?;
//!     let Claimed::Held(holds) = tx.leases().claim(&Claim::new(&me, &needs))? else {
//!         unreachable!("no other process knows the run")
//!     };
//!     tx.facts().append(&run.id, holds[0].token, &facts)?;
//!     tx.events().emit("run:submitted")?;
//!     Ok(holds[0].token)
//! })?;
//! assert_eq!(store.read(|tx| tx.facts().of(&run.id))?, facts);
//!
//! let stale = Token(epoch.0 - 1);
//! let refused = store.transact(|tx| tx.facts().append(&run.id, stale, &facts));
//! assert!(matches!(refused, Err(StoreError::StaleEpoch { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/guarantees.md` in the repository says what survives which failure. Every backend passes one
//! conformance suite (`tests/it/conformance.rs`).

mod access;
mod backend;
mod clock;
mod encoding;
mod error;
mod examine;
mod layout;
mod lease;
mod lease_group;
mod log;
mod memory;
mod name;
mod order;
mod pipes;
mod postgres;
mod process;
mod queue;
mod run;
mod sqlite;
mod step;
mod store;
mod tables;
mod transaction;
mod wakeup;
mod wal;
mod words;
mod writer_wait;

pub use self::postgres::{
    CheckedRights, LentPassword, PASSFILE_VARIABLE, Postgres, Rights, borrow_password,
    check_rights, grant, is_database, without_password,
};
pub use access::Access;
pub use backend::{Backend, Delivery, Durability, Opener, ReadBody, TransactionBody};
pub use clock::{BootClock, Clock, ClockReading, DatabaseClock, Frame, ManualClock, ServerTime};
pub use encoding::{DecodeError, RunBase, decode, encode};
pub use error::{DiskFault, StoreError};
pub use examine::{Examined, ExaminedDatabase, ExaminedFile};
pub use lease::{
    HoldState, LimitItems, Owner, ProcessGroup, ProcessTree, StoredLease, StoredName, StoredWaiter,
};
pub use lease_group::Leftover;
pub use log::{LOG_CHUNK_BYTES, LogBatch, LogChunk, LogPosition, LogStore, LogStream, StoredLog};
pub use memory::Memory;
pub use name::{NAME_BYTES, NameError, check_name, check_text};
pub use order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker, WorkerState};
pub use process::{Liveness, Process, host_name, machine_id};
pub use queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
pub use run::{HomeMachine, RunEnd, RunListing, RunOutcome, RunRecord};
pub use sqlite::{Network, Sqlite};
pub use step::{AttemptEnd, AttemptRecord, Decision, GuardWait, StepOutput};
pub use store::{Store, StoreOpener};
pub use tables::{
    EventTable, LeaseChanges, LeaseQuery, LeaseSnapshot, LeaseTables, Look, Meta, OrderTables,
    QueuePart, QueueTables, RequestTable, RunTables, StepTables, Tables,
};
pub use transaction::{
    Claim, Claimed, Event, Events, Facts, Leases, LimitError, LimitKind, LimitRoom, LimitShare,
    Limits, NameView, OnRefusal, Orders, Queues, Refused, Request, Requests, Runs, Transaction,
    check_limit_name,
};
pub use wakeup::{Notice, Topic, Wakeup};
pub use wal::{JournalPosition, Wal, WalSnapshot, WalTail};
pub use windlass_core::{Answer, Hold, HolderId, LeaseTerms, Name, Need, Taken, Token, Waiter};
pub use writer_wait::{Blocker, OnWait, WriterWait};
