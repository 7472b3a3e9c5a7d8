//! Group commit: what many threads want to write goes into one commit, as soon as the last one is
//! through, with no delay of its own.
//!
//! Each order stands in a savepoint, so one that fails takes nothing of the others with it. Nobody
//! is answered before the commit holds.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use crate::error::StoreError;
use crate::store::Store;
use crate::transaction::Transaction;

/// How many orders one commit may carry, and how many may wait.
const BATCH: usize = 256;

/// Writes for many threads. Clones share the same writing thread, which ends with the last of them.
///
/// ```
/// use windlass_store::{Store, Writer};
///
/// let writer = Writer::start(Store::in_memory()?);
/// assert_eq!(writer.transact(|transaction| transaction.emit("build:done"))?, 1);
/// # Ok::<(), windlass_store::StoreError>(())
/// ```
#[derive(Clone)]
pub struct Writer {
    orders: SyncSender<Order>,
}

type Order = Box<dyn Ordered>;

/// An order that is carried out within a larger transaction, and answered after it.
trait Ordered: Send {
    fn carry_out(&mut self, transaction: &Transaction<'_>);
    fn answer(self: Box<Self>, failed: Option<&Arc<StoreError>>);
}

struct Ask<F, T> {
    act: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: Sender<Result<T, StoreError>>,
}

impl Writer {
    /// Starts to write on a thread of its own.
    #[must_use]
    pub fn start(store: Store) -> Self {
        let (orders, taken) = mpsc::sync_channel(BATCH);
        thread::spawn(move || write(store, &taken));
        Self { orders }
    }

    /// Does several things in one commit, shared with whatever else is written at the moment.
    pub fn transact<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, heard) = mpsc::channel();
        let order = Ask { act: Some(act), result: None, reply };
        let gone = "the writing thread lives as long as somebody can give it orders";
        self.orders.send(Box::new(order)).expect(gone);
        heard.recv().expect("every order is answered")
    }
}

fn write(mut store: Store, orders: &Receiver<Order>) {
    while let Ok(first) = orders.recv() {
        let mut batch = vec![first];
        batch.extend(orders.try_iter().take(BATCH - 1));
        let failed = store.transact(|transaction| {
            for order in &mut batch {
                order.carry_out(transaction);
            }
            Ok(())
        });
        let failed = failed.err().map(Arc::new);
        batch.into_iter().for_each(|order| order.answer(failed.as_ref()));
    }
}

impl<F, T> Ordered for Ask<F, T>
where
    F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn carry_out(&mut self, transaction: &Transaction<'_>) {
        let act = self.act.take().expect("an order is carried out once");
        self.result = Some(transaction.within_savepoint(act));
    }

    fn answer(self: Box<Self>, failed: Option<&Arc<StoreError>>) {
        let result = match failed {
            Some(error) => Err(StoreError::Commit(Arc::clone(error))),
            None => self.result.expect("what holds was carried out"),
        };
        // Whoever asked may have gone.
        let _ = self.reply.send(result);
    }
}
