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
    /// The run whose runners take from it, if one is on: those of an earlier one may be about to.
    run: Option<u64>,
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

impl<T> Shelf<T> {
    pub(crate) fn new() -> Self {
        Self {
            run: None,
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

    /// The run of this number begins, on a runtime with so many threads.
    pub(crate) fn open(&mut self, run: u64, threads: usize) {
        self.run = Some(run);
        self.most_relief = if threads > 1 { threads } else { 0 };
    }

    /// The run is over: what is left, which nobody comes for any more.
    pub(crate) fn close(&mut self) -> VecDeque<T> {
        std::mem::replace(self, Self::new()).attempts
    }

    /// For a runner that is yet to be sent for.
    pub(crate) fn put(&mut self, attempt: T) {
        self.attempts.push_back(attempt);
    }

    /// By a runner that comes back; whether the run has to hear that it looks in from now on. The attempt if
    /// its run is over.
    pub(crate) fn leave(&mut self, attempt: T, run: u64) -> Result<bool, T> {
        if self.run != Some(run) {
            return Err(attempt);
        }
        self.put(attempt);
        self.coming += 1;
        self.has_been_left = true;
        Ok(self.most_relief > 0 && !std::mem::replace(&mut self.is_watched, true))
    }

    /// By a runner that was on its way; none if another one was here earlier.
    pub(crate) fn take(&mut self, run: u64) -> Option<T> {
        if self.run != Some(run) {
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

    const RUN: u64 = 7;

    fn shelf(threads: usize) -> Shelf<&'static str> {
        let mut shelf = Shelf::new();
        shelf.open(RUN, threads);
        shelf
    }

    #[test]
    fn one_runner_is_sent_for_each_attempt() {
        let mut shelf = shelf(2);
        shelf.put("a");
        shelf.put("b");
        assert_eq!(shelf.send_for(), 2);
        assert_eq!(shelf.send_for(), 0, "they are on their way");
        assert_eq!([shelf.take(RUN), shelf.take(RUN)], [Some("a"), Some("b")]);
        shelf.put("c");
        assert_eq!(shelf.send_for(), 1);
    }

    #[test]
    fn whoever_leaves_an_attempt_comes_back_for_one() {
        let mut shelf = shelf(2);
        shelf.leave("left", RUN).expect("the run is on");
        assert_eq!(shelf.send_for(), 0);
        shelf.put("new");
        assert_eq!(shelf.send_for(), 1);
        assert_eq!([shelf.take(RUN), shelf.take(RUN)], [Some("left"), Some("new")]);
    }

    #[test]
    fn others_are_sent_for_if_nobody_comes() {
        let mut shelf = shelf(2);
        shelf.leave("left", RUN).expect("the run is on");
        let sent = [1, 2, 3, 4].map(|_| shelf.send_for_late());
        assert_eq!(sent, [0, 1, 1, 0], "once it was there the time before, one for each thread");
        assert_eq!([shelf.take(RUN), shelf.take(RUN)], [Some("left"), None]);
        shelf.leave("another", RUN).expect("the run is on");
        assert_eq!(shelf.send_for_late(), 0, "it was not there the time before");
    }

    #[test]
    fn all_are_taken_although_all_who_left_them_are_held_up() {
        let mut shelf = shelf(2);
        for name in ["a", "b", "c", "d", "e"] {
            shelf.leave(name, RUN).expect("the run is on");
        }
        assert_eq!(shelf.send_for_late(), 0);
        for name in ["a", "b", "c", "d", "e"] {
            assert_eq!(shelf.send_for_late(), 1);
            assert_eq!(shelf.take(RUN), Some(name));
        }
        shelf.put("new");
        assert_eq!(shelf.send_for(), 1, "nobody counts on them any more");
    }

    #[test]
    fn the_run_looks_in_while_attempts_are_left_or_waited_for() {
        let mut shelf = shelf(2);
        assert!(!shelf.is_watched());
        assert_eq!(shelf.leave("left", RUN), Ok(true));
        assert_eq!(shelf.leave("left", RUN), Ok(false));
        assert!(shelf.is_watched() && shelf.is_watched());
        assert_eq!([shelf.take(RUN), shelf.take(RUN)], [Some("left"); 2]);
        assert!(!shelf.is_watched());
        shelf.leave("left", RUN).expect("the run is on");
        shelf.take(RUN);
        assert!(shelf.is_watched(), "it may happen again");
        assert!(!shelf.is_watched(), "it did not");
    }

    #[test]
    fn where_there_is_one_thread_nobody_is_held_up() {
        let mut shelf = shelf(1);
        assert_eq!(shelf.leave("left", RUN), Ok(false));
        assert!(!shelf.is_watched());
        assert_eq!([1, 2, 3].map(|_| shelf.send_for_late()), [0; 3]);
    }

    #[test]
    fn runners_of_an_earlier_run_have_nothing_to_do_with_it() {
        let mut shelf = shelf(2);
        assert_eq!(shelf.leave("left", RUN), Ok(true));
        assert_eq!(shelf.close(), ["left"]);
        assert_eq!(shelf.leave("kept", RUN), Err("kept"), "there is no run");
        shelf.open(RUN + 1, 2);
        assert_eq!(shelf.leave("kept", RUN), Err("kept"), "there is another one");
        shelf.put("later");
        assert_eq!(shelf.take(RUN), None);
        assert_eq!(shelf.send_for(), 1, "nobody counts on them");
        assert_eq!(shelf.take(RUN + 1), Some("later"));
    }
}
