//! The shelf: attempts that nobody is polling, where every runner finds them.
//!
//! A task that waits for a thread may stand where Tokio's other threads do not look: behind a body that
//! never yields, on the list of those that have yielded, in the slot of the one woken last. So no task
//! takes an attempt along to such a place. A runner that is sent for comes with nothing and takes what
//! is there; one that lets others go first leaves here what it has, and comes back. Whoever is on the way
//! may be held up all the same: as long as there is something here, the run looks in, and sends for
//! another one in the place of one that has not come since.

use std::collections::VecDeque;

use crate::attempt::Attempt;

pub(crate) struct Shelf<T = Attempt> {
    /// The run whose runners take from it: those of an earlier one may be about to.
    run: RunId,
    attempts: VecDeque<T>,
    /// How many runners are expected here, or fewer: one who was given up may come after all.
    coming: usize,
    /// How many others were sent for since somebody was here.
    relief: usize,
    /// How many at most: as many as there are threads; none where nobody can be held up.
    most_relief: usize,
    /// How many attempts were ever taken.
    taken: u64,
    /// How many have to be taken until those are gone that were here when the run last looked in.
    seen: u64,
    /// Whether the run looks in.
    is_watched: bool,
    /// Whether an attempt was left since the run last looked.
    has_been_left: bool,
}

/// The number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u64);

/// What became of a runner's wish to leave its attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leaves<T> {
    It {
        /// Whether the run has to hear that it looks in from now on.
        tells_the_run: bool,
    },
    /// Its run is over.
    Nothing(T),
}

impl<T> Shelf<T> {
    pub(crate) fn new() -> Self {
        Self {
            run: RunId(0),
            attempts: VecDeque::new(),
            coming: 0,
            relief: 0,
            most_relief: 0,
            taken: 0,
            seen: 0,
            is_watched: false,
            has_been_left: false,
        }
    }

    /// A run begins, on a runtime with so many threads.
    pub(crate) fn open(&mut self, threads: usize) -> RunId {
        self.most_relief = if threads > 1 { threads } else { 0 };
        self.run
    }

    /// The run is over: what is left, which nobody comes for any more.
    pub(crate) fn close(&mut self) -> VecDeque<T> {
        let next = Self { run: RunId(self.run.0 + 1), ..Self::new() };
        std::mem::replace(self, next).attempts
    }

    /// For a runner that is yet to be sent for.
    pub(crate) fn put(&mut self, attempt: T) {
        self.attempts.push_back(attempt);
    }

    /// By a runner that comes back.
    pub(crate) fn leave(&mut self, attempt: T, run: RunId) -> Leaves<T> {
        if run != self.run {
            return Leaves::Nothing(attempt);
        }
        self.put(attempt);
        self.coming += 1;
        self.has_been_left = true;
        let tells_the_run = self.most_relief > 0 && !std::mem::replace(&mut self.is_watched, true);
        Leaves::It { tells_the_run }
    }

    /// By a runner that was on its way; none if another one was here earlier.
    pub(crate) fn take(&mut self, run: RunId) -> Option<T> {
        if run != self.run {
            return None;
        }
        self.coming = self.coming.saturating_sub(1);
        let attempt = self.attempts.pop_front()?;
        self.taken += 1;
        self.relief = 0;
        Some(attempt)
    }

    /// How many runners the run sends for: one for each attempt that nobody comes for.
    pub(crate) fn send_for(&mut self) -> usize {
        let more = self.attempts.len().saturating_sub(self.coming);
        self.coming += more;
        more
    }

    /// The same when it has been a while since the run looked in: if an attempt was here then that is still
    /// here, whoever was to come for it is given up for another one.
    pub(crate) fn send_for_late(&mut self) -> usize {
        let more = self.send_for();
        let is_late = more == 0 && self.taken < self.seen && self.relief < self.most_relief;
        self.relief += usize::from(is_late);
        self.seen = self.taken + self.attempts.len() as u64;
        more + usize::from(is_late)
    }

