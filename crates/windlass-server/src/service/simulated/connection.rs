//! The connections of processes to the store. A process can be killed and suspended before each try of a
//! transaction, and killed after its commit; meanwhile the others go on.

use std::sync::{Arc, Weak};

use windlass_store::{
    Backend, Durability, Memory, OnWait, Opener, ReadBody, StoreError, Topic, TransactionBody,
    Wakeup,
};

use super::world::World;

/// Why a process that was killed goes on no more.
pub(super) const KILLED: &str = "the process was killed";

/// The connection of a process to the store.
pub(super) struct Connection {
    pub(super) memory: Memory,
    pub(super) world: Weak<World>,
    pub(super) pid: u32,
}

impl Connection {
    /// Fails once the process was killed.
    fn go_on(&self, moment: impl FnOnce(&Arc<World>, u32)) -> Result<(), StoreError> {
        let world = self.world.upgrade().expect("it lasts longer than its processes");
        if !world.machine.is_gone(self.pid) {
            moment(&world, self.pid);
        }
        match world.machine.is_gone(self.pid) {
            true => Err(StoreError::Unanswered { why: KILLED.to_owned() }),
            false => Ok(()),
        }
    }
}

impl Backend for Connection {
    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        self.go_on(World::before_transaction)?;
        self.memory.transact(durability, on_wait, body)?;
        self.go_on(World::after_commit)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        self.memory.read(body)?;
        self.go_on(World::after_read)
    }

    fn opener(&self) -> Opener {
        let (memory, world, pid) = (self.memory.clone(), self.world.clone(), self.pid);
        Box::new(move || {
            let (memory, world) = (memory.clone(), world.clone());
            Ok(Box::new(Connection { memory, world, pid }))
        })
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.memory.register(topic)
    }
}
