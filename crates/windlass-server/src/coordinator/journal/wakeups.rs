//! The wake-ups that a run has registered with the store.

use windlass_store::{Store, StoreError, Topic, Wakeup};

/// The registered wake-ups of a run.
#[derive(Default)]
pub(super) struct Wakeups {
    registered: Vec<Wakeup>,
    turn: Option<String>,
}

impl Wakeups {
    /// Registers one for each topic.
    pub(super) fn register(store: &Store, topics: &[Topic]) -> Result<Self, StoreError> {
        let mut wakeups = Self::default();
        for topic in topics {
            let wakeup = store.register(topic)?;
            if *topic == Topic::Turn {
                wakeups.turn = Some(wakeup.name().to_owned());
            }
            wakeups.registered.push(wakeup);
        }
        Ok(wakeups)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Wakeup> {
        self.registered.iter()
    }

    /// Forgets the wake-ups that have come.
    pub(super) fn drain(&self) {
        self.registered.iter().for_each(Wakeup::drain);
    }

    /// Returns the name of the wake-up that a holder notifies when it gives a name back; none where no
    /// step needs names.
    pub(super) fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }
}