    /// Whether the run looks in from now on: somebody is on the way, or will be again soon.
    pub(crate) fn is_watched(&mut self) -> bool {
        let has_been_left = std::mem::take(&mut self.has_been_left);
        self.is_watched = self.most_relief > 0 && (has_been_left || !self.attempts.is_empty());
        self.is_watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> (Shelf<&'static str>, RunId) {
        let mut shelf = Shelf::new();
        let run = shelf.open(2);
        (shelf, run)
    }

    #[test]
    fn one_runner_is_sent_for_each_attempt() {
        let (mut shelf, run) = shelf();
        shelf.put("a");
        shelf.put("b");
        assert_eq!(shelf.send_for(), 2);
        assert_eq!(shelf.send_for(), 0, "they are on their way");
        assert_eq!([shelf.take(run), shelf.take(run)], [Some("a"), Some("b")]);
        shelf.put("c");
        assert_eq!(shelf.send_for(), 1);
    }

    #[test]
    fn whoever_leaves_an_attempt_comes_back_for_one() {
        let (mut shelf, run) = shelf();
        shelf.leave("left", run);
        assert_eq!(shelf.send_for(), 0);
        shelf.put("new");
        assert_eq!(shelf.send_for(), 1);
        assert_eq!([shelf.take(run), shelf.take(run)], [Some("left"), Some("new")]);
    }

    #[test]
    fn others_are_sent_for_if_nobody_comes() {
        let (mut shelf, run) = shelf();
        shelf.leave("left", run);
        let sent = [1, 2, 3, 4].map(|_| shelf.send_for_late());
        assert_eq!(sent, [0, 1, 1, 0], "once it was there the time before, one for each thread");
        assert_eq!([shelf.take(run), shelf.take(run)], [Some("left"), None]);
        shelf.leave("another", run);
        assert_eq!(shelf.send_for_late(), 0, "it was not there the time before");
    }

    #[test]
    fn all_are_taken_although_all_who_left_them_are_held_up() {
        let (mut shelf, run) = shelf();
        for name in ["a", "b", "c", "d", "e"] {
            shelf.leave(name, run);
        }
        assert_eq!(shelf.send_for_late(), 0);
        for name in ["a", "b", "c", "d", "e"] {
            assert_eq!(shelf.send_for_late(), 1);
            assert_eq!(shelf.take(run), Some(name));
        }
        shelf.put("new");
        assert_eq!(shelf.send_for(), 1, "nobody counts on them any more");
    }

    #[test]
    fn the_run_looks_in_while_attempts_are_left_or_waited_for() {
        let (mut shelf, run) = shelf();
        assert!(!shelf.is_watched());
        assert_eq!(shelf.leave("left", run), Leaves::It { tells_the_run: true });
        assert_eq!(shelf.leave("left", run), Leaves::It { tells_the_run: false });
        assert!(shelf.is_watched() && shelf.is_watched());
        assert_eq!([shelf.take(run), shelf.take(run)], [Some("left"); 2]);
        assert!(!shelf.is_watched());
        shelf.leave("left", run);
        shelf.take(run);
        assert!(shelf.is_watched(), "it may happen again");
        assert!(!shelf.is_watched(), "it did not");
    }

    #[test]
    fn where_there_is_one_thread_nobody_is_held_up() {
        let mut shelf = Shelf::new();
        let run = shelf.open(1);
        assert_eq!(shelf.leave("left", run), Leaves::It { tells_the_run: false });
        assert!(!shelf.is_watched());
        assert_eq!([1, 2, 3].map(|_| shelf.send_for_late()), [0; 3]);
    }

    #[test]
    fn runners_of_an_earlier_run_have_nothing_to_do_with_it() {
        let (mut shelf, earlier) = shelf();
        shelf.leave("left", earlier);
        assert_eq!(shelf.close(), ["left"]);
        let run = shelf.open(2);
        assert_eq!(shelf.leave("kept", earlier), Leaves::Nothing("kept"));
        shelf.put("later");
        assert_eq!(shelf.take(earlier), None);
        assert_eq!(shelf.send_for(), 1, "nobody counts on them");
        assert_eq!(shelf.take(run), Some("later"));
    }
}
