//! The latest changes of a scheduler, for subscribers that read them at their own pace.
//!
//! A session appends its changes while it holds the scheduler's lock, so they have one order; it wakes
//! readers after that. Old changes make way for new ones, and a reader that comes too late learns how
//! many it missed. Neither side waits for the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many changes are kept for readers.
const KEPT: usize = 4096;
/// How many changes a reader copies at a time.
const COPIED: usize = 64;

#[derive(Debug)]
pub(crate) struct Changes<T> {
    log: Mutex<Log<T>>,
    /// Notified when something was appended while a reader waited, and at the end.
    news: Notify,
}

#[derive(Debug)]
struct Log<T> {
    latest: VecDeque<T>,
    /// How many were ever appended.
    count: u64,
    readers: usize,
    has_waiters: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub(crate) struct Reader<T> {
    changes: Arc<Changes<T>>,
    /// How many were appended before the next one to read.
    position: u64,
    copied: VecDeque<T>,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<T> {
    Change(T),
    /// So many changes had made way before the reader came.
    Missed(u64),
}

impl<T: Clone> Changes<T> {
    pub(crate) fn new() -> Arc<Self> {
        let log = Log {
            latest: VecDeque::new(),
            count: 0,
            readers: 0,
            has_waiters: false,
            is_closed: false,
        };
        Arc::new(Self { log: Mutex::new(log), news: Notify::new() })
    }

    /// Returns a reader of everything that is appended from now on.
    pub(crate) fn reader(self: &Arc<Self>) -> Reader<T> {
        let mut log = self.log();
        log.readers += 1;
        Reader { changes: Arc::clone(self), position: log.count, copied: VecDeque::new() }
    }

    /// Appends changes and empties `changes`. Returns whether [`Changes::wake`] has to be called.
    pub(crate) fn append(&self, changes: &mut Vec<T>) -> bool {
        let mut log = self.log();
        log.count += changes.len() as u64;
        if log.readers == 0 {
            changes.clear();
            return false;
        }
        log.latest.extend(changes.drain(..));
        let surplus = log.latest.len().saturating_sub(KEPT);
        log.latest.drain(..surplus);
        std::mem::take(&mut log.has_waiters)
    }

    /// Wakes the readers that wait. To be called without a lock: a waker may do anything.
    pub(crate) fn wake(&self) {
        self.news.notify_waiters();
    }

    /// Ends the readers once they have read everything. [`Changes::wake`] has to be called.
    pub(crate) fn close(&self) {
        self.log().is_closed = true;
    }

    fn log(&self) -> MutexGuard<'_, Log<T>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Reader<T> {
    /// Waits for the next change; none once there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Read<T>> {
        loop {
            if let Some(change) = self.copied.pop_front() {
                return Some(Read::Change(change));
            }
            let changes = Arc::clone(&self.changes);
            let news = changes.news.notified();
            tokio::pin!(news);
            // Registered before looking, so that no change in between is missed.
            news.as_mut().enable();
            match self.look() {
                Look::Missed(missed) => return Some(Read::Missed(missed)),
                Look::Copied => {}
                Look::Nothing => news.await,
                Look::Closed => return None,
            }
        }
    }

    /// Copies what was appended since the last look.
    fn look(&mut self) -> Look {
        let mut log = self.changes.log();
        let oldest = log.count - log.latest.len() as u64;
        let missed = oldest.saturating_sub(self.position);
        if missed > 0 {
            self.position = oldest;
            return Look::Missed(missed);
        }
        let unread = log.latest.iter().skip((self.position - oldest) as usize);
        self.copied.extend(unread.take(COPIED).cloned());
        self.position += self.copied.len() as u64;
        if !self.copied.is_empty() {
            return Look::Copied;
        }
        log.has_waiters = true;
        if log.is_closed { Look::Closed } else { Look::Nothing }
    }
}

enum Look {
    Missed(u64),
    Copied,
    Nothing,
    Closed,
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        let mut log = self.changes.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.readers -= 1;
        if log.readers == 0 {
            log.latest = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(changes: &Changes<u64>, new: impl IntoIterator<Item = u64>) {
        if changes.append(&mut new.into_iter().collect()) {
            changes.wake();
        }
    }

    fn close(changes: &Changes<u64>) {
        changes.close();
        changes.wake();
    }

    async fn all(mut reader: Reader<u64>) -> (Vec<u64>, u64) {
        let (mut read, mut missed) = (Vec::new(), 0);
        while let Some(next) = reader.next().await {
            match next {
                Read::Change(change) => read.push(change),
                Read::Missed(some) => missed += some,
            }
        }
        (read, missed)
    }

    #[tokio::test]
    async fn a_reader_reads_what_is_appended_after_it_came() {
        let changes = Changes::new();
        let early = changes.reader();
        append(&changes, [1, 2]);
        let late = changes.reader();
        append(&changes, [3]);
        close(&changes);
        assert_eq!(all(early).await, (vec![1, 2, 3], 0));
        assert_eq!(all(late).await, (vec![3], 0));
        assert_eq!(all(changes.reader()).await, (vec![], 0));
    }

    #[tokio::test]
    async fn a_late_reader_is_told_how_many_it_missed() {
        let changes = Changes::new();
        let reader = changes.reader();
        (0..100).for_each(|chunk| append(&changes, chunk * 100..(chunk + 1) * 100));
        close(&changes);
        let (read, missed) = all(reader).await;
        assert_eq!(missed, 10_000 - KEPT as u64);
        assert_eq!(read, (missed..10_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let changes = Changes::new();
        let reader = tokio::spawn(all(changes.reader()));
        for number in 0..1000 {
            append(&changes, [number]);
            if number % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        close(&changes);
        assert_eq!(reader.await.expect("no panic"), ((0..1000).collect(), 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_beside_the_writer_reads_or_misses_everything_once() {
        const APPENDED: u64 = 30_000;
        let changes = Changes::new();
        let reader = tokio::spawn(all(changes.reader()));
        (0..APPENDED).step_by(3).for_each(|first| append(&changes, first..first + 3));
        close(&changes);
        let (read, missed) = reader.await.expect("no panic");
        assert_eq!(read.len() as u64 + missed, APPENDED);
        assert!(read.is_sorted_by(|one, next| one < next), "in order, and none twice");
    }

    #[tokio::test]
    async fn nothing_is_kept_without_a_reader() {
        let changes = Changes::new();
        drop(changes.reader());
        append(&changes, [1]);
        assert_eq!(changes.log().latest.len(), 0);
        let reader = changes.reader();
        append(&changes, [2]);
        close(&changes);
        assert_eq!(all(reader).await, (vec![2], 0));
    }
}
