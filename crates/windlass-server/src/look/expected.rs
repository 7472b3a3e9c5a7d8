//! What to expect of a run, from earlier runs of the same workflow.

use std::collections::BTreeMap;

use windlass_store::{AttemptEnd, Store, StoreError, Transaction};

use super::{LookError, RunView, StepState, StepView};

/// How many earlier runs are looked at.
const LOOKED_AT: usize = 20;

/// How long the steps of a workflow took in its latest runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    steps: BTreeMap<String, Expected>,
}

/// How long a step usually takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expected {
    /// The median of its successful attempts.
    pub median_ms: i64,
    /// How many attempts that is from.
    pub attempts: usize,
}

impl Expectations {
    /// From the latest runs of `workflow`, except the one called `but`.
    pub fn of(store: &mut Store, workflow: &str, but: &str) -> Result<Self, LookError> {
        Ok(store.look(|transaction| Self::read(transaction, workflow, but))?)
    }

    pub(super) fn read(
        transaction: &Transaction<'_>,
        workflow: &str,
        but: &str,
    ) -> Result<Self, StoreError> {
        let mut took: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let runs = transaction.latest_runs(Some(workflow), LOOKED_AT + 1)?;
        for run in runs.iter().filter(|run| run.id != but).take(LOOKED_AT) {
            for attempt in transaction.attempts(&run.id)? {
                if attempt.end == AttemptEnd::Success && attempt.attempt > 0 {
                    let own = attempt.ended_ms.saturating_sub(attempt.started_ms).max(0);
                    took.entry(attempt.step).or_default().push(own);
                }
            }
        }
        let steps = took.into_iter().map(|(step, took)| (step, Expected::of(took))).collect();
        Ok(Self { steps })
    }

    /// What to expect of a step, if it has succeeded before.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<Expected> {
        self.steps.get(name).copied()
    }
}

impl Expected {
    /// The middle one; of two in the middle the larger one, so that a guess is rather too late.
    fn of(mut took: Vec<i64>) -> Self {
        took.sort_unstable();
        Self { median_ms: took[took.len() / 2], attempts: took.len() }
    }
}

/// When a step may start, as far as earlier runs tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// In how long, if everything takes as long as usual.
    pub in_ms: i64,
    /// The chain of steps that it has to wait for, with how long each still takes.
    pub path: Vec<(String, i64)>,
    /// The fewest earlier attempts that one of these times is from.
    pub attempts: usize,
}

impl Estimate {
    /// When the step at `place` may start: once everything before it has ended. None if something
    /// before it has never succeeded, so that nothing tells.
    #[must_use]
    pub fn of(view: &RunView, expectations: &Expectations, place: usize) -> Option<Self> {
        Self::from_steps(&view.steps, view.now_ms, expectations, place)
    }

    fn from_steps(
        steps: &[StepView],
        now_ms: i64,
        expectations: &Expectations,
        place: usize,
    ) -> Option<Self> {
        let needed = upstream(steps, place);
        // When each may start and be done, and the step that it waits for last.
        let mut done: BTreeMap<usize, (i64, Option<usize>)> = BTreeMap::new();
        let mut attempts = usize::MAX;
        for &step in &needed {
            let last = latest(steps, step, &done);
            let own = Remaining::of(&steps[step], now_ms, expectations)?;
            attempts = attempts.min(own.attempts);
            let start = last.map_or(0, |(at, _)| at).max(own.not_before_ms);
            done.insert(step, (start.saturating_add(own.takes_ms), last.map(|(_, from)| from)));
        }
        let last = latest(steps, place, &done);
        let (in_ms, from) = last.map_or((0, None), |(at, from)| (at, Some(from)));
        let in_ms = in_ms.max(not_before(&steps[place], now_ms));
        let mut path: Vec<_> = std::iter::successors(from, |step| done[step].1)
            .map(|step| {
                let started = done[&step].1.map_or(0, |before| done[&before].0);
                (steps[step].name.clone(), done[&step].0 - started)
            })
            .collect();
        path.reverse();
        (!needed.is_empty()).then_some(Self { in_ms, path, attempts })
    }
}

/// The last step that `place` waits for, and when it is done.
fn latest(
    steps: &[StepView],
    place: usize,
    done: &BTreeMap<usize, (i64, Option<usize>)>,
) -> Option<(i64, usize)> {
    let before = steps[place].after.iter().map(|edge| edge.step);
    before.filter_map(|step| done.get(&step).map(|(at, _)| (*at, step))).max()
}

