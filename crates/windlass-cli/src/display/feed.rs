//! Carries changes from the thread that leads a run to the one that shows it.
//!
//! The leader never waits for the display: a suspended terminal or a pipe without a reader must not delay
//! a run. Updates are queued up to a limit; above it, changes are left out that a later change of the
//! same step has overtaken. Ends of steps, the latest change of each step and notices are never left out.
//! The display gets the number of changes that were left out.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::change::{Ending, News};

/// How long the display thread waits for more changes after the first, so that it is woken once for all
/// of them. A wake-up for each change would take as long as a small step.
const GATHER: Duration = Duration::from_millis(8);
/// The number of changes that are kept before some are left out.
const LIMIT: usize = 16_384;

/// A queue from the thread that leads a run to its display thread.
pub(crate) struct Feed {
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

struct Inbox {
    news: VecDeque<News>,
    limit: usize,
    /// The number of changes at which to look for some to leave out.
    condense_at: usize,
    left_out: u64,
    ending: Option<Ending>,
}

/// The updates since the last call of `take`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) news: VecDeque<News>,
    /// The number of changes that were left out before these.
    pub(crate) left_out: u64,
    /// The end; nothing comes after it.
    pub(crate) ending: Option<Ending>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        let (news, condense_at) = (VecDeque::new(), limit);
        let inbox = Inbox { news, limit, condense_at, left_out: 0, ending: None };
        Self { inbox: Mutex::new(inbox), changed: Condvar::new() }
    }

    /// Queues an update, and does not wait for the display.
    pub(crate) fn push(&self, news: News) {
        let mut inbox = self.lock();
        let first = inbox.news.is_empty();
        inbox.news.push_back(news);
        inbox.condense();
        drop(inbox);
        // Earlier updates have woken the display already.
        if first {
            self.changed.notify_one();
        }
    }

    /// Queues the end. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending) {
        self.lock().ending.get_or_insert(ending);
        self.changed.notify_one();
    }

    /// Waits for updates at most as long as `patience`, then a moment for more, and returns all of them.
    pub(crate) fn take(&self, patience: Duration) -> Batch {
        let quiet = |inbox: &mut Inbox| inbox.news.is_empty() && inbox.ending.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), patience, quiet);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !inbox.news.is_empty() {
            let goes_on = |inbox: &mut Inbox| inbox.ending.is_none();
            let gathered = self.changed.wait_timeout_while(inbox, GATHER.min(patience), goes_on);
            (inbox, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        }
        inbox.condense_at = inbox.limit;
        Batch {
            news: std::mem::take(&mut inbox.news),
            left_out: std::mem::take(&mut inbox.left_out),
            ending: inbox.ending,
        }
    }

    /// Locks the inbox. A thread that panics under the lock cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    /// Leaves out overtaken changes if there are too many. The next time is when there are twice as many
    /// as had to stay, so queueing an update stays cheap.
    fn condense(&mut self) {
        let before = self.news.len();
        if before < self.condense_at {
            return;
        }
        let mut later = Later::default();
        let mut stays: Vec<bool> = self.news.iter().rev().map(|news| later.stays(news)).collect();
        self.news.retain(|_| stays.pop().expect("one for each"));
        self.left_out += (before - self.news.len()) as u64;
        self.condense_at = self.limit.max(2 * self.news.len());
    }
}

/// The updates after the one that is looked at.
#[derive(Default)]
struct Later {
    /// The steps that change.
    changed: HashSet<String>,
    /// The steps that wait for something and do not change.
    wait: HashSet<String>,
}

