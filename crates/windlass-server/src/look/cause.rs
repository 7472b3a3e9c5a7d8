//! Why a step will not run any more: what blocked it, or made it unnecessary.

use std::collections::{BTreeSet, VecDeque};

use windlass_core::EdgeKind;

use super::{Cause, Skipped, StepState, StepView};

/// Returns the steps that failed or were cancelled and so block the one at `place`, each by the shortest
/// path.
pub(super) fn causes(steps: &[StepView], place: usize) -> Vec<Cause> {
    if steps[place].state != StepState::Blocked {
        return Vec::new();
    }
    let (mut seen, mut causes) = (BTreeSet::from([place]), Vec::new());
    let mut open = VecDeque::from([(place, Vec::new())]);
    while let Some((step, through)) = open.pop_front() {
        for edge in &steps[step].after {
            let state = steps[edge.step].state;
            if !blocks(edge.kind, state) || !seen.insert(edge.step) {
                continue;
            }
            if state == StepState::Blocked {
                let mut through: Vec<usize> = through.clone();
                through.push(edge.step);
                open.push_back((edge.step, through));
            } else {
                causes.push(Cause { place: edge.step, through: through.clone() });
            }
        }
    }
    causes
}

/// Returns why a step was skipped, if it was.
pub(super) fn skipped(steps: &[StepView], place: usize) -> Option<Skipped> {
    if steps[place].state != StepState::Skipped {
        return None;
    }
    let fine = |edge: &&windlass_workflow::StepDependency| {
        let state = steps[edge.step].state;
        edge.kind == EdgeKind::Failed && matches!(state, StepState::Success | StepState::Skipped)
    };
    let unneeded = steps[place].after.iter().find(fine);
    Some(unneeded.map_or(Skipped::When, |edge| Skipped::NoFailure { place: edge.step }))
}

/// Returns whether a step that ended so can no longer end as a step after it needs.
fn blocks(kind: EdgeKind, state: StepState) -> bool {
    use StepState::{Blocked, Cancelled, Failed};
    match kind {
        EdgeKind::Success => matches!(state, Failed | Blocked | Cancelled),
        EdgeKind::Done => false,
        EdgeKind::Failed => matches!(state, Blocked | Cancelled),
    }
}
