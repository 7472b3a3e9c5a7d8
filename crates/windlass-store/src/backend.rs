//! What a place to remember things must be able to do.
//!
//! No call here is one that only a single machine could serve: transactions, a way to be woken, and
//! further connections. Times come from the clock that the store was opened with.

use std::os::fd::BorrowedFd;

use crate::error::StoreError;
use crate::tables::Tables;
use crate::wakeup::{Topic, Wakeup};

/// How sure a commit must be before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It survives a loss of power.
    Full,
    /// It survives a crash of any process. Enough for signs of life, since whoever gives them does
    /// not survive a loss of power either.
    Process,
}

/// What is done within a transaction.
pub type Act<'a> = &'a mut dyn FnMut(&dyn Tables) -> Result<(), StoreError>;

/// Makes a connection.
pub type Opener = Box<dyn Fn() -> Result<Box<dyn Backend>, StoreError> + Send>;

/// A place where things are remembered.
pub trait Backend: Send {
    /// Does several things in one commit: all of them, or none if `act` fails. Transactions happen
    /// one after the other, as seen by everybody.
    fn transact(&mut self, durability: Durability, act: Act<'_>) -> Result<(), StoreError>;

    /// Whatever was committed before survives a loss of power, once this has returned.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// The file in which commits lie until they are synced, if there is one: whoever has something to
    /// do before a sync can have the disk begin with it.
    fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Looks at one consistent state, without waiting for those who write.
    fn read(&mut self, act: Act<'_>) -> Result<(), StoreError>;

    /// A way to make further connections to the same place, from other threads.
    fn opener(&self) -> Opener;

    /// A wakeup that others can ring.
    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError>;

    /// Rings one wakeup, if it still hangs. Bells are only hints: one that is lost costs time.
    fn notify(&self, topic: &Topic, wakeup: &str);

    /// Rings every wakeup of a topic.
    fn notify_all(&self, topic: &Topic);

    /// Gives up waiting for others, and the wait with an error, as soon as `stop` says so.
    fn interrupt_when(&mut self, stop: Box<dyn Fn() -> bool + Send>);
}
