//! The rounds of one process under one lead.
//!
//! A round changes the engines of runs before its commit. So a round that is repeated, or comes after one whose
//! commit has failed, drops the runs that the other one has touched, and reads them again. Knows nothing of
//! threads, signals and wake-ups.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::Token;
use windlass_store::{Look, Store, StoreError, Transaction};

use super::dispatcher::Dispatcher;
use super::lead::leads;
use super::news::SchedulerNews;
use crate::coordinator::RunError;
use crate::coordinator::served::{EndLeftovers, Host};
#[cfg(windlass_faults)]
use crate::fault::Point;

/// How long to wait before a store that could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The rounds of one process under one lead.
pub(in crate::service) struct Rounds {
    epoch: Token,
    /// The wake-up to notify when a name that a step waits for may be free.
    wakeup: String,
    dispatcher: Dispatcher,
    /// Whether the store cannot be written now, which was reported.
    trouble: bool,
    /// The runs of which the user was told.
    told: BTreeSet<String>,
}

/// Whether the scheduler still leads after a round.
enum Round {
    Done,
    /// Another scheduler leads.
    LeadLost,
}

impl Rounds {
    /// Prepares the rounds under the lead that has the token `epoch`.
    pub(in crate::service) fn new(epoch: Token, wakeup: &str, host: Host) -> Self {
        let (wakeup, dispatcher) = (wakeup.to_owned(), Dispatcher::new(host));
        Self { epoch, wakeup, dispatcher, trouble: false, told: BTreeSet::new() }
    }

    /// Takes in what is new. Returns how long until the next round without a wake-up; none once another
    /// scheduler leads.
    pub(in crate::service) fn next(
        &mut self,
        store: &mut Store,
        end_leftovers: EndLeftovers<'_>,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<Option<Duration>, RunError> {
        let mut news = Vec::new();
        match self.round(store, &mut news) {
            Ok(Round::Done) => {
                if std::mem::take(&mut self.trouble) {
                    tell(&SchedulerNews::Recovered);
                }
                news.iter().filter(|news| self.is_new_to_user(news)).for_each(&mut *tell);
                self.dispatcher.clean_up(end_leftovers)?;
            }
            Ok(Round::LeadLost) => return Ok(None),
            // A signal has come, which the caller's next wait returns.
            Err(StoreError::Interrupted) => {}
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                // If that fails, the next round does.
                let _ = store.reconnect();
                // What was committed is unknown: the next round drops what this one has touched.
                if !std::mem::replace(&mut self.trouble, true) {
                    tell(&SchedulerNews::Trouble { why: error.to_string() });
                }
            }
        }
        Ok(Some(if self.trouble { TRY_AGAIN } else { self.dispatcher.pause(store.delivery()) }))
    }

    /// Returns whether no run has anything to do.
    pub(super) fn is_idle(&self) -> bool {
        !self.trouble && self.dispatcher.is_idle()
    }

    #[cfg(test)]
    pub(in crate::service) fn epoch(&self) -> Token {
        self.epoch
    }

    /// Returns the digest of each run that no round has touched since the last commit.
    #[cfg(test)]
    pub(in crate::service) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        self.dispatcher.digests()
    }

    /// Takes in what is new, and writes what follows, in one transaction.
    fn round(
        &mut self,
        store: &mut Store,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<Round, StoreError> {
        let Self { epoch, wakeup, dispatcher, .. } = self;
        let look = |transaction: &Transaction<'_>| {
            transaction.orders().expect(Look::OfScheduler)?;
            Ok((leads(transaction, *epoch)?, dispatcher.has_news(transaction)?))
        };
        match store.read(look)? {
            // One that was suspended may have nothing to do any more.
            (false, _) => return Ok(Round::LeadLost),
            (true, false) => return Ok(Round::Done),
            (true, true) => {}
        }
        let round = store.transact(|transaction| {
            dispatcher.drop_touched();
            news.clear();
            transaction.orders().expect(Look::OfScheduler)?;
            if !leads(transaction, *epoch)? {
                return Ok(Round::LeadLost);
            }
            dispatcher.decide(transaction, wakeup, news)?;
            #[cfg(windlass_faults)]
            Point::BeforeRound.reached();
            Ok(Round::Done)
        })?;
        #[cfg(windlass_faults)]
        Point::AfterRound.reached();
        dispatcher.note_committed();
        Ok(round)
    }

    /// Returns whether the user has not been told this: a run that was adopted again has not begun again.
    fn is_new_to_user(&mut self, news: &SchedulerNews) -> bool {
        match news {
            SchedulerNews::Began { run, .. } | SchedulerNews::Refused { run, .. } => {
                self.told.insert(run.clone())
            }
            SchedulerNews::Ended { run, .. } => {
                self.told.remove(run);
                true
            }
            _ => true,
        }
    }
}
