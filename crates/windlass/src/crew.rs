//! How many run bodies, and when one more is worth it.
//!
//! A runner that ends a body takes the next one in the same visit. While bodies are brisk, one
//! runner gets through them faster than several who pass the state from core to core; so others
//! leave, and nobody is asked to help. A body may turn out not to be brisk at all, or never to
//! yield: as long as somebody rests, the run looks in every now and then, and sends for another
//! runner if nothing has ended since.

use std::time::Duration;

use windlass_core::Timestamp;

/// Those who run bodies, one at a time each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crew {
    /// How many are polling a body that has not waited yet, or are about to.
    pub(crate) polling: usize,
    /// How many can do so at once: as many as the runtime has threads.
    threads: usize,
    /// Whether there is a run.
    pub(crate) is_running: bool,
    /// The run they belong to; those of an earlier one start nothing any more.
    pub(crate) run: u64,
    /// When the run looks again by itself.
    pub(crate) wakes_at: Option<Timestamp>,
    /// How long bodies take of late, in nanoseconds; with the visit before each, unless in stints.
    pace_ns: u64,
    /// How much longer than brief the usual visit takes of late, in nanoseconds.
    excess_ns: u64,
    /// How many there were since the last one that was measured.
    visits: u32,
    /// Whether the last ones that ended were in a stint.
    in_stints: bool,
    /// How many have ended without having waited.
    ended: u64,
    /// The same when the run last looked in and found that some had.
    seen: u64,
    seen_at: Timestamp,
    /// Whether the run looks in.
    is_watched: bool,
    /// How many works a runner is given ahead in a test, as if bodies took next to no time.
    #[cfg(test)]
    pub(crate) ahead_in_test: Option<usize>,
    /// Whether nobody is sent for in a test just because its machine was held up.
    #[cfg(test)]
    pub(crate) is_patient_in_test: bool,
}

/// What a runner remembers of its own last end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastEnd(u64);

/// A body that takes less, with the visit before it, costs less than to have somebody else run it.
const BRISK_NS: u64 = 1_200;
/// The same in stints, where the visit does not count.
const BRISK_IN_STINT_NS: u64 = 700;
/// Bodies that take longer count as if they took so long, so that they are soon forgotten: two of
/// them are noticed, and one that was only held up is not.
const LONG_NS: u64 = 4 * BRISK_NS;
/// As much of a visit counts. What takes longer is that others are in the way, or that there is more to
/// be told and compared: to have somebody else come to the same state makes neither shorter.
const BRIEF_NS: u64 = 500;
/// One in so many visits is measured.
const MEASURED: u32 = 8;
/// By how much one that was measured changes what is usual: one that was held up changes no more than
/// any other.
const STRIDE_NS: u64 = 100;
/// How many ends the pace is about.
const MEMORY: u64 = 8;
/// For how long a runner may be gone with works that it was given ahead, about.
const STINT_NS: u64 = 8_000;
/// How many works a stint has at most.
const STINT: u64 = 16;
/// How often the run looks in while somebody rests.
pub(crate) const LOOK_IN: Duration = Duration::from_millis(1);

impl Crew {
    /// A run begins, on a runtime with so many threads; its number.
    pub(crate) fn begin(&mut self, threads: usize) -> u64 {
        self.threads = threads;
        self.run += 1;
        self.is_running = true;
        self.pace_ns = LONG_NS;
        self.excess_ns = 0;
        self.is_watched = false;
        self.run
    }

    /// The run is over; some of its runners may go on for a while.
    pub(crate) fn end(&mut self) {
        self.run += 1;
        self.is_running = false;
    }

    /// A body that has not waited has ended, and took so long.
    pub(crate) fn note_end(&mut self, took: Duration) {
        self.in_stints = false;
        self.note(took.saturating_sub(Duration::from_nanos(self.excess_ns)));
    }

