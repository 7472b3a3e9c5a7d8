//! Queues: runs that stay open, to which users add commands one by one.
//!
//! A command is added by a row with its number. The scheduler takes the rows in the order of their numbers,
//! in the commit that journals the steps, so the journal itself says which rows were taken: no step is lost or
//! taken twice, whichever process is killed. A change of a step is a row as well, stored only if the step has
//! not begun by then: so it is in time.

mod changing;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Amount, EdgeKind, Happening, WorkId};
use windlass_store::{
    DecodeError, Name, RunRecord, Store, StoreError, StoredQueue, StoredStep, Transaction,
    check_text,
};
use windlass_workflow::{
    Command, SHARED, Script, Shell, ShellText, Step, StepDependency, Template,
};

pub use self::changing::{Edit, Setting, Spot, edit, move_step};
pub(crate) use self::changing::{change_of, fold_changes};
use crate::coordinator::{Ask, RunError, ask, require_text_path, send};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::inherited::expect_no_password;
use crate::look::{RunView, StepState};
use crate::service::submitted_env;
use crate::users;

/// The longest name of a queue, in characters.
const NAME_CHARACTERS: usize = 64;

/// A command for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Addition {
    /// The words of the command. A single word with blanks is shell text.
    pub command: Vec<String>,
    /// Where it starts.
    pub dir: PathBuf,
    /// The variables that it is given besides those of the worker.
    pub env: BTreeMap<String, String>,
    /// A name for it besides its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The numbers of the steps that have to succeed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u64>,
    /// The locks that it holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// What it takes of the limits of the store, by name, in steps of an [`Amount`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, u64>,
    /// When it may start, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// How urgent it is among the steps of its queue; larger is more urgent.
    pub priority: i64,
    /// How often it is tried again.
    pub retries: u32,
    /// How long one attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Why a command cannot be added.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue belongs to another user.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A name is none that a queue can have.
    #[error(
        "invalid name of a queue: {name:?}; a name has up to {NAME_CHARACTERS} letters, digits, `-`, `_` and `.`, begins with a letter or a digit, and is neither `last` nor like the id of a run"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A name is none that a step can have.
    #[error("invalid name of a step: {name:?}; it must not be a number, nor contain `/` or `@`")]
    StepName {
        /// The name.
        name: String,
    },
    /// There is nothing to run.
    #[error("the command is empty; write what to run behind `--`")]
    EmptyCommand,
    /// An attempt has no time.
    #[error("the timeout is zero; leave it out for no limit")]
    NoTime,
    /// No command was ever added to a queue of this name.
    #[error("no queue {name:?}; add a command to it with: windlass add -q {name} -- COMMAND")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A step that runs cannot be changed.
    #[error(
        "step {step} of queue {queue} has begun, so {done}; to end it: windlass cancel {queue}/{step}"
    )]
    Begun {
        /// The queue.
        queue: String,
        /// The step.
        step: String,
        /// What cannot be done.
        done: &'static str,
    },
    /// A step that has ended cannot be changed.
    #[error("step {step} of queue {queue} has ended, so {done}")]
    Ended {
        /// The queue.
        queue: String,
        /// The step.
        step: String,
        /// What cannot be done.
        done: &'static str,
    },
    /// A name means several steps.
    #[error("{step:?} names several steps of queue {queue}; name one by its number")]
    Several {
        /// The queue.
        queue: String,
        /// The name.
        step: String,
    },
    /// A step was to be moved in front of itself.
    #[error("step {step} of queue {queue} cannot be moved in front of itself")]
    BeforeItself {
        /// The queue.
        queue: String,
        /// The step.
        step: String,
    },
    /// A step was to follow itself, or one that was added after it.
    #[error(
        "step {step} of queue {queue} cannot follow step {other}: a step follows only steps that were added before it; remove it, and add its command again with --after {other}"
    )]
    AddedLater {
        /// The queue.
        queue: String,
        /// The step.
        step: String,
        /// The step that it cannot follow.
        other: u64,
    },
    /// The step that a command is to follow was never added.
    #[error("queue {queue} has no step {step}, so nothing can follow it; the last one is {last}")]
    NoSuchStep {
        /// The queue.
        queue: String,
        /// The number.
        step: u64,
        /// The number of the last step.
        last: u64,
    },
    /// The step that a command is to follow has ended long ago.
    #[error("step {step} of queue {queue} has ended and is forgotten, so nothing can follow it")]
    Forgotten {
        /// The queue.
        queue: String,
        /// The number.
        step: u64,
    },
}

impl QueueError {
    /// Returns whether the request is wrong, not the store.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            QueueError::Store(store) | QueueError::Run(RunError::Store(store)) => store.is_usage(),
            _ => true,
        }
    }
}

/// Returns the variables of this process that a command takes along: the usual ones, and the `named` ones.
pub fn caller_env(named: &[String]) -> Result<BTreeMap<String, String>, QueueError> {
    let taken = submitted_env(std::env::vars_os(), &[], named);
    Ok(taken.map_err(RunError::from)?)
}

