//! Changes steps of a queue that have not begun.
//!
//! A change is stored by a transaction that sees that the step has not begun. The scheduler takes all changes
//! before it starts anything, so the step begins as it was changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_core::{Amount, WorkId};
use windlass_store::{DecodeError, Store, StoreError, StoredChange, StoredQueue, Transaction};

use super::{Addition, QueueError, expect_known, expect_unbegun};
use crate::coordinator::RunError;
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::inherited::expect_no_password;
use crate::look::RunView;
use crate::schedule::StepChange;
use crate::users;

/// What a step is to be instead; what is none or kept stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The words of the command.
    pub command: Option<Vec<String>>,
    /// Further variables that it is given.
    pub env: BTreeMap<String, String>,
    /// A name for it besides its number.
    pub name: Setting<String>,
    /// The numbers of the steps that have to succeed before. All were added before it.
    pub after: Setting<Vec<u64>>,
    /// The locks that it holds.
    pub locks: Setting<Vec<String>>,
    /// What it takes of the limits of the store, by name, in steps of an [`Amount`].
    pub uses: Setting<BTreeMap<String, u64>>,
    /// When it may start, in milliseconds since 1970.
    pub not_before_ms: Setting<u64>,
    /// How urgent it is among the steps of its queue.
    pub priority: Option<i64>,
    /// How often it is tried again.
    pub retries: Option<u32>,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: Setting<u64>,
}

/// What becomes of something that a step may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// It stays.
    #[default]
    Keep,
    /// The step has none any more.
    Clear,
    /// The step has this.
    Set(T),
}

impl<T> Setting<T> {
    fn apply<U: Default + From<T>>(self, to: &mut U) {
        match self {
            Self::Keep => {}
            Self::Clear => *to = U::default(),
            Self::Set(value) => *to = value.into(),
        }
    }
}

/// Where a step of a queue is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In front of all others that have not begun.
    First,
    /// Behind all others.
    Last,
    /// In front of the step of this number.
    Before(u64),
}

/// A change in its stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Edit { work: u64, step: Addition },
    Move { work: u64, before: Option<u64> },
}

/// Changes what a step is to do that has not begun. Returns the step.
pub fn edit(store: &mut Store, queue: &str, step: &str, edit: &Edit) -> Result<WorkId, QueueError> {
    expect_no_password(store, &edit.env)?;
    change(store, queue, |transaction, view, found| {
        let work = unbegun(view, step, "it cannot be edited")?;
        let mut addition = latest(transaction, found, work)?;
        let followed = addition.after.clone();
        edit.apply(&mut addition);
        addition.check()?;
        for &other in addition.after.iter().filter(|other| !followed.contains(other)) {
            if other >= work.get() && other <= found.added {
                let (queue, step) = (found.name.clone(), work.to_string());
                return Err(QueueError::AddedLater { queue, step, other });
            }
            expect_known(transaction, found, other)??;
        }
        if let Setting::Set(uses) = &edit.uses {
            for (limit, steps) in uses {
                transaction.limits().expect(limit, Amount::from_steps(*steps))?;
            }
        }
        Ok((work, Some(Change::Edit { work: work.get(), step: addition })))
    })
}

/// Moves a step that has not begun within its queue. Returns the step.
pub fn move_step(
    store: &mut Store,
    queue: &str,
    step: &str,
    to: Spot,
) -> Result<WorkId, QueueError> {
    change(store, queue, |_, view, found| {
        let work = unbegun(view, step, "it cannot be moved")?;
        let before = match to {
            Spot::Last => None,
            Spot::First => match view.first_unbegun() {
                // It is there already, or it is the only one.
                first if first.is_none_or(|first| first == work) => return Ok((work, None)),
                first => first,
            },
            Spot::Before(other) if other == work.get() => {
                let (queue, step) = (found.name.clone(), work.to_string());
                return Err(QueueError::BeforeItself { queue, step });
            }
            Spot::Before(other) => {
                let done = "nothing can be moved in front of it";
                Some(unbegun(view, &other.to_string(), done)?)
            }
        };
        Ok((work, Some(Change::Move { work: work.get(), before: before.map(WorkId::get) })))
    })
}

/// What a change of a queue is to be: the step, and the change, unless nothing is to be done.
type Decision = (WorkId, Option<Change>);

