//! Waits for one guard: checks it, sleeps, wakes up for its events and for a user's decision.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use thiserror::Error;
use windlass_core::Timestamp;
use windlass_store::{Store, StoreError, Topic, Wakeup};
use windlass_workflow::{EventPattern, EventPatternError, Guard, GuardAction};

use super::check::{Broken, Check, CheckResult, NotYet, check_until_signal};
use super::guard_poll::{GuardPoll, PollStep, UsedUp};
use super::verdict::{Verdict, Verdicts};
use super::waiting::Waiting;
use crate::events::{EventReader, rest};
use crate::inherited::Inherited;
use crate::lock_client::patience;
use crate::signals::SignalPipe;

/// The interval between two checks without a wake-up.
const NET: Duration = Duration::from_secs(5);

/// What to wait for, with every value filled in.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    /// The guard to wait for.
    pub guard: &'a Guard,
    /// The variables to which its condition refers, and all others that it is given.
    pub env: &'a [(String, String)],
    /// The patterns of events that have it checked at once.
    pub wake_on: &'a [String],
    /// The directory in which its condition runs.
    pub dir: &'a Path,
    /// How long to wait at most, whatever the guard says; none for as long as it takes.
    pub wait: Option<Duration>,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardEnd {
    /// The condition holds.
    Passed,
    /// A user has approved it.
    Approved,
    /// A user has rejected it.
    Rejected,
    /// It has waited for as long as it may, or was checked as often as it may be, and fails then.
    TimedOut(UsedUp),
    /// The caller's time is over.
    NotYet(Option<NotYet>),
    /// The condition cannot be checked.
    Broken(Broken),
}

/// What happens while a caller waits for a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardNews<'a> {
    /// It does not hold yet.
    NotYet(&'a NotYet),
    /// It has used that up, and the condition is checked further.
    Blocked(UsedUp),
    /// It has used that up, and a user has to decide.
    Escalated(UsedUp),
}

