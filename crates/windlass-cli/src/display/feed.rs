//! Carries changes from the thread that leads a run to the one that shows it.
//!
//! Telling never waits for showing: a terminal that is stopped or a pipe without a reader must not
//! hold up a run. What is not shown in time is kept up to a limit; above it, changes are left out
//! that a later one of the same step has overtaken. No end of a step is ever left out, nor is the
//! latest change of any step, nor a notice, of which there are few. How many were left out is told.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::change::{Ending, News};

/// How long the display waits for more changes after the first one, so that it is woken once for all of
/// them. A wake-up for each would take as long as a small step.
const GATHER: Duration = Duration::from_millis(8);
/// How many changes are kept before any is left out.
const LIMIT: usize = 16_384;

/// The way from the leader of a run to its display.
pub(crate) struct Feed {
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

struct Inbox {
    news: VecDeque<News>,
    limit: usize,
    /// At how many changes to look for some that can be left out.
    condense_at: usize,
    left_out: u64,
    ending: Option<Ending>,
}

/// Everything that has come since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) news: VecDeque<News>,
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
        let (news, condense_at) = (VecDeque::new(), limit);
        let inbox = Inbox { news, limit, condense_at, left_out: 0, ending: None };
        Self { inbox: Mutex::new(inbox), bell: Condvar::new() }
    }

    /// Passes a change on without waiting for the display.
    pub(crate) fn tell(&self, news: News) {
        let mut inbox = self.lock();
        let first = inbox.news.is_empty();
        inbox.news.push_back(news);
        inbox.condense();
        drop(inbox);
        // For earlier changes the display has been woken already.
        if first {
            self.bell.notify_one();
        }
    }

    /// Tells how it ended. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending) {
        self.lock().ending.get_or_insert(ending);
        self.bell.notify_one();
    }

    /// What has come; waits for it as long as `patience`, and a moment for what comes with it.
    pub(crate) fn take(&self, patience: Duration) -> Batch {
        let quiet = |inbox: &mut Inbox| inbox.news.is_empty() && inbox.ending.is_none();
        let waited = self.bell.wait_timeout_while(self.lock(), patience, quiet);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !inbox.news.is_empty() {
            let goes_on = |inbox: &mut Inbox| inbox.ending.is_none();
            let gathered = self.bell.wait_timeout_while(inbox, GATHER.min(patience), goes_on);
            (inbox, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        }
        inbox.condense_at = inbox.limit;
        Batch {
            news: std::mem::take(&mut inbox.news),
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

/// What comes later than the news that is looked at.
#[derive(Default)]
struct Later {
    /// The steps that change.
    changed: HashSet<String>,
    /// The steps that wait for something, though they do not change.
    wait: HashSet<String>,
}

impl Later {
    /// Whether news stays in spite of what comes later.
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

    fn told(feed: &Feed) -> Vec<News> {
        feed.take(SOON).news.into_iter().collect()
    }

    #[test]
    fn changes_arrive_in_order() {
        let feed = Feed::new();
        feed.tell(change("a", Running, 1));
        feed.tell(change("b", Running, 1));
        feed.tell(change("a", Success, 1));
        let expected = [change("a", Running, 1), change("b", Running, 1), change("a", Success, 1)];
        assert_eq!(told(&feed), expected);
        assert_eq!(told(&feed), [], "each comes once");
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
        let kept: Vec<_> = batch.news.into_iter().collect();
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
        let failed = |news: &&News| matches!(news, News::Changed(change) if change.state == Failed);
        assert_eq!(batch.news.iter().filter(failed).count(), 1000);
        assert_eq!(batch.left_out + batch.news.len() as u64, 2000);
        assert!(batch.news.len() < 2000, "starts that are over were left out");
    }

    #[test]
    fn a_step_that_runs_and_waits_is_told_as_both() {
        let feed = Feed::with_limit(6);
        feed.tell(wait("a", "for its lock"));
        feed.tell(change("a", Running, 1));
        feed.tell(wait("a", "for a guard"));
        feed.tell(wait("a", "for a person"));
        feed.tell(News::Notice("on.success: exit code 1".to_owned()));
        feed.tell(change("b", Running, 1));
        let expected = [
            change("a", Running, 1),
            wait("a", "for a person"),
            News::Notice("on.success: exit code 1".to_owned()),
            change("b", Running, 1),
        ];
        assert_eq!(told(&feed), expected);
    }

    #[test]
    fn a_step_that_goes_on_for_ever_takes_no_room() {
        let feed = Feed::with_limit(8);
        for attempt in 0..10_000 {
            feed.tell(change("a", Running, attempt));
            feed.tell(change("a", Pending, attempt));
        }
        assert!(feed.take(SOON).news.len() <= 8);
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
            (seen, ending) = (seen + batch.news.len(), batch.ending);
        }
        telling.join().expect("it tells");
        assert_eq!((seen, ending), (1, Some(Ending::Failed)));
    }
}
