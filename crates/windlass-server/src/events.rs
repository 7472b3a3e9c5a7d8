//! Events: emitting them, and reading them one after the other without missing any.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use thiserror::Error;
use windlass_store::{Event, Store, StoreError, Topic, Wakeup};
use windlass_workflow::{EventPattern, EventPatternError};

use crate::poll::{poll, timespec};
use crate::signals::SignalPipe;

/// How many events are read at once.
const BATCH: usize = 1000;
/// The interval between two checks without a wake-up.
const NET: Duration = Duration::from_secs(5);

/// Why an event was not emitted, or none could be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EventError {
    /// It has a name that no pattern could match.
    #[error(
        "{name:?} is not the name of an event: {why}; write segments with colons, as in build:web:done"
    )]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A pattern makes no sense.
    #[error(transparent)]
    Pattern(#[from] EventPatternError),
    /// A signal ended the wait.
    #[error("interrupted")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The system refused something that waiting needs.
    #[error("events cannot be waited for: {0}")]
    Io(#[from] io::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Emits an event, and returns it.
pub fn emit(store: &mut Store, name: &str) -> Result<Event, EventError> {
    check_name(name)?;
    let emitted = store.transact(|transaction| {
        let events = transaction.events();
        let number = events.emit(name)?;
        events.after(number - 1, 1)
    })?;
    Ok(emitted.into_iter().next().expect("the transaction has stored it"))
}

fn check_name(name: &str) -> Result<(), EventError> {
    let refused = |why| Err(EventError::Name { name: name.to_owned(), why });
    match name {
        name if name.split(':').any(str::is_empty) => refused("it has an empty segment"),
        name if name.contains('*') => refused("a star stands only in patterns"),
        _ => Ok(()),
    }
}

/// Reads events in order, from a number on.
pub struct EventReader {
    store: Store,
    after: u64,
    patterns: Vec<EventPattern>,
}

impl EventReader {
    /// Reads what comes after number `after`, and matches one of the patterns if there are any.
    #[must_use]
    pub fn new(store: Store, after: u64, patterns: Vec<EventPattern>) -> Self {
        Self { store, after, patterns }
    }

    /// Returns the matching events since the last call.
    pub fn read(&mut self) -> Result<Vec<Event>, StoreError> {
        let after = self.after;
        let (mut events, last) = self.store.read(|transaction| {
            Ok((transaction.events().after(after, BATCH)?, transaction.events().last()?))
        })?;
        // The last events may have been deleted.
        let read = events.last().map_or(after, |last| last.number);
        self.after = if events.len() < BATCH { read.max(last) } else { read };
        let matches = |name: &str| self.patterns.iter().any(|pattern| pattern.matches(name));
        events.retain(|event| self.patterns.is_empty() || matches(&event.name));
        Ok(events)
    }

    /// Returns whether there is nothing to read.
    pub fn is_at_end(&mut self) -> Result<bool, StoreError> {
        Ok(self.store.last_event()? <= self.after)
    }

    /// Passes every event to `each`, which prints to `output`, until a signal comes, `each` returns false,
    /// or the reader of `output` is gone.
    pub fn follow(
        mut self,
        output: impl AsFd,
        mut each: impl FnMut(&Event) -> bool,
    ) -> Result<(), EventError> {
        let signals = SignalPipe::open()?;
        let wakeup = self.store.register(&Topic::Events)?;
        loop {
            wakeup.drain();
            while !self.is_at_end()? {
                if !self.read()?.iter().all(&mut each) {
                    return Ok(());
                }
            }
            let mut sources = [
                PollFd::new(&signals, PollFlags::IN),
                PollFd::new(&wakeup, PollFlags::IN),
                // A closed pipe and a hung-up terminal are reported without being asked for.
                PollFd::new(&output, PollFlags::empty()),
            ];
            match rustix::event::poll(&mut sources, Some(&timespec(NET))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [has_signal, _, is_closed] = sources.map(|source| !source.revents().is_empty());
            if has_signal {
                return Err(EventError::Interrupted { signal: signals.next()? });
            }
            if is_closed {
                return Ok(());
            }
        }
    }
}

/// Waits until a wake-up or a signal comes, or `patience` is over. Returns the signal, if one came.
pub(crate) fn rest(
    wakeups: &[&Wakeup],
    signals: &SignalPipe,
    patience: Option<Duration>,
) -> io::Result<Option<i32>> {
    let mut sources: Vec<&dyn AsFd> = vec![signals];
    sources.extend(wakeups.iter().map(|wakeup| *wakeup as &dyn AsFd));
    let ready = poll(&sources, patience)?;
    if ready[0] { signals.next().map(Some) } else { Ok(None) }
}
