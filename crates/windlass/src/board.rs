//! Where changes are posted for those who read along: the latest few thousand, each reader at its own
//! pace.
//!
//! Whoever posts holds nobody up and is held up by nobody: changes are posted in one go, what is too
//! old makes way, and a reader that comes too late is told how many it missed. A reader takes many
//! at a time, and pauses for a moment before it asks to be rung for: where much is posted, to ring
//! for each of it would cost more than all the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

/// How many changes a reader may be behind.
const KEPT: usize = 4096;
/// How many are enough to be put with the others.
const FRESH: usize = 64;
/// How many a reader takes at a time, unless it is the only one.
const TAKEN: usize = 64;
/// How long a reader that has read something lets more come in before it sees whether it does: some ten
/// microseconds.
const WHILE: usize = 400;
/// How often it does so at most, as long as much does.
const WHILES: usize = 5;
/// So many are enough to be read.
const ENOUGH: u64 = KEPT as u64 / 8;
/// How many have to be posted meanwhile: as many as where bodies take next to no time. Where they do not,
/// somebody else has more use for the thread.
const MANY: u64 = 16;
/// A pause in vain says little: the one who posts may have been held up.
const FEW_IN_VAIN: u32 = 3;
/// After more of them it does not pause for up to two to the power of this many reads.
const MOST_IN_VAIN: u32 = 6;

#[derive(Debug)]
pub(crate) struct Board<T> {
    posted: Mutex<Posted<T>>,
    /// How many were posted, for those who would look in vain.
    count: AtomicU64,
    /// Rung when something was posted and somebody waits for it.
    bell: Notify,
}

#[derive(Debug)]
struct Posted<T> {
    /// The latest of all; the last one is number `count`. They stand where readers seldom look: what a reader has
    /// looked at is with another core, and to get it back takes as long for many as for one.
    fresh: Vec<T>,
    /// Those before them.
    latest: VecDeque<T>,
    count: u64,
    readers: usize,
    /// Whether a reader has found nothing new, and waits.
    is_awaited: bool,
    is_closed: bool,
}

/// Someone who reads everything that is posted from now on.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    board: Arc<Board<T>>,
    /// How many it has seen or missed.
    seen: u64,
    /// What it has taken and not told yet.
    taken: VecDeque<T>,
    /// Whether it has read something since it last paused.
    has_read: bool,
    patience: Patience,
}

/// Whether a reader pauses before it waits. Where the one who posts shares its thread, or posts
/// seldom, that is in vain.
#[derive(Debug, Default)]
struct Patience {
    /// How often it was in vain, one time after the other.
    in_vain: u32,
    /// For how many reads there is no pause.
    rest: u32,
}

/// What a reader is told.
pub(crate) enum Told<T> {
    One(T),
    Missed(u64),
}

impl<T: Clone> Board<T> {
    pub(crate) fn new() -> Arc<Self> {
        let posted = Posted {
            fresh: Vec::new(),
            latest: VecDeque::new(),
            count: 0,
            readers: 0,
            is_awaited: false,
            is_closed: false,
        };
        let (posted, count) = (Mutex::new(posted), AtomicU64::new(0));
        Arc::new(Self { posted, count, bell: Notify::new() })
    }

    pub(crate) fn read(self: &Arc<Self>) -> Reader<T> {
        let mut posted = self.lock();
        posted.readers += 1;
        let (seen, taken, patience) = (posted.count, VecDeque::new(), Patience::default());
        Reader { board: Arc::clone(self), seen, taken, has_read: false, patience }
    }

    /// Posts everything that is in `changes`, which is empty then.
    pub(crate) fn post(&self, changes: &mut Vec<T>) {
        let mut posted = self.lock();
        let is_awaited = std::mem::take(&mut posted.is_awaited);
        if posted.readers > 0 {
            posted.count += changes.len() as u64;
            posted.fresh.append(changes);
            if posted.fresh.len() >= FRESH {
                posted.put_together();
            }
            // Relaxed: whoever sees it takes the lock, and whoever does not waits for the bell.
            self.count.store(posted.count, Ordering::Relaxed);
        }
        drop(posted);
        changes.clear();
        if is_awaited {
            self.bell.notify_waiters();
        }
    }

    /// How many were posted since one has seen or missed so many.
    fn count_past(&self, seen: u64) -> u64 {
        self.count.load(Ordering::Relaxed).saturating_sub(seen)
    }

    /// Nothing more will be posted.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Posted<T>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Posted<T> {
    /// Puts the fresh ones with the others; what is too old makes way.
    fn put_together(&mut self) {
        // As lists of one kind they are copied all at once.
        let mut fresh = VecDeque::from(std::mem::take(&mut self.fresh));
        self.latest.append(&mut fresh);
        self.fresh = fresh.into();
        if self.latest.len() > KEPT {
            let too_many = self.latest.len() - KEPT;
            self.latest.drain(..too_many);
        }
    }
}

impl<T: Clone> Reader<T> {
    /// The next one; none once the board is closed and everything is read.
    pub(crate) async fn next(&mut self) -> Option<Told<T>> {
        loop {
            if let Some(one) = self.taken.pop_front() {
                return Some(Told::One(one));
            }
            if std::mem::take(&mut self.has_read) {
                self.pause().await;
            }
            let board = Arc::clone(&self.board);
            let rung = board.bell.notified();
            tokio::pin!(rung);
            // Listening before looking: what is posted in between rings.
            rung.as_mut().enable();
            match self.look() {
                Looked::Missed(missed) => return Some(Told::Missed(missed)),
                Looked::Taken => self.has_read = true,
                Looked::Nothing => rung.await,
                Looked::Closed => return None,
            }
        }
    }