/// Returns these variables of this process.
pub fn named_env(named: &[String]) -> Result<BTreeMap<String, String>, QueueError> {
    let mut taken = caller_env(named)?;
    taken.retain(|name, _| named.contains(name));
    Ok(taken)
}

/// Adds a command to the queue of a name, which is created if there is none, for at most `slots` steps at a
/// time. Returns the number of the step.
pub fn add(
    store: &mut Store,
    queue: &str,
    slots: u32,
    addition: &Addition,
) -> Result<WorkId, QueueError> {
    check_name(queue)?;
    addition.check()?;
    expect_no_password(store, &addition.env)?;
    require_text_path(store)?;
    let uid = store.access().creator();
    let added = store.transact(|transaction| {
        let found = match transaction.queues().find(queue)? {
            Some(found) => found,
            None => create(transaction, queue, slots, uid)?,
        };
        let owner = transaction.runs().listing(&found.run)?.uid;
        if let Err(refused) = users::expect_owner(queue, owner) {
            return Ok(Err(refused.into()));
        }
        for step in &addition.after {
            if let Err(refused) = expect_known(transaction, &found, *step)? {
                return Ok(Err(refused));
            }
        }
        for (limit, steps) in &addition.uses {
            transaction.limits().expect(limit, Amount::from_steps(*steps))?;
        }
        let text = serde_json::to_string(addition).expect("texts and numbers are always JSON");
        let number = transaction.queues().add(&found.run, &text)?;
        #[cfg(windlass_faults)]
        Point::BeforeAdd.reached();
        Ok(Ok(number))
    });
    #[cfg(windlass_faults)]
    Point::AfterAdd.reached();
    added?
}

/// Returns the names of the queues.
pub fn names(store: &mut Store) -> Result<Vec<String>, StoreError> {
    let queues = store.read(|transaction| transaction.queues().all())?;
    Ok(queues.into_iter().map(|queue| queue.name).collect())
}

/// Returns the name of the queue that a run is, if it is one. `run` is its whole id.
pub fn queue_of(store: &mut Store, run: &str) -> Result<Option<String>, StoreError> {
    let queue = store.read(|transaction| transaction.queues().of_run(run))?;
    Ok(queue.map(|queue| queue.name))
}

/// Has at most `slots` steps of a queue run at a time from now on.
pub fn set_slots(store: &mut Store, queue: &str, slots: u32) -> Result<(), QueueError> {
    store.transact(|transaction| {
        let Some(found) = transaction.queues().find(queue)? else {
            return Ok(Err(QueueError::Unknown { name: queue.to_owned() }));
        };
        let owner = transaction.runs().listing(&found.run)?.uid;
        if let Err(refused) = users::expect_owner(queue, owner) {
            return Ok(Err(refused.into()));
        }
        transaction.runs().set_jobs(&found.run, slots)?;
        send(transaction, &found.run, &Ask::Slots(slots)).map(Ok)
    })?
}

/// Removes steps of a queue that have not begun: those that `steps` names, or none of them. Steps that follow
/// them are blocked. Returns the steps.
pub fn remove(store: &mut Store, queue: &str, steps: &[String]) -> Result<Vec<String>, QueueError> {
    let view = RunView::find(store, queue).map_err(RunError::from)?;
    if view.queue.is_none() {
        return Err(QueueError::Unknown { name: queue.to_owned() });
    }
    let mut removed = Vec::new();
    for step in steps {
        for place in view.places(step).map_err(RunError::from)? {
            let found = &view.steps[place];
            expect_unbegun(&view, place, "it cannot be removed")?;
            removed.push(found.name.clone());
        }
    }
    let asks: Vec<_> = removed.iter().cloned().map(Ask::Remove).collect();
    ask(store, &view.run.id, &asks)?;
    Ok(removed)
}

/// Refuses a step that is not waiting for its first attempt.
fn expect_unbegun(view: &RunView, place: usize, done: &'static str) -> Result<(), QueueError> {
    let found = &view.steps[place];
    let waits = matches!(found.state, StepState::Waiting | StepState::Paused);
    if waits && found.attempts.is_empty() {
        return Ok(());
    }
    let (queue, step) = (view.queue.clone().unwrap_or_default(), found.name.clone());
    match found.state.is_end() {
        true => Err(QueueError::Ended { queue, step, done }),
        false => Err(QueueError::Begun { queue, step, done }),
    }
}

/// Inserts a queue and its run.
fn create(
    transaction: &Transaction<'_>,
    name: &str,
    slots: u32,
    uid: u32,
) -> Result<StoredQueue, StoreError> {
    let run = RunRecord {
        id: transaction.runs().new_id()?,
        workflow: name.to_owned(),
        file: name.to_owned(),
        dir: PathBuf::from("/"),
        jobs: Some(slots),
        uid: Some(uid),
        env: Some(BTreeMap::new()),
        ..RunRecord::default()
    };
    transaction.runs().insert(&run)?;
    transaction.queues().create(name, &run.id)?;
    transaction.orders().announce();
    Ok(StoredQueue { name: name.to_owned(), run: run.id, added: 0, changed: 0 })
}

