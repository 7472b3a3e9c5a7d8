//! The remaining time of a run, from the expected times of its steps.
//!
//! It is the time of the longest chain of steps, or of all remaining steps divided by the slots,
//! whichever is longer. Steps without an expected time count as zero, so the result is then a lower
//! bound.

use std::time::Duration;

use super::board::Board;

/// Returns how long a step is expected to take, by name; none if it has never succeeded.
pub(crate) type Expected<'a> = &'a dyn Fn(&str) -> Option<Duration>;

/// The remaining time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing is known about the remaining steps.
    Unknown,
    /// At least this time; nothing is known about some steps.
    AtLeast(Duration),
    /// About this time.
    About(Duration),
}

/// Returns the remaining time at `now_ms`.
pub(crate) fn left(board: &Board, expected: Expected<'_>, now_ms: u64) -> Left {
    let steps = &board.outline.steps;
    let (mut unknown, mut known, mut total) = (0, 0, Duration::ZERO);
    // When each step ends. Each step comes after its dependencies.
    let mut until = vec![Duration::ZERO; steps.len()];
    for (place, step) in steps.iter().enumerate().filter(|(place, _)| !board.has_ended(*place)) {
        let whole = expected(&step.name);
        *if whole.is_some() { &mut known } else { &mut unknown } += 1;
        let since = board.attempt(place).map(|attempt| now_ms.saturating_sub(attempt.since_ms));
        let gone = Duration::from_millis(since.unwrap_or_default());
        let rest = whole.unwrap_or_default().saturating_sub(gone);
        let after = step.after.iter().map(|&before| until[before]).max();
        until[place] = after.unwrap_or_default().saturating_add(rest);
        total = total.saturating_add(rest);
    }
    let longest = until.into_iter().max().unwrap_or_default();
    let shared = total / u32::try_from(board.outline.slots.max(1)).unwrap_or(u32::MAX);
    match longest.max(shared) {
        _ if known == 0 => Left::Unknown,
        left if unknown > 0 => Left::AtLeast(left),
        left => Left::About(left),
    }
}

#[cfg(test)]
mod tests {
    use windlass_server::WorkState::{Running, Success};

    use super::super::board::tests::{board, change};
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn expected<'a>(steps: &'a [(&'a str, u64)]) -> impl Fn(&str) -> Option<Duration> + 'a {
        move |name| steps.iter().find(|(step, _)| *step == name).map(|(_, took)| seconds(*took))
    }

    /// `fetch` 10 s, then `build` 60 s and `test` 30 s, then `deploy` 5 s.
    fn all() -> impl Fn(&str) -> Option<Duration> {
        expected(&[("fetch", 10), ("build", 60), ("test", 30), ("deploy", 5)])
    }

    #[test]
    fn the_longest_chain_decides() {
        let mut board = board();
        assert_eq!(left(&board, &all(), 0), Left::About(seconds(75)));
        board.apply(change("fetch", Running, 1, 0));
        assert_eq!(left(&board, &all(), 4_000), Left::About(seconds(71)));
        board.apply(change("fetch", Success, 1, 8_000));
        board.apply(change("build", Success, 1, 9_000));
        assert_eq!(left(&board, &all(), 9_000), Left::About(seconds(35)), "test, then deploy");
    }

    #[test]
    fn a_step_that_takes_longer_than_expected_may_end_at_any_moment() {
        let mut board = board();
        board.apply(change("fetch", Running, 1, 0));
        assert_eq!(left(&board, &all(), 1_000_000), Left::About(seconds(65)));
    }

    #[test]
    fn few_slots_take_longer_than_the_longest_chain() {
        let mut board = board();
        board.outline.slots = 1;
        assert_eq!(left(&board, &all(), 0), Left::About(seconds(105)));
    }

    #[test]
    fn what_is_not_known_makes_it_the_least() {
        let board = board();
        assert_eq!(left(&board, &expected(&[]), 0), Left::Unknown);
        assert_eq!(left(&board, &expected(&[("build", 60)]), 0), Left::AtLeast(seconds(60)));
    }

    #[test]
    fn when_all_has_ended_nothing_is_left_to_know() {
        let mut board = board();
        for step in ["fetch", "build", "test", "deploy"] {
            board.apply(change(step, Success, 1, 0));
        }
        assert_eq!(left(&board, &all(), 0), Left::Unknown);
    }
}
