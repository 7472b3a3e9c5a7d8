//! What a backend has to provide: transactions, wake-ups, and further connections.
//!
//! A server in a network could serve each call. Times come from the clock that the store was opened
//! with, which may ask for that of the server.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::error::StoreError;
use crate::examine::Examined;
use crate::log::LogStore;
use crate::postgres::LentPassword;
use crate::tables::Tables;
use crate::wakeup::{Notice, Topic, Wakeup};
use crate::writer_wait::OnWait;

/// What a commit must survive before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power.
    Full,
    /// A crash of any process. That is enough for heartbeats: no holder survives a loss of power.
    Process,
}

/// When the notices of a transaction are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// With the commit. A notice is lost only with a connection, and then all who listened there are woken.
    WithCommit,
    /// After the commit. A process that is killed in between sends none.
    AfterCommit,
}

/// The body of a transaction. It locks what it depends on, reads, decides and writes, in this order, and
/// returns whom to notify of that.
pub type TransactionBody<'a> = &'a mut dyn FnMut(&dyn Tables) -> Result<Vec<Notice>, StoreError>;

/// What reads a snapshot.
pub type ReadBody<'a> = &'a mut dyn FnMut(&dyn Tables) -> Result<(), StoreError>;

/// Opens a connection.
pub type Opener = Box<dyn Fn() -> Result<Box<dyn Backend>, StoreError> + Send>;

/// A connection to a place where records are stored.
pub trait Backend: Send {
    /// Runs `body` in one transaction: commits all its changes, or none if it fails. Transactions are
    /// serializable. Calls `on_wait` while other writers take long; when that gives up, `body` is not
    /// called.
    ///
    /// The notices that `body` returns are sent once its changes are committed, as [`Backend::delivery`] says.
    /// They may be lost, so waiters also look by themselves.
    ///
    /// If another transaction gets in the way, a backend discards what `body` has written and calls it
    /// again, as often as necessary. So a body is repeatable: a call depends on nothing that an earlier one
    /// has read, and nothing outside the store has changed before the commit, or the next call drops or
    /// puts back what has.
    ///
    /// A backend that returns an error has usually committed nothing. Where the answer to a commit was lost,
    /// it connects again and finds out; if it cannot, it returns [`StoreError::Unanswered`]. As a caller
    /// can rarely tell what a failed disk has kept, it treats every error alike: it drops what was computed
    /// on the way to the commit, and reads that part of the store again.
    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError>;

    /// Gives room that deleted records have left back to the system, if that is worth its time. Other
    /// writers wait meanwhile.
    fn compact(&mut self, _: OnWait<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Has the next writer refresh all leases before it decides anything. Returns whether it will.
    fn keep_leases(&self) -> bool {
        false
    }

    /// Makes all earlier commits survive a loss of power.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Returns the file that [`Backend::sync`] syncs, if there is one, so that the caller can have the
    /// kernel start writing it out earlier.
    fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Runs `body` on a consistent snapshot, without waiting for writers.
    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError>;

    /// Sets for how long this process may stand still in a transaction before a server ends it, so that others
    /// can write. This also goes for connections that are opened later with [`Backend::opener`].
    fn let_stall(&mut self, _: Duration) {}

    /// Returns the logs of orders that are kept here; none if they are only in files.
    fn logs(&mut self) -> Option<&mut dyn LogStore> {
        None
    }

    /// Looks at the state of the backend.
    fn examine(&mut self) -> Result<Examined, StoreError> {
        Ok(Examined::Memory)
    }

    /// Lends the password with which this was opened to processes of the same user; none if there was none.
    fn lend_password(&self) -> Result<Option<LentPassword>, StoreError> {
        Ok(None)
    }

    /// Returns a function that opens further connections to the same place, for other threads.
    fn opener(&self) -> Opener;

    /// Returns one for connections whose attempts at a transaction take no longer than `limit`. Then such a
    /// connection counts as lost, and [`Backend::transact`] asks whether to try again.
    fn opener_within(&self, _limit: Duration) -> Opener {
        self.opener()
    }

    /// Returns when the notices of transactions are sent.
    fn delivery(&self) -> Delivery {
        Delivery::AfterCommit
    }

    /// Registers a wake-up that the transactions of other connections can notify.
    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError>;
}
