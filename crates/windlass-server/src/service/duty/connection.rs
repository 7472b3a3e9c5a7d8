//! A worker's connection to its store. A store that cannot be used for a while is trouble that the user is told
//! of once, and the end of the worker only if it is lost for good.

use windlass_store::{Blocker, Durability, Store, StoreError, Transaction, WriterWait};

use super::super::watchdog::Watchdog;
use super::super::worker::{WorkerError, WorkerNews};
use super::taken::OrderToken;
use crate::coordinator::attempts::{Attempts, Meanwhile, News};

/// A worker's connection to its store.
pub(super) struct Connection {
    store: Store,
    /// Whether the store cannot be used now, which was reported.
    trouble: bool,
}

/// What goes on while the connection waits for other writers.
pub(super) struct Around<'a, A> {
    pub(super) attempts: &'a mut A,
    /// Takes in what happens.
    pub(super) inbox: &'a mut Vec<News<OrderToken>>,
    pub(super) watchdog: &'a mut Watchdog,
}

impl Connection {
    pub(super) fn new(store: Store) -> Self {
        Self { store, trouble: false }
    }

    pub(super) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble
    }

    /// Writes to the store, while everything that was ordered goes on. A signal interrupts a wait for other
    /// writers.
    pub(super) fn write<T, A: Attempts<OrderToken>>(
        &mut self,
        durability: Durability,
        around: Around<'_, A>,
        tell: &mut dyn FnMut(&WorkerNews),
        act: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, WorkerError> {
        let Self { store, trouble } = self;
        let Around { attempts, inbox, watchdog } = around;
        let mut blocked = |blocker: &Blocker| {
            if !std::mem::replace(trouble, true) {
                tell(&WorkerNews::Trouble(format!("waiting for the store: {blocker}")));
            }
        };
        let mut meanwhile = Meanwhile::new(attempts, inbox, &mut blocked);
        let mut on_wait = |wait: &dyn WriterWait| {
            watchdog.beat();
            meanwhile.go_on(wait)
        };
        let written = store.transact_while(durability, &mut on_wait, act);
        meanwhile.failure().map_or(Ok(written?), |failure| Err(failure.into()))
    }

    /// Tells the user once that the store cannot be used, and that it can again. Returns whether this
    /// life still has the worker's name, as far as that is known. Fails if the store is lost for good.
    pub(super) fn heed_trouble(
        &mut self,
        looked: Result<bool, WorkerError>,
        tell: &mut dyn FnMut(&WorkerNews),
    ) -> Result<bool, WorkerError> {
        match looked {
            Ok(alive) => {
                if std::mem::take(&mut self.trouble) {
                    tell(&WorkerNews::Recovered);
                }
                Ok(alive)
            }
            // A signal has come, which is heeded next.
            Err(WorkerError::Store(StoreError::Interrupted)) => Ok(true),
            Err(WorkerError::Store(lost)) if lost.is_final() => Err(lost.into()),
            Err(error) => {
                if matches!(error, WorkerError::Store(_)) {
                    // If that fails, the next look does.
                    let _ = self.store.reconnect();
                }
                if !std::mem::replace(&mut self.trouble, true) {
                    tell(&WorkerNews::Trouble(error.to_string()));
                }
                Ok(true)
            }
        }
    }
}