/// Why a guard cannot be waited for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The name of an event makes no sense as a pattern, with the values that it has.
    #[error("wake_on: {0}")]
    Pattern(#[from] EventPatternError),
    /// A signal ended the wait.
    #[error("interrupted while waiting")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The system refused something that checking needs.
    #[error("the condition cannot be checked: {0}")]
    Io(#[from] io::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Waits until a guard passes, fails, or the caller's time is up.
pub fn watch(
    store: Store,
    order: &Watch<'_>,
    told: impl FnMut(GuardNews<'_>),
) -> Result<GuardEnd, GuardError> {
    let mut store = store;
    let signals = SignalPipe::open()?;
    store.give_up_when(patience(Some(&signals), order.wait));
    let wakeups = [store.register(&Topic::Events)?, store.register(&Topic::Requests)?];
    let name = order.guard.name.as_str();
    let verdicts = match Verdicts::begin(&mut store, name) {
        Err(StoreError::Interrupted) => {
            return Err(GuardError::Interrupted { signal: signals.next()? });
        }
        verdicts => verdicts?,
    };
    let _waiting = Waiting::announce(store.dir(), name, wakeups[0].name())?;
    let patterns = order.wake_on.iter().map(|pattern| pattern.parse::<EventPattern>());
    let after = store.last_event()?;
    let events = EventReader::new(store.try_clone()?, after, patterns.collect::<Result<_, _>>()?);
    let tag = format!("check-{}", wakeups[0].name());
    let inherited = Inherited::without_password_of(&store)?;
    let began = Instant::now();
    let poll = GuardPoll::new(order.guard, Timestamp::ZERO);
    Watching {
        store,
        inherited,
        order,
        verdicts,
        events,
        signals,
        wakeups,
        tag,
        began,
        poll,
        last: None,
        told,
    }
    .run()
}

struct Watching<'a, T> {
    store: Store,
    inherited: Inherited,
    order: &'a Watch<'a>,
    verdicts: Verdicts,
    events: EventReader,
    signals: SignalPipe,
    wakeups: [Wakeup; 2],
    tag: String,
    began: Instant,
    poll: GuardPoll,
    last: Option<NotYet>,
    told: T,
}

impl<T: FnMut(GuardNews<'_>)> Watching<'_, T> {
    fn run(mut self) -> Result<GuardEnd, GuardError> {
        match self.until_end() {
            Err(GuardError::Store(StoreError::Interrupted)) => {
                Err(GuardError::Interrupted { signal: self.signals.next()? })
            }
            ended => ended,
        }
    }

    fn until_end(&mut self) -> Result<GuardEnd, GuardError> {
        loop {
            self.wakeups.iter().for_each(Wakeup::drain);
            match self.verdicts.take(&mut self.store)? {
                Some(Verdict::Approve) => return Ok(GuardEnd::Approved),
                Some(Verdict::Reject) => return Ok(GuardEnd::Rejected),
                None => {}
            }
            if self.has_event()? {
                self.poll.wake(self.now());
            }
            let step = self.poll.step(self.now());
            let ended = match step {
                PollStep::Check { limit } => self.check(limit)?,
                PollStep::TimedOut(action) => self.time_out(action)?,
                PollStep::Wait { until } => self.wait(until)?,
            };
            if let Some(end) = ended {
                return Ok(end);
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.began.elapsed())
    }

    /// Returns how long the caller still waits.
    fn left(&self) -> Option<Duration> {
        self.order.wait.map(|wait| wait.saturating_sub(self.began.elapsed()))
    }

    /// Reads all new events, and returns whether the guard waits for one of them.
    fn has_event(&mut self) -> Result<bool, StoreError> {
        let mut found = false;
        while !self.order.wake_on.is_empty() && !self.events.is_at_end()? {
            found |= !self.events.read()?.is_empty();
        }
        Ok(found)
    }

    fn check(&mut self, limit: Duration) -> Result<Option<GuardEnd>, GuardError> {
        let Watch { guard, env, dir, .. } = *self.order;
        // A caller without any time to wait still gets one check.
        let left = self.left().filter(|left| !left.is_zero());
        let limit = left.map_or(limit, |left| left.min(limit));
        let check = Check { script: &guard.condition, env, dir, limit, tags: &self.tag };
        match check_until_signal(&check, &self.inherited, &self.signals)? {
            Err(signal) => Err(GuardError::Interrupted { signal }),
            Ok(CheckResult::Passed) => Ok(Some(GuardEnd::Passed)),
            Ok(CheckResult::Broken(broken)) => Ok(Some(GuardEnd::Broken(broken))),
            Ok(CheckResult::NotYet(why)) => {
                self.poll.not_yet(self.now());
                (self.told)(GuardNews::NotYet(&why));
                self.last = Some(why);
                Ok(None)
            }
        }
    }

    fn time_out(&mut self, action: GuardAction) -> Result<Option<GuardEnd>, GuardError> {
        let used_up = self.poll.used_up(self.now());
        match action {
            GuardAction::Fail => return Ok(Some(GuardEnd::TimedOut(used_up))),
            GuardAction::Block => (self.told)(GuardNews::Blocked(used_up)),
            GuardAction::Escalate => {
                let event = format!("guard:{}:escalated", self.order.guard.name);
                self.store.transact(|transaction| transaction.events().emit(&event))?;
                (self.told)(GuardNews::Escalated(used_up));
            }
        }
        Ok(None)
    }

    fn wait(&mut self, until: Option<Timestamp>) -> Result<Option<GuardEnd>, GuardError> {
        let left = self.left();
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Some(GuardEnd::NotYet(self.last.take())));
        }
        let until = until.map(|until| until.since(self.now()));
        let patience = [until, left, Some(NET)].into_iter().flatten().min();
        let [events, requests] = &self.wakeups;
        match rest(&[events, requests], &self.signals, patience)? {
            Some(signal) => Err(GuardError::Interrupted { signal }),
            None => Ok(None),
        }
    }
}