    /// A visit took so long; it is part of what is told of the next end.
    pub(crate) fn note_visit(&mut self, took: Duration) {
        let is_longer = took > Duration::from_nanos(BRIEF_NS + self.excess_ns);
        self.excess_ns = match is_longer {
            true => self.excess_ns + STRIDE_NS,
            false => self.excess_ns.saturating_sub(STRIDE_NS),
        };
    }

    /// So has one in a stint.
    pub(crate) fn note_end_in_stint(&mut self, took: Duration) {
        self.in_stints = true;
        self.note(took);
    }

    fn note(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(LONG_NS).min(LONG_NS);
        self.pace_ns = (self.pace_ns * (MEMORY - 1) + took) / MEMORY;
        self.ended += 1;
    }

    /// Whether a runner that is about to end an attempt, and whose last end was that one, should rest
    /// then: another one gets along without it. `polling` is what it counts for itself.
    pub(crate) fn can_spare(&self, last: LastEnd, polling: usize) -> bool {
        let another_has_ended = last.0 > 0 && self.ended > last.0;
        another_has_ended && self.polling > polling && self.is_brisk()
    }

    /// What a runner has to remember that is not spared.
    pub(crate) fn last_end(&self) -> LastEnd {
        LastEnd(self.ended)
    }

    /// Whether another runner would have a thread, and be of use.
    pub(crate) fn wants_help(&self) -> bool {
        self.has_room() && !self.is_brisk()
    }

    /// How many works a runner may be given ahead. None unless it is alone: another one would begin what
    /// stands behind them, and might wait for them. None either where there is one thread: if a body
    /// blocks it, nobody is there to see what has ended before.
    pub(crate) fn ahead(&self) -> usize {
        if self.polling > 1 || !self.is_brisk() {
            return 0;
        }
        #[cfg(test)]
        if let Some(ahead) = self.ahead_in_test {
            return ahead;
        }
        (STINT_NS / self.pace_ns.max(1)).min(STINT) as usize - 1
    }

    /// Whether the next visit is one of those that are measured.
    pub(crate) fn measures_visit(&mut self) -> bool {
        self.visits = (self.visits + 1) % MEASURED;
        self.threads > 1 && self.visits == 0
    }

    /// Whether the run has to look in from now on, because somebody rests who could help.
    pub(crate) fn has_to_be_watched(&mut self) -> bool {
        self.has_room() && self.is_brisk() && !std::mem::replace(&mut self.is_watched, true)
    }

    /// How many works the run has to begin. At least one if there `is_news`, unless all get along so well:
    /// whoever has a thread may be busy with a body that never yields.
    pub(crate) fn missing(&mut self, now: Timestamp, is_news: bool) -> usize {
        self.is_watched = self.polling > 0 && self.is_brisk() && !self.is_stuck(now);
        let free = self.threads.saturating_sub(self.polling).max(usize::from(is_news));
        if self.is_watched { 0 } else { free }
    }

    /// Whether nothing has ended for as long as it takes until the run looks in.
    fn is_stuck(&mut self, now: Timestamp) -> bool {
        #[cfg(test)]
        if self.is_patient_in_test {
            return false;
        }
        if std::mem::replace(&mut self.seen, self.ended) != self.ended {
            self.seen_at = now;
        }
        now.since(self.seen_at) >= LOOK_IN
    }

    /// Whether the run has to look in.
    pub(crate) fn looks_in(&self) -> bool {
        self.is_watched
    }

    fn has_room(&self) -> bool {
        self.polling < self.threads
    }

