//! What an engine needs of the outside in one session: one time, and the tree of its capacity.
//!
//! A scheduler and a source call their engines through it. Both have locked their own state before; the tree is
//! locked second, at the first call that needs it, and stays locked until the session is over.

use windlass_core::{CapacityTree, ClientId, Timestamp, Transition, World};

use crate::capacity::{Client, TreeGuard};

pub(crate) struct SessionWorld<'a> {
    client: &'a Client,
    now: Option<Timestamp>,
    tree: Option<TreeGuard<'a>>,
}

impl<'a> SessionWorld<'a> {
    /// The time is read from the capacity's clock when it is first needed.
    #[inline]
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, now: None, tree: None }
    }

    pub(crate) fn at(client: &'a Client, now: Timestamp) -> Self {
        Self { client, now: Some(now), tree: None }
    }

    #[inline]
    pub(crate) fn now(&mut self) -> Timestamp {
        *self.now.get_or_insert_with(|| self.client.capacity.now())
    }

    #[inline]
    pub(crate) fn tree(&mut self) -> &mut CapacityTree {
        self.tree.get_or_insert_with(|| self.client.capacity.lock())
    }

    /// Returns the tree if a call has needed it.
    #[inline]
    pub(crate) fn locked_tree(&self) -> Option<&CapacityTree> {
        self.tree.as_deref()
    }

    /// Returns what the engine is called with.
    #[inline]
    pub(crate) fn world<'w>(
        &'w mut self,
        transitions: &'w mut Vec<Transition>,
        wakes: &'w mut Vec<ClientId>,
    ) -> World<'w> {
        let now = self.now();
        World { now, capacity: self.tree(), facts: None, transitions: Some(transitions), wakes }
    }
}
