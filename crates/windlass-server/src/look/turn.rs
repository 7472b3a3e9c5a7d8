//! Estimates when a step that is queued for a lock gets it, from how long the holder and the steps ahead of
//! it usually take.

use std::collections::BTreeMap;

use windlass_core::Name;
use windlass_store::Store;

use super::{Estimate, Expectations, HolderView, LookError, WaitReason};
use crate::coordinator::plan_of;

/// The number of holders and waiters to consider; nothing is estimated for a step further back in the
/// queue.
const LOOKED_AT: usize = 16;

/// Adds to the steps that hold or wait for names how long they usually take, from the earlier runs of
/// their own workflows.
pub(super) fn tell_habits<'a>(
    store: &mut Store,
    reasons: impl IntoIterator<Item = &'a mut WaitReason>,
) -> Result<(), LookError> {
    let mut habits = Habits::default();
    for reason in reasons {
        let WaitReason::Name { holders, ahead, .. } = reason else { continue };
        for holder in holders.iter_mut().chain(ahead).take(LOOKED_AT) {
            holder.usually_ms = habits.of(store, &holder.name)?;
        }
    }
    Ok(())
}

/// What is known of the runs and workflows that were looked up.
#[derive(Default)]
struct Habits {
    /// The workflow of each run; none of a run that is gone or cannot be read.
    runs: BTreeMap<String, Option<String>>,
    workflows: BTreeMap<String, Expectations>,
}

impl Habits {
    /// Returns how long `RUN/STEP` usually takes; none if the holder is no step.
    fn of(&mut self, store: &mut Store, holder: &str) -> Result<Option<i64>, LookError> {
        let Some((run, step)) = holder.split_once('/') else { return Ok(None) };
        if !self.runs.contains_key(run) {
            let record = store.run(run).ok();
            let plan = record.and_then(|record| plan_of(&record).ok());
            self.runs.insert(run.to_owned(), plan.map(|plan| plan.name));
        }
        let Some(workflow) = &self.runs[run] else { return Ok(None) };
        if !self.workflows.contains_key(workflow) {
            let known = Expectations::of(store, workflow, run)?;
            self.workflows.insert(workflow.clone(), known);
        }
        Ok(self.workflows[workflow].step(step).map(|expected| expected.median_ms))
    }
}

impl Estimate {
    /// Estimates when the last of the locks is free that a step is queued for. Returns none if it is queued
    /// for none, if nothing is known of a holder or waiter ahead, or if a holder already takes longer than
    /// usual.
    pub(super) fn of_turn(reasons: &[WaitReason], now_ms: i64) -> Option<Self> {
        let locks = reasons.iter().filter_map(|reason| match reason {
            WaitReason::Name { name: Name::Lock(_), holders, ahead, .. } => Some((holders, ahead)),
            _ => None,
        });
        let turns = locks.map(|(holders, ahead)| turn(holders, ahead, now_ms));
        turns.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|estimate| estimate.in_ms)
    }
}

fn turn(holders: &[HolderView], ahead: &[HolderView], now_ms: i64) -> Option<Estimate> {
    let left = |holder: &HolderView| {
        let left = holder.usually_ms? - now_ms.saturating_sub(holder.since_ms).max(0);
        (left > 0).then(|| (holder.name.clone(), left))
    };
    let whole = |waiter: &HolderView| Some((waiter.name.clone(), waiter.usually_ms?));
    let path = holders.iter().map(left).chain(ahead.iter().map(whole));
    let path = path.collect::<Option<Vec<_>>>()?;
    let in_ms = path.iter().fold(0, |sum: i64, (_, ms)| sum.saturating_add(*ms));
    (!path.is_empty()).then_some(Estimate { in_ms, path, attempts: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, since_ms: i64, usually_ms: Option<i64>) -> HolderView {
        let (name, command, host, gone) = (name.to_owned(), None, None, false);
        HolderView { name, since_ms, pid: None, command, host, weight: 1, gone, usually_ms }
    }

    fn check(holders: &[HolderView], ahead: &[HolderView], expected: Option<i64>) {
        let reason = WaitReason::Name {
            name: Name::Lock("deploy".to_owned()),
            holders: holders.to_vec(),
            ahead: ahead.to_vec(),
            since_ms: 0,
        };
        let estimate = Estimate::of_turn(&[reason], 100);
        assert_eq!(estimate.map(|estimate| estimate.in_ms), expected);
    }

    #[test]
    fn a_turn_comes_when_those_before_it_have_taken_as_long_as_usual() {
        let first = holder("r1/deploy", 40, Some(90));
        check(std::slice::from_ref(&first), &[], Some(30));
        check(&[first], &[holder("r2/deploy", 0, Some(7))], Some(37));
    }

    #[test]
    fn nothing_is_estimated_for_unknown_holders_and_for_holders_later_than_usual() {
        check(&[holder("process 17", 40, None)], &[], None);
        check(&[holder("r1/deploy", 40, Some(50))], &[], None);
        check(&[holder("r1/deploy", 90, Some(50))], &[holder("x", 0, None)], None);
        assert_eq!(Estimate::of_turn(&[], 100), None);
        assert_eq!(Estimate::of_turn(&[WaitReason::Starting], 100), None);
    }
}
