//! Carries changes from the thread that leads a run to the one that shows it.
//!
//! Telling never waits for showing: a terminal that is stopped or a pipe that nobody reads must not
//! hold up a run. What is not shown in time is kept up to a limit; above it, changes are left out
//! that a later one of the same step has overtaken. No end of a step is ever left out, nor is the
//! latest change of any step, so there are never more than two for each step and as many again.
//! How many were left out is told.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::change::{Ending, StepChange};

/// How many changes are kept before any is left out.
const LIMIT: usize = 16_384;

/// The way from the leader of a run to its display.
pub(crate) struct Feed {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

struct Inbox {
    changes: VecDeque<StepChange>,
    limit: usize,
    /// At how many changes to look for some that can be left out.
    condense_at: usize,
    left_out: u64,
    ending: Option<Ending>,
}

/// Everything that has come since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) changes: VecDeque<StepChange>,
    /// How many changes were left out before these.
    pub(crate) left_out: u64,
    /// The end; nothing comes after it.
    pub(crate) ending: Option<Ending>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        let (changes, condense_at) = (VecDeque::new(), limit);
        let inbox = Inbox { changes, limit, condense_at, left_out: 0, ending: None };
        Self { inbox: Mutex::new(inbox), news: Condvar::new() }
    }

    /// Tells of a change, without waiting for anybody.
    pub(crate) fn tell(&self, change: StepChange) {
        let mut inbox = self.lock();
        inbox.changes.push_back(change);
        inbox.condense();
        drop(inbox);
        self.news.notify_one();
    }

    /// Tells how it ended. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending) {
        self.lock().ending.get_or_insert(ending);
        self.news.notify_one();
    }

    /// What has come; waits for it as long as `patience`.
    pub(crate) fn take(&self, patience: Duration) -> Batch {
        let quiet = |inbox: &mut Inbox| inbox.changes.is_empty() && inbox.ending.is_none();
        let waited = self.news.wait_timeout_while(self.lock(), patience, quiet);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inbox.condense_at = inbox.limit;
        Batch {
            changes: std::mem::take(&mut inbox.changes),
            left_out: std::mem::take(&mut inbox.left_out),
            ending: inbox.ending,
        }
    }

    /// Nothing that holds the lock can leave the inbox half changed.
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    /// Leaves out what may be, if there is too much. The next look comes when there is twice as
    /// much as has to stay, so that telling stays cheap however much that is.
    fn condense(&mut self) {
        if self.changes.len() < self.condense_at {
            return;
        }
        let before = self.changes.len();
        let mut later = HashSet::new();
        let stays = |change: &StepChange| {
            let latest = later.insert(change.step.clone());
            latest || change.state.is_terminal()
        };
        let mut stays: Vec<bool> = self.changes.iter().rev().map(stays).collect();
        self.changes.retain(|_| stays.pop().expect("one for each"));
        self.left_out += (before - self.changes.len()) as u64;
        self.condense_at = self.limit.max(2 * self.changes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use windlass_server::WorkState::{self, Failed, Pending, Running, Success};

    use super::*;

    const SOON: Duration = Duration::ZERO;

    fn change(step: &str, state: WorkState, attempt: u32) -> StepChange {
        let (step, at_ms) = (step.to_owned(), 0);
        StepChange { step, state, attempt, at_ms, log: None, why: None, skipped: false }
    }

    fn told(feed: &Feed) -> Vec<String> {
        let changes = feed.take(SOON).changes;
        changes.iter().map(|c| format!("{} {} {}", c.step, c.state, c.attempt)).collect()
    }

    #[test]
    fn changes_arrive_in_order() {
        let feed = Feed::new();
        feed.tell(change("a", Running, 1));
        feed.tell(change("b", Running, 1));
        feed.tell(change("a", Success, 1));
        assert_eq!(told(&feed), ["a Running 1", "b Running 1", "a Success 1"]);
        assert_eq!(told(&feed), [""; 0], "each comes once");
    }

    #[test]
    fn when_full_only_what_was_overtaken_is_left_out() {
        let feed = Feed::with_limit(7);
        feed.tell(change("a", Running, 1));
        feed.tell(change("a", Pending, 1));
        feed.tell(change("a", Running, 2));
        feed.tell(change("a", Failed, 2));
        feed.tell(change("b", Running, 1));
        feed.tell(change("b", Pending, 1));
        feed.tell(change("b", Running, 2));
        let batch = feed.take(SOON);
        assert_eq!(batch.left_out, 5);
        let kept: Vec<_> = batch.changes.into_iter().collect();
        assert_eq!(kept, [change("a", Failed, 2), change("b", Running, 2)]);
        assert_eq!(feed.take(SOON).left_out, 0, "it is told once");
    }

    #[test]
    fn no_end_is_lost_however_many_there_are() {
        let feed = Feed::with_limit(8);
        for number in 0..1000 {
            let step = number.to_string();
            feed.tell(change(&step, Running, 1));
            feed.tell(change(&step, Failed, 1));
        }
        let batch = feed.take(SOON);
        let ends = batch.changes.iter().filter(|change| change.state == Failed).count();
        assert_eq!(ends, 1000);
        assert_eq!(batch.left_out + batch.changes.len() as u64, 2000);
        assert!(batch.changes.len() < 2000, "starts that are over were left out");
    }

    #[test]
    fn a_step_that_goes_on_for_ever_takes_no_room() {
        let feed = Feed::with_limit(8);
        for attempt in 0..10_000 {
            feed.tell(change("a", Running, attempt));
            feed.tell(change("a", Pending, attempt));
        }
        assert!(feed.take(SOON).changes.len() <= 8);
    }

    #[test]
    fn one_who_waits_is_woken_by_a_change_and_by_the_end() {
        let feed = Arc::new(Feed::new());
        let teller = Arc::clone(&feed);
        let telling = thread::spawn(move || {
            teller.tell(change("a", Running, 1));
            teller.end(Ending::Failed);
            teller.end(Ending::Stopped);
        });
        let (mut seen, mut ending) = (0, None);
        while ending.is_none() {
            let batch = feed.take(Duration::MAX);
            (seen, ending) = (seen + batch.changes.len(), batch.ending);
        }
        telling.join().expect("it tells");
        assert_eq!((seen, ending), (1, Some(Ending::Failed)));
    }
}
