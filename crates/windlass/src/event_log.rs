//! The latest events of a scheduler, for subscribers that read them at their own pace.
//!
//! A session appends its events while it holds the scheduler's lock, so they have one order; it wakes
//! readers after that. New events replace the oldest ones, and a reader that comes too late learns how
//! many it missed. Neither side waits for the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many events are kept for readers.
const KEPT: usize = 4096;
/// How many events a reader copies at a time.
const COPIED: usize = 64;

#[derive(Debug)]
pub(crate) struct EventLog<T> {
    inner: Mutex<Inner<T>>,
    /// Notified when something was appended while a reader waited, and at the end.
    news: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    latest: VecDeque<T>,
    /// How many were ever appended.
    count: u64,
    readers: usize,
    has_waiters: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub(crate) struct Reader<T> {
    log: Arc<EventLog<T>>,
    /// How many were appended before the next one to read.
    position: u64,
    copied: VecDeque<T>,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<T> {
    Event(T),
    /// So many events were replaced before the reader came.
    Missed(u64),
}

impl<T: Clone> EventLog<T> {
    pub(crate) fn new() -> Arc<Self> {
        let inner = Inner {
            latest: VecDeque::new(),
            count: 0,
            readers: 0,
            has_waiters: false,
            is_closed: false,
        };
        Arc::new(Self { inner: Mutex::new(inner), news: Notify::new() })
    }

    /// Returns a reader of everything that is appended from now on.
    pub(crate) fn reader(self: &Arc<Self>) -> Reader<T> {
        let mut log = self.lock();
        log.readers += 1;
        Reader { log: Arc::clone(self), position: log.count, copied: VecDeque::new() }
    }

    /// Appends events and empties `events`. Returns whether [`EventLog::wake`] has to be called.
    pub(crate) fn append(&self, events: &mut Vec<T>) -> bool {
        let mut log = self.lock();
        log.count += events.len() as u64;
        if log.readers == 0 {
            events.clear();
            return false;
        }
        for event in events.drain(..) {
            if log.latest.len() == KEPT {
                log.latest.pop_front();
            }
            log.latest.push_back(event);
        }
        std::mem::take(&mut log.has_waiters)
    }

    /// Wakes the readers that wait. To be called without a lock: a waker may do anything.
    pub(crate) fn wake(&self) {
        self.news.notify_waiters();
    }

    /// Ends the readers once they have read everything. [`EventLog::wake`] has to be called.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }
}

impl<T> EventLog<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Reader<T> {
    /// Waits for the next event; none once there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Read<T>> {
        loop {
            if let Some(event) = self.copied.pop_front() {
                return Some(Read::Event(event));
            }
            let log = Arc::clone(&self.log);
            let news = log.news.notified();
            tokio::pin!(news);
            // Registered before looking, so that no event in between is missed.
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
        let mut log = self.log.lock();
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
        let mut log = self.log.lock();
        log.readers -= 1;
        if log.readers == 0 {
            log.latest = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &EventLog<u64>, new: impl IntoIterator<Item = u64>) {
        if log.append(&mut new.into_iter().collect()) {
            log.wake();
        }
    }

    fn close(log: &EventLog<u64>) {
        log.close();
        log.wake();
    }

    async fn all(mut reader: Reader<u64>) -> (Vec<u64>, u64) {
        let (mut read, mut missed) = (Vec::new(), 0);
        while let Some(next) = reader.next().await {
            match next {
                Read::Event(event) => read.push(event),
                Read::Missed(some) => missed += some,
            }
        }
        (read, missed)
    }

    #[tokio::test]
    async fn a_reader_reads_what_is_appended_after_it_came() {
        let log = EventLog::new();
        let early = log.reader();
        append(&log, [1, 2]);
        let late = log.reader();
        append(&log, [3]);
        close(&log);
        assert_eq!(all(early).await, (vec![1, 2, 3], 0));
        assert_eq!(all(late).await, (vec![3], 0));
        assert_eq!(all(log.reader()).await, (vec![], 0));
    }

    #[tokio::test]
    async fn a_late_reader_is_told_how_many_it_missed() {
        let log = EventLog::new();
        let reader = log.reader();
        (0..100).for_each(|chunk| append(&log, chunk * 100..(chunk + 1) * 100));
        close(&log);
        let (read, missed) = all(reader).await;
        assert_eq!(missed, 10_000 - KEPT as u64);
        assert_eq!(read, (missed..10_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let log = EventLog::new();
        let reader = tokio::spawn(all(log.reader()));
        for number in 0..1000 {
            append(&log, [number]);
            if number % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        close(&log);
        assert_eq!(reader.await.expect("no panic"), ((0..1000).collect(), 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_beside_the_writer_reads_or_misses_everything_once() {
        const APPENDED: u64 = 30_000;
        let log = EventLog::new();
        let reader = tokio::spawn(all(log.reader()));
        (0..APPENDED).step_by(3).for_each(|first| append(&log, first..first + 3));
        close(&log);
        let (read, missed) = reader.await.expect("no panic");
        assert_eq!(read.len() as u64 + missed, APPENDED);
        assert!(read.is_sorted_by(|one, next| one < next), "in order, and none twice");
    }

    #[tokio::test]
    async fn nothing_is_kept_without_a_reader() {
        let log = EventLog::new();
        drop(log.reader());
        append(&log, [1]);
        assert_eq!(log.lock().latest.len(), 0);
        let reader = log.reader();
        append(&log, [2]);
        close(&log);
        assert_eq!(all(reader).await, (vec![2], 0));
    }
}