    /// Lets more come in, for as long as it does: to ring for each of it, and to take the board away again
    /// and again from the one who posts, costs that one more than all the rest. There may always be
    /// more, and others have to have this thread, too.
    async fn pause(&mut self) {
        let mut unread = self.board.count_past(self.seen);
        if unread >= ENOUGH || !self.patience.is_there() {
            return consume_budget().await;
        }
        let mut worth_it = 0;
        while worth_it < WHILES && unread < ENOUGH {
            (0..WHILE).for_each(|_| std::hint::spin_loop());
            consume_budget().await;
            let before = std::mem::replace(&mut unread, self.board.count_past(self.seen));
            if unread < before + MANY {
                break;
            }
            worth_it += 1;
        }
        self.patience.note(worth_it > 0);
    }

    fn look(&mut self) -> Looked {
        let mut posted = self.board.lock();
        posted.put_together();
        let oldest = posted.count - posted.latest.len() as u64;
        let missed = oldest.saturating_sub(self.seen);
        if missed > 0 {
            self.seen = oldest;
            return Looked::Missed(missed);
        }
        // No more than are kept, so it is a place among them.
        let next = (self.seen - oldest) as usize;
        if posted.readers == 1 {
            // Nobody else will read these, and nobody is held up while they are taken.
            posted.latest.drain(..next);
            std::mem::swap(&mut self.taken, &mut posted.latest);
        } else {
            self.taken.extend(posted.latest.iter().skip(next).take(TAKEN).cloned());
        }
        self.seen += self.taken.len() as u64;
        match self.taken.is_empty() {
            false => Looked::Taken,
            true if posted.is_closed => Looked::Closed,
            true => {
                posted.is_awaited = true;
                Looked::Nothing
            }
        }
    }
}

impl Patience {
    /// Whether there is a pause this time.
    fn is_there(&mut self) -> bool {
        let rest = self.rest;
        self.rest = rest.saturating_sub(1);
        rest == 0
    }

    /// There was a pause, worth it or not.
    fn note(&mut self, was_worth_it: bool) {
        if was_worth_it {
            self.in_vain = 0;
            return;
        }
        self.in_vain = (self.in_vain + 1).min(FEW_IN_VAIN + MOST_IN_VAIN);
        if self.in_vain >= FEW_IN_VAIN {
            self.rest = 1 << (self.in_vain - FEW_IN_VAIN);
        }
    }
}

enum Looked {
    Missed(u64),
    Taken,
    Nothing,
    Closed,
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        let mut posted = self.board.posted.lock().unwrap_or_else(PoisonError::into_inner);
        posted.readers -= 1;
        if posted.readers == 0 {
            // Nobody is there to miss what is posted meanwhile.
            (posted.fresh, posted.latest) = (Vec::new(), VecDeque::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut reader: Reader<u64>) -> (Vec<u64>, u64) {
        let (mut read, mut missed) = (Vec::new(), 0);
        while let Some(told) = reader.next().await {
            match told {
                Told::One(one) => read.push(one),
                Told::Missed(some) => missed += some,
            }
        }
        (read, missed)
    }

    #[tokio::test]
    async fn everybody_reads_what_is_posted_while_they_are_there() {
        let board = Board::new();
        let early = board.read();
        board.post(&mut vec![1, 2]);
        let late = board.read();
        board.post(&mut vec![3]);
        board.close();
        assert_eq!(all(early).await, (vec![1, 2, 3], 0));
        assert_eq!(all(late).await, (vec![3], 0));
        assert_eq!(all(board.read()).await, (vec![], 0));
    }

    #[tokio::test]
    async fn one_that_is_late_is_told_how_many_it_missed() {
        let board = Board::new();
        let reader = board.read();
        for chunk in 0..100 {
            board.post(&mut (chunk * 100..(chunk + 1) * 100).collect());
        }
        board.close();
        let (read, missed) = all(reader).await;
        assert_eq!(missed, 10_000 - KEPT as u64);
        assert_eq!(read, (missed..10_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn one_that_waits_is_woken() {
        let board = Board::new();
        let reader = tokio::spawn(all(board.read()));
        for number in 0..1000 {
            board.post(&mut vec![number]);
            if number % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        board.close();
        assert_eq!(reader.await.expect("no panic"), ((0..1000).collect(), 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_that_reads_beside_the_one_who_posts_reads_or_misses_everything_once() {
        const POSTED: u64 = 30_000;
        let board = Board::new();
        let reader = tokio::spawn(all(board.read()));
        for first in (0..POSTED).step_by(3) {
            board.post(&mut vec![first, first + 1, first + 2]);
        }
        board.close();
        let (read, missed) = reader.await.expect("no panic");
        assert_eq!(read.len() as u64 + missed, POSTED);
        assert!(read.is_sorted_by(|one, next| one < next), "in order, and none twice");
    }

    #[tokio::test]
    async fn one_that_is_left_alone_goes_on_where_it_was() {
        let board = Board::new();
        let (mut first, second) = (board.read(), board.read());
        board.post(&mut vec![1, 2]);
        assert!(matches!(first.next().await, Some(Told::One(1))));
        drop(second);
        board.post(&mut vec![3]);
        board.close();
        assert_eq!(all(first).await, (vec![2, 3], 0));
    }

    #[tokio::test]
    async fn what_nobody_reads_is_not_kept() {
        let board = Board::new();
        drop(board.read());
        board.post(&mut vec![1]);
        assert_eq!(board.lock().latest.len(), 0);
        let reader = board.read();
        board.post(&mut vec![2]);
        board.close();
        assert_eq!(all(reader).await, (vec![2], 0));
    }
}
