//! What to expect of a run, from earlier runs of the same workflow.

use std::collections::BTreeMap;

use windlass_store::{AttemptEnd, Store, StoreError, Transaction};

use super::{LookError, StepState, StepView};

/// The number of earlier runs that are read.
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
    /// Reads the latest runs of `workflow`, except `but`.
    pub fn of(store: &mut Store, workflow: &str, but: &str) -> Result<Self, LookError> {
        Ok(store.read(|transaction| Self::read(transaction, workflow, but))?)
    }

    pub(super) fn read(
        transaction: &Transaction<'_>,
        workflow: &str,
        but: &str,
    ) -> Result<Self, StoreError> {
        let mut took: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let runs = transaction.runs().latest(Some(workflow), LOOKED_AT + 1)?;
        for run in runs.iter().filter(|run| run.id != but).take(LOOKED_AT) {
            for attempt in transaction.steps().attempts(&run.id)? {
                if attempt.end == AttemptEnd::Success && attempt.attempt > 0 {
                    let own = attempt.ended_ms.saturating_sub(attempt.started_ms).max(0);
                    took.entry(attempt.step).or_default().push(own);
                }
            }
        }
        let steps = took.into_iter().map(|(step, took)| (step, Expected::of(took))).collect();
        Ok(Self { steps })
    }

    /// Returns what to expect of a step, if it has succeeded before.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<Expected> {
        self.steps.get(name).copied()
    }
}

impl Expected {
    /// Returns the median; of two middle values the larger, so that an estimate is rather too late.
    fn of(mut took: Vec<i64>) -> Self {
        took.sort_unstable();
        Self { median_ms: took[took.len() / 2], attempts: took.len() }
    }
}

/// When a step may start, according to earlier runs.
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

/// When the steps of a run may end, according to earlier runs.
pub(super) struct Forecast {
    steps: Vec<Outlook>,
}

/// What to expect of one step.
#[derive(Clone, Copy)]
enum Outlook {
    Ended,
    /// It has never succeeded before, or waits for a step that never has.
    Unknown,
    Done {
        /// In how long.
        in_ms: i64,
        /// The step that it waits for last.
        after: Option<usize>,
        /// The fewest earlier attempts that one of the times before it is from.
        attempts: usize,
    },
}

/// When everything that a step waits for may be done, and the last of that; none if it waits for no
/// step.
type Start = Option<(i64, usize)>;

impl Forecast {
    pub(super) fn of(steps: &[StepView], now_ms: i64, expectations: &Expectations) -> Self {
        let mut forecast = Self { steps: Vec::with_capacity(steps.len()) };
        // Steps come after those they wait for.
        for step in steps {
            let outlook = match step.state.is_end() {
                true => Some(Outlook::Ended),
                false => forecast.outlook(step, now_ms, expectations),
            };
            forecast.steps.push(outlook.unwrap_or(Outlook::Unknown));
        }
        forecast
    }

    fn outlook(
        &self,
        step: &StepView,
        now_ms: i64,
        expectations: &Expectations,
    ) -> Option<Outlook> {
        let (last, before) = self.start(step)?;
        let own = Remaining::of(step, now_ms, expectations)?;
        let start = last.map_or(0, |(at, _)| at).max(own.not_before_ms);
        let (in_ms, after) = (start.saturating_add(own.takes_ms), last.map(|(_, step)| step));
        Some(Outlook::Done { in_ms, after, attempts: before.min(own.attempts) })
    }

    /// Returns when a step may start, and the number of earlier attempts from which that is known; none if it
    /// cannot be known.
    fn start(&self, step: &StepView) -> Option<(Start, usize)> {
        let (mut last, mut fewest) = (None, usize::MAX);
        for edge in &step.after {
            match self.steps[edge.step] {
                Outlook::Ended => {}
                Outlook::Unknown => return None,
                Outlook::Done { in_ms, attempts, .. } => {
                    last = last.max(Some((in_ms, edge.step)));
                    fewest = fewest.min(attempts);
                }
            }
        }
        Some((last, fewest))
    }

    /// Returns when the step at `place` may start: once everything before it has ended. Returns none if it
    /// waits for no step, or if a step before it has never succeeded.
    pub(super) fn estimate(
        &self,
        steps: &[StepView],
        now_ms: i64,
        place: usize,
    ) -> Option<Estimate> {
        let (last, attempts) = self.start(&steps[place])?;
        let (in_ms, last) = last?;
        let in_ms = in_ms.max(not_before(&steps[place], now_ms));
        let done = |step: usize| match self.steps[step] {
            Outlook::Done { in_ms, after, .. } => (in_ms, after),
            _ => (0, None),
        };
        let path = std::iter::successors(Some(last), |step| done(*step).1).map(|step| {
            let (in_ms, after) = done(step);
            (steps[step].name.clone(), in_ms - after.map_or(0, |before| done(before).0))
        });
        let mut path: Vec<_> = path.collect();
        path.reverse();
        Some(Estimate { in_ms, path, attempts })
    }
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
    use windlass_core::EdgeKind;
    use windlass_workflow::StepDependency;

    use super::*;

    fn step(name: &str, state: StepState, after: &[usize]) -> StepView {
        let edge = |step: &usize| StepDependency {
            step: *step,
            same_worker: false,
            kind: EdgeKind::Success,
        };
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
        let forecast = Forecast::of(steps, 0, &medians(known));
        let estimate = forecast.estimate(steps, 0, steps.len() - 1);
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
    fn a_step_that_waits_for_no_other_has_no_estimate() {
        check(&[step("a", StepState::Waiting, &[])], &[("a", 10)], None);
    }

    #[test]
    fn the_larger_of_two_in_the_middle_counts() {
        assert_eq!(Expected::of(vec![9, 1, 5, 3]).median_ms, 5);
        assert_eq!(Expected::of(vec![7]), Expected { median_ms: 7, attempts: 1 });
    }
}