/// The steps that have not ended and stand before `place`, each behind those it waits for.
fn upstream(steps: &[StepView], place: usize) -> Vec<usize> {
    let mut needed = vec![false; steps.len()];
    // Steps stand behind those they wait for, so one pass from the back finds them all.
    for step in (0..=place).rev().filter(|step| *step < steps.len()) {
        if step == place || needed[step] {
            for edge in &steps[step].after {
                needed[edge.step] |= !steps[edge.step].state.is_end();
            }
        }
    }
    (0..place).filter(|step| needed[*step]).collect()
}

/// What is still to come of a step.
struct Remaining {
    not_before_ms: i64,
    takes_ms: i64,
    attempts: usize,
}

impl Remaining {
    fn of(step: &StepView, now_ms: i64, expectations: &Expectations) -> Option<Self> {
        let Expected { median_ms, attempts } = expectations.step(&step.name)?;
        let under_way = step.attempts.last().filter(|_| step.state == StepState::Running);
        let spent = under_way.map_or(0, |attempt| attempt.duration_ms(now_ms));
        let takes_ms = median_ms.saturating_sub(spent).max(0);
        Some(Self { not_before_ms: not_before(step, now_ms), takes_ms, attempts })
    }
}

fn not_before(step: &StepView, now_ms: i64) -> i64 {
    match step.state {
        StepState::Retrying { at_ms } => at_ms.saturating_sub(now_ms).max(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use windlass_workflow::{Edge, EdgeCondition};

    use super::*;

    fn step(name: &str, state: StepState, after: &[usize]) -> StepView {
        let edge = |step: &usize| Edge { step: *step, condition: EdgeCondition::Success };
        StepView {
            name: name.to_owned(),
            declared: name.to_owned(),
            state,
            attempts: Vec::new(),
            most_attempts: 1,
            after: after.iter().map(edge).collect(),
            guarded_ms: None,
            unbegun: None,
        }
    }

    fn medians(known: &[(&str, i64)]) -> Expectations {
        let expected = |ms: i64| Expected { median_ms: ms, attempts: 3 };
        let steps = known.iter().map(|(step, ms)| ((*step).to_owned(), expected(*ms))).collect();
        Expectations { steps }
    }

    fn check(steps: &[StepView], known: &[(&str, i64)], expected: Option<(i64, &str)>) {
        let estimate = Estimate::from_steps(steps, 0, &medians(known), steps.len() - 1);
        let path = |estimate: &Estimate| {
            let path = estimate.path.iter().map(|(step, ms)| format!("{step} {ms}"));
            path.collect::<Vec<_>>().join(", ")
        };
        let told = estimate.map(|estimate| (estimate.in_ms, path(&estimate)));
        assert_eq!(told, expected.map(|(in_ms, path)| (in_ms, path.to_owned())));
    }

    #[test]
    fn the_longest_chain_of_what_has_not_ended_decides() {
        use StepState::{Success, Waiting};
        let steps = [
            step("done", Success, &[]),
            step("a", Waiting, &[0]),
            step("b", Waiting, &[0]),
            step("c", Waiting, &[1, 2]),
            step("aside", Waiting, &[]),
            step("last", Waiting, &[3]),
        ];
        let known = [("a", 10), ("b", 30), ("c", 5), ("done", 1000)];
        check(&steps, &known, Some((35, "b 30, c 5")));
        check(&steps, &known[..2], None);
    }

    #[test]
    fn a_retry_comes_no_earlier_than_it_is_due() {
        let steps = [
            step("a", StepState::Retrying { at_ms: 100 }, &[]),
            step("last", StepState::Waiting, &[0]),
        ];
        check(&steps, &[("a", 10)], Some((110, "a 110")));
    }

    #[test]
    fn nothing_is_told_of_a_step_that_waits_for_nobody() {
        check(&[step("a", StepState::Waiting, &[])], &[("a", 10)], None);
    }

    #[test]
    fn the_larger_of_two_in_the_middle_counts() {
        assert_eq!(Expected::of(vec![9, 1, 5, 3]).median_ms, 5);
        assert_eq!(Expected::of(vec![7]), Expected { median_ms: 7, attempts: 1 });
    }
}