/// Stores the change that `decide` returns, if there is one, and returns the step.
fn change(
    store: &mut Store,
    queue: &str,
    decide: impl Fn(&Transaction<'_>, &RunView, &StoredQueue) -> Result<Decision, QueueError>,
) -> Result<WorkId, QueueError> {
    let dir = store.dir().to_owned();
    let changed = store.transact(|transaction| {
        let Some(found) = transaction.queues().find(queue)? else {
            return Ok(Err(QueueError::Unknown { name: queue.to_owned() }));
        };
        let owner = transaction.runs().listing(&found.run)?.uid;
        if let Err(refused) = users::expect_owner(queue, owner) {
            return Ok(Err(refused.into()));
        }
        let record = transaction.runs().find(&found.run)?;
        let decided = match RunView::of_submitted(transaction, record, &dir)? {
            Ok(view) => decide(transaction, &view, &found),
            Err(error) => Err(RunError::from(error).into()),
        };
        let (work, change) = match decided {
            Ok((work, Some(change))) => (work, change),
            Ok((work, None)) => return Ok(Ok(work)),
            Err(QueueError::Store(error)) => return Err(error),
            Err(refused) => return Ok(Err(refused)),
        };
        let text = serde_json::to_string(&change).expect("texts and numbers are always JSON");
        transaction.queues().change(&found.run, &text)?;
        #[cfg(windlass_faults)]
        Point::BeforeChange.reached();
        Ok(Ok(work))
    });
    #[cfg(windlass_faults)]
    Point::AfterChange.reached();
    changed?
}

/// Returns the step that has not begun and that `step` names.
fn unbegun(view: &RunView, step: &str, done: &'static str) -> Result<WorkId, QueueError> {
    let places = view.places(step).map_err(RunError::from)?;
    let [place] = places[..] else {
        let queue = view.queue.clone().unwrap_or_default();
        return Err(QueueError::Several { queue, step: step.to_owned() });
    };
    expect_unbegun(view, place, done)?;
    Ok(view.work(place))
}

/// Returns a step as it was last changed.
fn latest(
    transaction: &Transaction<'_>,
    queue: &StoredQueue,
    work: WorkId,
) -> Result<Addition, StoreError> {
    for stored in transaction.queues().changes_after(&queue.run, 0)?.iter().rev() {
        if let Change::Edit { work: edited, step } = read(&stored.text)?
            && edited == work.get()
        {
            return Ok(step);
        }
    }
    let stored = transaction.queues().step(&queue.run, work)?;
    read(&stored.expect("a step that is known is stored").text)
}

/// Puts the edits into the steps that they have changed, and deletes the changes up to the number `last`: a
/// base stands for them. `edits` are the last edits that had an effect, by their steps.
pub(crate) fn fold_changes(
    transaction: &Transaction<'_>,
    run: &str,
    edits: &[(WorkId, u64)],
    last: u64,
) -> Result<(), StoreError> {
    for stored in transaction.queues().changes_after(run, 0)? {
        if stored.number > last {
            break;
        }
        if let Some((work, _)) = edits.iter().find(|(_, number)| *number == stored.number)
            && let Change::Edit { step, .. } = read(&stored.text)?
        {
            let text = serde_json::to_string(&step).expect("texts and numbers are always JSON");
            transaction.queues().set_step(run, *work, &text)?;
        }
        transaction.queues().drop_change(run, stored.number)?;
    }
    Ok(())
}

/// Returns a stored change as the run of its queue knows it.
pub(crate) fn change_of(stored: &StoredChange) -> Result<(u64, StepChange), StoreError> {
    let no_work = || DecodeError::NoWork { text: stored.text.clone() };
    let id = |number: u64| WorkId::new(number).ok_or_else(no_work);
    let change = match read(&stored.text)? {
        Change::Edit { work, step } => {
            let work = id(work)?;
            StepChange::Edit { work, step: Box::new(step.into_step(work)) }
        }
        Change::Move { work, before } => {
            StepChange::Move { work: id(work)?, before: before.map(id).transpose()? }
        }
    };
    Ok((stored.number, change))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, StoreError> {
    let malformed = |source| DecodeError::Malformed { text: text.to_owned(), source };
    Ok(serde_json::from_str(text).map_err(malformed)?)
}

impl Edit {
    fn apply(&self, step: &mut Addition) {
        let Self { command, env, name, after, locks, uses, .. } = self.clone();
        let Self { not_before_ms, priority, retries, timeout_ms, .. } = *self;
        step.command = command.unwrap_or(std::mem::take(&mut step.command));
        step.env.extend(env);
        name.apply(&mut step.name);
        after.apply(&mut step.after);
        locks.apply(&mut step.locks);
        uses.apply(&mut step.uses);
        not_before_ms.apply(&mut step.not_before_ms);
        step.priority = priority.unwrap_or(step.priority);
        step.retries = retries.unwrap_or(step.retries);
        timeout_ms.apply(&mut step.timeout_ms);
    }
}
