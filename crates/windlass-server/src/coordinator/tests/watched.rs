//! A store that calls back when it is synced.

use std::sync::Arc;

use windlass_store::{
    Backend, BootClock, Durability, OnWait, Opener, ReadBody, Topic, TransactionBody, Wakeup,
};

use super::*;

/// Called after a sync; returns whether the sync counts as a success.
type Synced = Box<dyn Fn() -> Result<(), StoreError> + Send>;

struct Watched {
    backend: Box<dyn Backend>,
    synced: Synced,
}

/// Opens a store in `dir`, which calls `synced` after every sync, by itself or with a commit.
pub(super) fn store(
    dir: &Path,
    backend: impl Backend + 'static,
    synced: impl Fn() -> Result<(), StoreError> + Send + 'static,
) -> Store {
    let watched = Watched { backend: Box::new(backend), synced: Box::new(synced) };
    let clock = Arc::new(BootClock::start().expect("this is Linux"));
    Store::new(Box::new(watched), clock, dir)
}

impl Backend for Watched {
    fn sync(&mut self) -> Result<(), StoreError> {
        self.backend.sync()?;
        (self.synced)()
    }

    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        act: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        self.backend.transact(durability, on_wait, act)?;
        if durability == Durability::Full { (self.synced)() } else { Ok(()) }
    }

    fn read(&mut self, act: ReadBody<'_>) -> Result<(), StoreError> {
        self.backend.read(act)
    }

    fn opener(&self) -> Opener {
        self.backend.opener()
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.backend.register(topic)
    }
}
