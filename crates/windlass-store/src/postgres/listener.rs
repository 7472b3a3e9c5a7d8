//! Wake-ups through the database: notifications that every process of the store hears.
//!
//! A process listens on one connection, whatever it waits for, in a thread that ends with the last store
//! of the process. The server sends notifications with the commit that asks for them. They may be lost with
//! the listener's connection, so all wake-ups are notified when that is lost, and when it is back.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::link::{Closed, Link};
use super::target::Target;
use crate::error::StoreError;
use crate::pipes::Pipes;
use crate::wakeup::{Notice, Topic, Wakeup};

/// How often a listener checks whether it is still needed.
const CHECK: Duration = Duration::from_secs(10);
/// How long a listener waits before it connects again.
const RECONNECT: Duration = Duration::from_millis(500);
/// Stands for all wake-ups of a topic.
const ALL: &str = "*";

/// What this process listens for.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<Mutex<Option<Arc<Pipes>>>>);

impl Listener {
    /// Registers a wake-up. Once this returns, no notification is missed.
    pub(super) fn register(
        &self,
        target: &Arc<Target>,
        topic: &Topic,
    ) -> Result<Wakeup, StoreError> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_none() {
            *current = Some(start(target)?);
        }
        current.as_ref().expect("it was started above").register(topic)
    }
}

/// Starts to listen.
fn start(target: &Arc<Target>) -> Result<Arc<Pipes>, StoreError> {
    let pipes = Arc::new(Pipes::default());
    let link = listen(target)?;
    let (target, weak) = (Arc::clone(target), Arc::downgrade(&pipes));
    let listener = thread::Builder::new().name("wake-ups".to_owned());
    let started = listener.spawn(move || hear(link, &target, &weak));
    started.map_err(|source| StoreError::SystemQuery { what: "a thread for wake-ups", source })?;
    Ok(pipes)
}

/// Returns the statement with which a commit notifies.
pub(super) fn notification(target: &Target, notice: &Notice) -> String {
    let (topic, wakeup) = match notice {
        Notice::One(topic, wakeup) => (topic, &**wakeup),
        Notice::All(topic) => (topic, ALL),
    };
    // The names of wake-ups are UUIDs, but come out of the database.
    let wakeup = wakeup.replace('\'', "");
    format!("NOTIFY {}, '{} {wakeup}'", channel(target), topic.word())
}

fn channel(target: &Target) -> String {
    format!("windlass_{}", target.schema())
}

fn listen(target: &Target) -> Result<Link, StoreError> {
    let link = Link::open(target, None)?;
    let listen = format!("LISTEN {}", channel(target));
    link.ask(|client| client.batch_execute(&listen))?.map_err(|error| target.error(&error))?;
    Ok(link)
}

/// Passes on notifications until no store of this process is left.
fn hear(mut link: Link, target: &Target, pipes: &Weak<Pipes>) {
    let mut is_away = false;
    loop {
        let heard = link.hear(CHECK);
        let Some(pipes) = pipes.upgrade() else { return };
        match heard {
            Ok(Some(notification)) => pass_on(notification.payload(), &pipes),
            Ok(None) => {}
            Err(Closed) => {
                // Who looks now learns that the database is away, and that it is back after that.
                if !std::mem::replace(&mut is_away, true) {
                    pipes.notify_those(|_, _| true);
                }
                match listen(target) {
                    Ok(again) => {
                        (link, is_away) = (again, false);
                        pipes.notify_those(|_, _| true);
                    }
                    Err(_) => thread::sleep(RECONNECT),
                }
            }
        }
    }
}

fn pass_on(payload: &str, pipes: &Pipes) {
    let Some((topic, wakeup)) = payload.split_once(' ') else { return };
    let Some(topic) = Topic::from_word(topic) else { return };
    match wakeup {
        ALL => pipes.notify_all(&topic),
        wakeup => pipes.notify(&topic, wakeup),
    }
}
