//! Wake-ups within a process: the ends of pipes, by topic and name.

use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeWriter, Write, pipe};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::ioctl_fionbio;

use crate::error::StoreError;
use crate::wakeup::{Notice, Topic, Wakeup, unique};

/// The wake-ups that threads of this process have registered.
#[derive(Default)]
pub(crate) struct Pipes {
    writers: Mutex<BTreeMap<(Topic, String), PipeWriter>>,
}

impl Pipes {
    pub(crate) fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        let name = unique()?;
        let failed = |source| StoreError::Io { path: "a pipe".into(), source };
        let (reader, writer) = pipe().map_err(failed)?;
        let set = ioctl_fionbio(&reader, true).and_then(|()| ioctl_fionbio(&writer, true));
        set.map_err(|error| failed(error.into()))?;
        self.writers().insert((topic.clone(), name.clone()), writer);
        Ok(Wakeup::new(name, reader.into()))
    }

    pub(crate) fn send(&self, notices: &[Notice]) {
        for notice in notices {
            match notice {
                Notice::One(topic, wakeup) => self.notify(topic, wakeup),
                Notice::All(topic) => self.notify_all(topic),
            }
        }
    }

    pub(crate) fn notify(&self, topic: &Topic, wakeup: &str) {
        self.notify_those(|of, name| of == topic && name == wakeup);
    }

    pub(crate) fn notify_all(&self, topic: &Topic) {
        self.notify_those(|of, _| of == topic);
    }

    /// Notifies the wake-ups that `is_meant` selects, and forgets those of them that have no reader.
    pub(crate) fn notify_those(&self, is_meant: impl Fn(&Topic, &str) -> bool) {
        let mut writers = self.writers();
        writers.retain(|(topic, name), writer| !is_meant(topic, name) || notify(writer));
    }

    fn writers(&self) -> MutexGuard<'_, BTreeMap<(Topic, String), PipeWriter>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notifies a wake-up. Returns false if it has no reader; a full pipe has notifications pending.
fn notify(wakeup: &mut PipeWriter) -> bool {
    !matches!(wakeup.write(&[1]), Err(error) if error.kind() != ErrorKind::WouldBlock)
}
