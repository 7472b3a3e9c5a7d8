//! The bells of a run, which ring when somebody wants something of it.

use windlass_store::{Store, StoreError, Topic, Wakeup};

/// The bells of a run that hang.
#[derive(Default)]
pub(super) struct Bells {
    hung: Vec<Wakeup>,
    turn: Option<String>,
}

impl Bells {
    /// Hangs one for each topic.
    pub(super) fn hang(store: &Store, topics: Vec<Topic>) -> Result<Self, StoreError> {
        let mut bells = Self::default();
        for topic in topics {
            let bell = store.register(&topic)?;
            if topic == Topic::Turn {
                bells.turn = Some(bell.name().to_owned());
            }
            bells.hung.push(bell);
        }
        Ok(bells)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hung.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Wakeup> {
        self.hung.iter()
    }

    /// They have been heard.
    pub(super) fn hush(&self) {
        self.hung.iter().for_each(Wakeup::drain);
    }

    /// By which whoever gives a name back rings; none where no step needs names.
    pub(super) fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }
}