    /// Where there is one thread, nobody is in anybody's way.
    fn is_brisk(&self) -> bool {
        #[cfg(test)]
        if self.ahead_in_test.is_some() {
            return true;
        }
        let brisk_ns = if self.in_stints { BRISK_IN_STINT_NS } else { BRISK_NS };
        self.threads > 1 && self.pace_ns < brisk_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Duration = Duration::from_nanos(300);
    const LARGE: Duration = Duration::from_micros(50);

    /// A crew whose bodies have all taken so long.
    fn crew(threads: usize, polling: usize, took: Duration) -> Crew {
        let mut crew = Crew::default();
        crew.begin(threads);
        crew.polling = polling;
        (0..100).for_each(|_| crew.note_end(took));
        crew
    }

    #[test]
    fn help_is_wanted_where_bodies_take_long_and_a_thread_is_free() {
        assert!(crew(2, 1, LARGE).wants_help());
        assert!(!crew(2, 2, LARGE).wants_help(), "no thread is free");
        assert!(!crew(2, 1, TINY).wants_help(), "help would cost more than it brings");
        let mut crew = crew(2, 1, TINY);
        crew.note_end(LARGE);
        assert!(!crew.wants_help(), "one may have been held up");
        crew.note_end(LARGE);
        assert!(crew.wants_help(), "two that take long are noticed");
    }

    #[test]
    fn of_two_with_tiny_bodies_one_is_spared() {
        let mut crew = crew(2, 2, TINY);
        let own = crew.last_end();
        assert!(!crew.can_spare(own, 1), "nobody else has ended anything since");
        crew.note_end(TINY);
        assert!(crew.can_spare(own, 1), "another one has");
        assert!(!crew.can_spare(LastEnd::default(), 1), "one that has just come stays");
        crew.polling = 1;
        assert!(!crew.can_spare(own, 1), "there is no other one any more");
    }

    #[test]
    fn while_somebody_rests_the_run_looks_in_and_sends_for_help_if_nothing_ends() {
        let mut crew = crew(2, 1, TINY);
        assert!(crew.has_to_be_watched());
        assert!(!crew.has_to_be_watched(), "once is enough");
        let [now, soon, later] = [5, 5, 6].map(Timestamp::from_millis);
        assert_eq!((crew.missing(now, false), crew.looks_in()), (0, true));
        crew.note_end(TINY);
        assert_eq!((crew.missing(now, false), crew.looks_in()), (0, true), "it gets along");
        assert_eq!((crew.missing(soon, false), crew.looks_in()), (0, true), "no time has passed");
        assert_eq!((crew.missing(later, false), crew.looks_in()), (1, false), "it is stuck");
    }

    #[test]
    fn works_are_given_ahead_while_bodies_are_brisk_and_their_runner_is_alone() {
        assert_eq!(crew(2, 1, TINY).ahead(), 15);
        assert_eq!(crew(2, 1, Duration::from_nanos(1_000)).ahead(), 7);
        assert_eq!(crew(2, 2, TINY).ahead(), 0, "the other one would begin what is behind them");
        assert_eq!(crew(2, 1, LARGE).ahead(), 0, "others could have them");
        assert_eq!(crew(1, 1, TINY).ahead(), 0, "nobody would see to it if one blocks");
    }

    #[test]
    fn in_stints_help_is_wanted_earlier() {
        let took = Duration::from_nanos(800);
        let mut crew = crew(2, 1, took);
        assert!(!crew.wants_help());
        crew.note_end_in_stint(took);
        assert!(crew.wants_help());
        crew.note_end(took);
        assert!(!crew.wants_help(), "there are none any more");
    }

    #[test]
    fn what_is_long_about_visits_makes_no_body_long() {
        let visit = Duration::from_nanos(1_500);
        let mut crew = crew(2, 1, visit + TINY);
        assert!(crew.wants_help());
        for _ in 0..20 {
            crew.note_visit(visit);
            crew.note_end(visit + TINY);
        }
        assert!(!crew.wants_help(), "whoever helped would have to make such visits, too");
        (0..20).for_each(|_| crew.note_end(visit + LARGE));
        assert!(crew.wants_help());
    }

    #[test]
    fn on_one_thread_nobody_rests() {
        let mut crew = crew(1, 1, TINY);
        assert!(!crew.has_to_be_watched() && !crew.wants_help());
        assert_eq!((crew.missing(Timestamp::ZERO, true), crew.looks_in()), (1, false));
    }
}