/// Refuses a step that nothing can follow.
fn expect_known(
    transaction: &Transaction<'_>,
    queue: &StoredQueue,
    step: u64,
) -> Result<Result<(), QueueError>, StoreError> {
    let name = || queue.name.clone();
    let Some(work) = WorkId::new(step).filter(|_| step <= queue.added) else {
        return Ok(Err(QueueError::NoSuchStep { queue: name(), step, last: queue.added }));
    };
    let is_known = transaction.queues().step(&queue.run, work)?.is_some()
        && !forgotten(transaction, &queue.run)?.contains(&work);
    Ok(is_known.then_some(()).ok_or_else(|| QueueError::Forgotten { queue: name(), step }))
}

/// Returns the steps that the journal has forgotten and that are still stored.
fn forgotten(transaction: &Transaction<'_>, run: &str) -> Result<Vec<WorkId>, StoreError> {
    let facts = transaction.facts().of(run)?.into_iter();
    let forgotten = facts.filter_map(|fact| match fact.what {
        Happening::Forgotten { work } => Some(work),
        _ => None,
    });
    Ok(forgotten.collect())
}

fn check_name(name: &str) -> Result<(), QueueError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_id = name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = begins && name.chars().all(plain) && name.len() <= NAME_CHARACTERS;
    match fits && !is_id && name != "last" {
        true => Ok(()),
        false => Err(QueueError::Name { name: name.to_owned() }),
    }
}

/// Returns a stored step as the run of its queue knows it.
pub(crate) fn step_of(stored: &StoredStep) -> Result<(WorkId, Step), StoreError> {
    let addition: Addition = serde_json::from_str(&stored.text)
        .map_err(|source| DecodeError::Malformed { text: stored.text.clone(), source })?;
    Ok((stored.work, addition.into_step(stored.work)))
}

impl Addition {
    /// Refuses what would fail later, and names that would be taken for something else.
    fn check(&self) -> Result<(), QueueError> {
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(QueueError::EmptyCommand);
        }
        if self.timeout_ms == Some(0) {
            return Err(QueueError::NoTime);
        }
        if self.dir.to_str().is_none() {
            return Err(StoreError::PathNotUtf8 { dir: self.dir.clone() }.into());
        }
        for lock in &self.locks {
            windlass_store::check_name(&Name::Lock(lock.clone())).map_err(StoreError::from)?;
        }
        if let Some(name) = &self.name {
            check_text(name).map_err(StoreError::from)?;
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            if is_number || name.contains(['/', '@']) {
                return Err(QueueError::StepName { name: name.clone() });
            }
        }
        Ok(())
    }

    /// Returns the step of that number.
    fn into_step(self, number: WorkId) -> Step {
        let mut step = Step::of_command(number.to_string(), command(self.command));
        step.declared = self.name.unwrap_or_else(|| number.to_string());
        let before = self.after.iter().filter_map(|number| WorkId::new(*number));
        step.after = before
            .map(|work| StepDependency {
                step: work.index(),
                same_worker: false,
                kind: EdgeKind::Success,
            })
            .collect();
        step.gate.not_before_ms = self.not_before_ms;
        step.priority = self.priority;
        step.needs.locks = self.locks.into_iter().map(Template::literal).collect();
        let uses = self.uses.into_iter();
        step.needs.resources = uses
            .map(|(limit, steps)| (format!("{SHARED}{limit}"), Amount::from_steps(steps)))
            .collect();
        let env = self.env.into_iter();
        step.execution.env = env.map(|(name, value)| (name, Template::literal(value))).collect();
        step.execution.dir = self.dir.to_str().map(Template::literal);
        step.ending.retry.count = self.retries;
        step.ending.timeout = self.timeout_ms.map(Duration::from_millis);
        step
    }
}

/// Returns the command of these words: shell text if it is one word with blanks.
fn command(words: Vec<String>) -> Command {
    match words.as_slice() {
        [text] if text.contains(char::is_whitespace) => {
            let text = ShellText::parse(text, |_| None).expect("it refers to no values");
            Command::Script(Script { shell: Shell::default(), text })
        }
        _ => Command::List(words.into_iter().map(Template::literal).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_called_so_that_it_is_no_run_and_no_option() {
        for name in ["default", "a", "9", "build-2.x_y", "deadbee", "deadbeefs"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "last", "deadbeef", "-q", ".a", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_single_word_with_blanks_is_shell_text_and_other_words_stay_as_they_are() {
        let check = |words: &[&str], is_shell: bool, shown: &str| {
            let command = command(words.iter().map(|&word| word.to_owned()).collect());
            assert_eq!(matches!(command, Command::Script(_)), is_shell, "{words:?}");
            assert_eq!(command.to_string(), shown);
        };
        check(&["true"], false, "true");
        check(&["echo", "a  b", "{run}"], false, "echo a  b {run}");
        check(&["echo {run} > x"], true, "echo {run} > x");
    }
}
