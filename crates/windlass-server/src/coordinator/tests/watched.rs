//! A store that calls back when it is synced.

use std::sync::Arc;

use windlass_store::{Act, Backend, Bell, BootClock, Durability, Opener, Topic};

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

    fn transact(&mut self, durability: Durability, act: Act<'_>) -> Result<(), StoreError> {
        self.backend.transact(durability, act)?;
        if durability == Durability::Full { (self.synced)() } else { Ok(()) }
    }

    fn look(&mut self, act: Act<'_>) -> Result<(), StoreError> {
        self.backend.look(act)
    }

    fn opener(&self) -> Opener {
        self.backend.opener()
    }

    fn hang(&self, topic: &Topic) -> Result<Bell, StoreError> {
        self.backend.hang(topic)
    }

    fn ring(&self, topic: &Topic, bell: &str) {
        self.backend.ring(topic, bell);
    }

    fn ring_all(&self, topic: &Topic) {
        self.backend.ring_all(topic);
    }

    fn interrupt_when(&mut self, stop: Box<dyn Fn() -> bool + Send>) {
        self.backend.interrupt_when(stop);
    }
}
