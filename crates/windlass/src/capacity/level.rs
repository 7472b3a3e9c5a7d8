//! What all handles of one level share: its number, and the clients that take there on their behalf.

use std::sync::{Arc, OnceLock};

use windlass_core::{CapacityTree, ClientId, LevelId, Timestamp};

use super::metrics::History;
use super::shared::Shared;
use crate::sync::Mutex;

pub(super) struct Level {
    pub(super) shared: Arc<Shared>,
    pub(super) id: LevelId,
    /// The client that holds what permits have taken. None until the first permit, so that a tree with a single
    /// scheduler is not shared.
    permits: OnceLock<ClientId>,
    /// The client that holds what was taken without a permit.
    immediate: OnceLock<ClientId>,
    pub(super) history: Mutex<History>,
}

impl Level {
    pub(super) fn new(shared: Arc<Shared>, id: LevelId) -> Self {
        let history = Mutex::new(History::new(shared.clock.now()));
        let (permits, immediate) = (OnceLock::new(), OnceLock::new());
        Self { shared, id, permits, immediate, history }
    }

    pub(super) fn permits(&self, tree: &mut CapacityTree) -> ClientId {
        *self.permits.get_or_init(|| tree.add_client(self.id))
    }

    pub(super) fn immediate(&self, tree: &mut CapacityTree) -> ClientId {
        *self.immediate.get_or_init(|| tree.add_client(self.id))
    }

    /// The time, if it makes any difference in this tree.
    #[inline]
    pub(super) fn now(&self, tree: &CapacityTree) -> Timestamp {
        if tree.is_timed() { self.shared.clock.now() } else { Timestamp::ZERO }
    }
}

impl Drop for Level {
    /// Permits keep their level, so all that can be left here was taken without one.
    fn drop(&mut self) {
        let mut tree = self.shared.lock();
        let clients = [self.permits.get(), self.immediate.get()].into_iter().flatten();
        let wakes: Vec<_> = clients.flat_map(|client| tree.remove_client(*client)).collect();
        tree.remove_level(self.id);
        drop(tree);
        self.shared.unname(self.id);
        self.shared.notify(&wakes);
    }
}
