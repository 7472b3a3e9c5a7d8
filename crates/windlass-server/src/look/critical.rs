//! The critical path: the chain of steps that took the longest together.

use super::RunView;

/// The chain of steps, each waiting for the one before it, that took the longest together: their own
/// time, and that in which they waited for their guards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CriticalPath {
    /// The places of its steps in [`RunView::steps`].
    pub steps: Vec<usize>,
    /// How long they took together, without the time in between.
    pub total_ms: i64,
    /// For how long of that they waited for their guards.
    pub guarded_ms: i64,
}

impl CriticalPath {
    /// Computes the critical path of what has run so far.
    #[must_use]
    pub fn of(view: &RunView) -> Self {
        let took = |place: usize| {
            let step = &view.steps[place];
            let (own, guarded) = (step.duration_ms(view.now_ms), step.guarded_ms);
            own.or(guarded)?;
            Some(own.unwrap_or_default().saturating_add(guarded.unwrap_or_default()))
        };
        let before =
            view.steps.iter().map(|step| step.after.iter().map(|edge| edge.step).collect());
        let (steps, total_ms) = longest(&before.collect::<Vec<_>>(), took);
        let guarded = steps.iter().filter_map(|place| view.steps[*place].guarded_ms);
        let guarded_ms = guarded.fold(0, i64::saturating_add);
        Self { steps, total_ms, guarded_ms }
    }
}

/// Returns the heaviest chain; `before` has the places of the steps before each one, all smaller than its
/// own. A step without a weight has not begun, and is on no chain.
pub(super) fn longest(
    before: &[Vec<usize>],
    weight: impl Fn(usize) -> Option<i64>,
) -> (Vec<usize>, i64) {
    let mut best: Vec<Option<(i64, Option<usize>)>> = Vec::with_capacity(before.len());
    for (place, before) in before.iter().enumerate() {
        let reach = |from: &usize| best[*from].map(|(sum, _)| (sum, Some(*from)));
        let heaviest = before.iter().filter_map(reach).max_by_key(|(sum, _)| *sum);
        let own = weight(place);
        best.push(own.map(|own| {
            let (sum, from) = heaviest.unwrap_or((0, None));
            (sum.saturating_add(own), from)
        }));
    }
    let last = (0..best.len()).filter(|place| best[*place].is_some());
    // The first of several that are equally long.
    let last = last.rev().max_by_key(|place| best[*place].map(|(sum, _)| sum));
    let total = last.and_then(|last| best[last]).map_or(0, |(sum, _)| sum);
    let mut chain: Vec<_> =
        std::iter::successors(last, |place| best[*place].and_then(|(_, from)| from)).collect();
    chain.reverse();
    (chain, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[&[usize]], weights: &[Option<i64>], expected: (&[usize], i64)) {
        let before: Vec<_> = before.iter().map(|before| before.to_vec()).collect();
        let (chain, total) = longest(&before, |place| weights[place]);
        assert_eq!((chain.as_slice(), total), expected);
    }

    #[test]
    fn the_longest_chain_is_found() {
        check(&[], &[], (&[], 0));
        check(&[&[]], &[None], (&[], 0));
        check(&[&[], &[0], &[0], &[1, 2]], &[Some(1), Some(5), Some(9), Some(1)], (&[0, 2, 3], 11));
    }

    #[test]
    fn a_step_that_has_not_begun_is_on_no_chain() {
        check(&[&[], &[0], &[1]], &[Some(3), None, None], (&[0], 3));
        check(&[&[], &[0]], &[Some(0), Some(0)], (&[0], 0));
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_is_walked() {
        let before: Vec<Vec<usize>> =
            (0..100_000_usize).map(|place| place.checked_sub(1).into_iter().collect()).collect();
        assert_eq!(longest(&before, |_| Some(1)).1, 100_000);
    }
}