impl Later {
    /// Returns whether an update is kept in spite of the later ones.
    fn stays(&mut self, news: &News) -> bool {
        match news {
            News::Changed(change) => {
                let latest = self.changed.insert(change.step.clone());
                latest || change.state.is_terminal()
            }
            News::Waits { step, .. } => {
                !self.changed.contains(step) && self.wait.insert(step.clone())
            }
            News::Stopping | News::Notice(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use windlass_server::WorkState::{self, Failed, Pending, Running, Success};

    use super::super::board;
    use super::*;

    const SOON: Duration = Duration::ZERO;

    fn change(step: &str, state: WorkState, attempt: u32) -> News {
        News::Changed(board::tests::change(step, state, attempt, 0))
    }

    fn wait(step: &str, why: &str) -> News {
        News::Waits { step: step.to_owned(), why: why.to_owned(), at_ms: 0 }
    }

    fn taken(feed: &Feed) -> Vec<News> {
        feed.take(SOON).news.into_iter().collect()
    }

    #[test]
    fn changes_arrive_in_order() {
        let feed = Feed::new();
        feed.push(change("a", Running, 1));
        feed.push(change("b", Running, 1));
        feed.push(change("a", Success, 1));
        let expected = [change("a", Running, 1), change("b", Running, 1), change("a", Success, 1)];
        assert_eq!(taken(&feed), expected);
        assert_eq!(taken(&feed), [], "each comes once");
    }

    #[test]
    fn when_full_only_what_was_overtaken_is_left_out() {
        let feed = Feed::with_limit(7);
        feed.push(change("a", Running, 1));
        feed.push(change("a", Pending, 1));
        feed.push(change("a", Running, 2));
        feed.push(change("a", Failed, 2));
        feed.push(change("b", Running, 1));
        feed.push(change("b", Pending, 1));
        feed.push(change("b", Running, 2));
        let batch = feed.take(SOON);
        assert_eq!(batch.left_out, 5);
        let kept: Vec<_> = batch.news.into_iter().collect();
        assert_eq!(kept, [change("a", Failed, 2), change("b", Running, 2)]);
        assert_eq!(feed.take(SOON).left_out, 0, "it is counted once");
    }

    #[test]
    fn no_end_is_lost_however_many_there_are() {
        let feed = Feed::with_limit(8);
        for number in 0..1000 {
            let step = number.to_string();
            feed.push(change(&step, Running, 1));
            feed.push(change(&step, Failed, 1));
        }
        let batch = feed.take(SOON);
        let failed = |news: &&News| matches!(news, News::Changed(change) if change.state == Failed);
        assert_eq!(batch.news.iter().filter(failed).count(), 1000);
        assert_eq!(batch.left_out + batch.news.len() as u64, 2000);
        assert!(batch.news.len() < 2000, "starts that are over were left out");
    }

    #[test]
    fn a_step_that_runs_and_waits_is_reported_as_both() {
        let feed = Feed::with_limit(6);
        feed.push(wait("a", "for its lock"));
        feed.push(change("a", Running, 1));
        feed.push(wait("a", "for a guard"));
        feed.push(wait("a", "for a person"));
        feed.push(News::Notice("on.success: exit code 1".to_owned()));
        feed.push(change("b", Running, 1));
        let expected = [
            change("a", Running, 1),
            wait("a", "for a person"),
            News::Notice("on.success: exit code 1".to_owned()),
            change("b", Running, 1),
        ];
        assert_eq!(taken(&feed), expected);
    }

    #[test]
    fn changes_of_a_step_that_never_ends_take_bounded_memory() {
        let feed = Feed::with_limit(8);
        for attempt in 0..10_000 {
            feed.push(change("a", Running, attempt));
            feed.push(change("a", Pending, attempt));
        }
        assert!(feed.take(SOON).news.len() <= 8);
    }

    #[test]
    fn a_waiting_display_is_woken_by_a_change_and_by_the_end() {
        let feed = Arc::new(Feed::new());
        let sender = Arc::clone(&feed);
        let telling = thread::spawn(move || {
            sender.push(change("a", Running, 1));
            sender.end(Ending::Failed);
            sender.end(Ending::Stopped);
        });
        let (mut seen, mut ending) = (0, None);
        while ending.is_none() {
            let batch = feed.take(Duration::MAX);
            (seen, ending) = (seen + batch.news.len(), batch.ending);
        }
        telling.join().expect("it tells");
        assert_eq!((seen, ending), (1, Some(Ending::Failed)));
    }
}
