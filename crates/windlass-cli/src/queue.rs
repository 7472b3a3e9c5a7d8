//! `windlass add`, `queue`, `edit`, `move` and `remove`: commands that a service executes one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::queue::{self, Addition, Edit, QueueError, Setting, Spot};
use windlass_server::{Amount, Explanation, RunView, StepState, Store};

use crate::arguments::{
    AddArguments, Clearable, EditArguments, Form, MoveArguments, QueueArguments, RemoveArguments,
    StepNumber,
};
use crate::exit::Exit;
use crate::look::{ending, json_word, step_ink, took};
use crate::output::{json, print};
use crate::serve::{start_in_background, warn_of_other_user};
use crate::state;
use crate::style::{Style, fit};
use crate::table::{Cell, Table};
use crate::times::Times;
use crate::why::short_reason;

/// The number of steps up to which all are shown.
const SHOWN: usize = 50;
/// The columns of a command that are shown: a long one would widen every row.
const COMMAND_COLUMNS: usize = 100;

/// A step of another queue was to be followed.
#[derive(Debug, ThisError)]
#[error(
    "a step of queue {other} cannot be followed in queue {queue}: both have to be in one queue"
)]
pub(crate) struct OtherQueue {
    queue: String,
    other: String,
}

/// A step was to be changed, and nothing was given that it should be.
#[derive(Debug, ThisError)]
#[error("nothing to change: give a flag, or a command after --")]
pub(crate) struct NothingToEdit;

/// A setting was both given and taken away.
#[derive(Debug, ThisError)]
#[error("cannot both set and clear `{}`; leave one of them out", word(*what))]
pub(crate) struct SetAndCleared {
    what: Clearable,
}

fn word(what: Clearable) -> String {
    what.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Two amounts of one limit were to be taken.
#[derive(Debug, ThisError)]
#[error("--use {limit} is given twice; write the whole amount once")]
pub(crate) struct UsedTwice {
    limit: String,
}

/// The command has no directory to start in.
#[derive(Debug, ThisError)]
#[error("cannot add a command: the current directory cannot be used: {source}")]
pub(crate) struct NoDirectory {
    source: io::Error,
}

pub(crate) fn add(
    state: Option<&Path>,
    arguments: &AddArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let AddArguments {
        queue, after, at, delay, name, locks, uses, priority, retry, timeout, ..
    } = arguments;
    let AddArguments { env, command, .. } = arguments;
    let mut store = state::open(state)?;
    after.iter().try_for_each(|step| expect_in(queue, step))?;
    let addition = Addition {
        command: command.clone(),
        dir: std::env::current_dir().map_err(|source| NoDirectory { source })?,
        env: queue::caller_env(env)?,
        name: name.clone(),
        after: after.iter().map(|step| step.number).collect(),
        locks: locks.clone(),
        uses: amounts(uses)?,
        not_before_ms: start(*at, *delay),
        priority: *priority,
        retries: *retry,
        timeout_ms: timeout.map(millis),
    };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let slots = u32::try_from(cpus).unwrap_or(u32::MAX);
    let step = queue::add(&mut store, queue, slots, &addition)?.get();
    let begun = start_in_background(&mut store);
    match form {
        Form::Json => print(&json("added", &Added { queue, step })),
        Form::Text => print(&format!("{queue}/{step}\n")),
    }
    warn_of_other_user(&mut store)?;
    begun.map(|()| Exit::Success)
}

/// Refuses a step of another queue.
fn expect_in(queue: &str, step: &StepNumber) -> Result<(), OtherQueue> {
    match &step.queue {
        Some(other) if other != queue => {
            Err(OtherQueue { queue: queue.to_owned(), other: other.clone() })
        }
        _ => Ok(()),
    }
}

/// Returns when a step may start, in milliseconds since 1970.
fn start(at: Option<i64>, delay: Option<Duration>) -> Option<u64> {
    let delay = delay.map(|delay| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
    let start = delay.map(|delay| Times::now().now_ms.saturating_add(delay)).or(at);
    start.map(i64::unsigned_abs)
}

/// Returns amounts of limits by the names of the limits.
fn amounts(uses: &[(String, Amount)]) -> Result<BTreeMap<String, u64>, UsedTwice> {
    let mut taken = BTreeMap::new();
    for (limit, amount) in uses {
        if taken.insert(limit.clone(), amount.steps()).is_some() {
            return Err(UsedTwice { limit: limit.clone() });
        }
    }
    Ok(taken)
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct Added<'a> {
    queue: &'a str,
    /// The number of the step.
    step: u64,
}

pub(crate) fn edit(
    state: Option<&Path>,
    arguments: &EditArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let EditArguments { after, at, delay, name, locks, uses, timeout, .. } = arguments;
    let EditArguments { step: (queue, step), clear, env, priority, retry, command, .. } = arguments;
    after.iter().try_for_each(|step| expect_in(queue, step))?;
    let numbers: Vec<_> = after.iter().map(|step| step.number).collect();
    let uses = amounts(uses)?;
    let edit = Edit {
        command: Some(command.clone()).filter(|words| !words.is_empty()),
        env: queue::named_env(env)?,
        name: setting(clear, Clearable::Name, name.clone())?,
        after: setting(clear, Clearable::After, Some(numbers).filter(|list| !list.is_empty()))?,
        locks: setting(
            clear,
            Clearable::Lock,
            Some(locks.clone()).filter(|list| !list.is_empty()),
        )?,
        uses: setting(clear, Clearable::Use, Some(uses).filter(|uses| !uses.is_empty()))?,
        not_before_ms: setting(clear, Clearable::At, start(*at, *delay))?,
        priority: *priority,
        retries: *retry,
        timeout_ms: setting(clear, Clearable::Timeout, timeout.map(millis))?,
    };
    if edit == Edit::default() {
        return Err(NothingToEdit.into());
    }
    let mut store = state::open(state)?;
    let step = queue::edit(&mut store, queue, step, &edit)?.get();
    if form == Form::Json {
        print(&json("edited", &Changed { queue, step }));
    }
    start_in_background(&mut store)?;
    Ok(Exit::Success)
}

/// Returns what is to become of a setting for which this was given.
fn setting<T>(
    clear: &[Clearable],
    what: Clearable,
    given: Option<T>,
) -> Result<Setting<T>, SetAndCleared> {
    match (given, clear.contains(&what)) {
        (Some(_), true) => Err(SetAndCleared { what }),
        (Some(value), false) => Ok(Setting::Set(value)),
        (None, true) => Ok(Setting::Clear),
        (None, false) => Ok(Setting::Keep),
    }
}

pub(crate) fn move_step(
    state: Option<&Path>,
    arguments: &MoveArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let MoveArguments { step: (queue, step), to } = arguments;
    let to = match &to.before {
        Some(before) => {
            expect_in(queue, before)?;
            Spot::Before(before.number)
        }
        None if to.first => Spot::First,
        None => Spot::Last,
    };
    let mut store = state::open(state)?;
    let step = queue::move_step(&mut store, queue, step, to)?.get();
    if form == Form::Json {
        print(&json("moved", &Changed { queue, step }));
    }
    start_in_background(&mut store)?;
    Ok(Exit::Success)
}

/// A step of a queue that was edited or moved.
#[derive(Serialize)]
struct Changed<'a> {
    queue: &'a str,
    /// The number of the step.
    step: u64,
}

pub(crate) fn remove(
    state: Option<&Path>,
    arguments: &RemoveArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::open(state)?;
    let mut by_queue: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (queue, step) in &arguments.steps {
        by_queue.entry(queue).or_default().push(step.clone());
    }
    for (queue, steps) in by_queue {
        let steps = queue::remove(&mut store, queue, &steps)?;
        match form {
            Form::Json => print(&json("remove_asked", &RemoveAsked { queue, steps: &steps })),
            Form::Text => eprintln!("asked queue {queue} to remove {}", steps.join(", ")),
        }
    }
    start_in_background(&mut store)?;
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct RemoveAsked<'a> {
    queue: &'a str,
    /// The numbers of the steps.
    steps: &'a [String],
}

pub(crate) fn queue(
    state: Option<&Path>,
    arguments: &QueueArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let Some(name) = &arguments.name else {
        return list(&mut state::look(state)?, form);
    };
    if let Some(slots) = arguments.slots {
        queue::set_slots(&mut state::open(state)?, name, slots)?;
    }
    show(&mut state::look(state)?, name, arguments.all, form)
}

/// Lists the queues.
fn list(store: &mut Store, form: Form) -> Result<Exit, Box<dyn Error>> {
    let queues = queue::names(store)?;
    let views = queues.iter().map(|name| RunView::find(store, name));
    let views: Vec<_> = views.collect::<Result<_, _>>()?;
    if form == Form::Json {
        print(&views.iter().map(|view| QueueJson::of(view).line()).collect::<String>());
        return Ok(Exit::Success);
    }
    let mut table = Table::new(["QUEUE", "SLOTS", "RUNNING", "WAITING", "ENDED"]);
    for view in &views {
        let QueueJson { queue, slots, running, waiting, ended, .. } = QueueJson::of(view);
        table.row([
            Cell::from(queue),
            Cell::from(slots.map(|slots| slots.to_string()).unwrap_or_default()),
            Cell::from(running.to_string()),
            Cell::from(waiting.to_string()),
            Cell::from(ended.to_string()),
        ]);
    }
    match views.is_empty() {
        true => eprintln!("there is no queue; add a command to one with: windlass add -- COMMAND"),
        false => print(&table.render(&Style::of_stdout())),
    }
    Ok(Exit::Success)
}

/// Shows the steps of a queue.
fn show(store: &mut Store, name: &str, all: bool, form: Form) -> Result<Exit, Box<dyn Error>> {
    if !queue::names(store)?.iter().any(|known| known == name) {
        return Err(QueueError::Unknown { name: name.to_owned() }.into());
    }
    let most = if all || form == Form::Json { usize::MAX } else { SHOWN };
    let Explanation { view, steps: explained, .. } = Explanation::of_first(store, name, most)?;
    let times = Times::now();
    let why = |place: usize| {
        let step = &view.steps[place];
        if step.state.is_end() {
            return step.unbegun.as_ref().or(step.attempts.last()).map(ending);
        }
        let explained = explained.iter().find(|explained| explained.place == place)?;
        short_reason(explained, &view, &times)
    };
    if form == Form::Json {
        let mut lines = QueueJson::of(&view).line();
        let places = in_order(&view).into_iter();
        lines.extend(places.map(|place| QueueStepJson::of(&view, place, why(place))));
        print(&lines);
        return Ok(Exit::Success);
    }
    let shown = chosen(&view, most);
    let style = Style::of_stdout();
    let mut table = Table::new(["ID", "STATE", "TOOK", "COMMAND", "WHY"]);
    for &place in &shown {
        let step = &view.steps[place];
        let id = match step.declared == step.name {
            true => step.name.clone(),
            false => format!("{} {}", step.name, step.declared),
        };
        table.row([
            Cell::from(id),
            Cell::inked(step.state.word(), step_ink(step.state)),
            Cell::from(took(step, view.now_ms).unwrap_or_default()),
            Cell::from(fit(&view.command(place), COMMAND_COLUMNS, style.letters)),
            Cell::from(why(place).unwrap_or_default()),
        ]);
    }
    match shown.is_empty() {
        true => eprintln!("queue {name} remembers no steps"),
        false => print(&table.render(&style)),
    }
    let hidden = view.steps.len() - shown.len();
    if hidden > 0 {
        eprintln!("and {hidden} more steps; --all shows them");
    }
    Ok(Exit::Success)
}

/// Returns the places of up to `most` steps: those that run, the next ones, and the last that have ended.
fn chosen(view: &RunView, most: usize) -> Vec<usize> {
    let order = in_order(view);
    let is_end = |place: &usize| view.steps[*place].state.is_end();
    let runs = |place: &usize| view.steps[*place].state == StepState::Running;
    let running = order.iter().copied().filter(runs);
    let waiting = order.iter().copied().filter(|place| !is_end(place) && !runs(place));
    let ended = order.iter().rev().copied().filter(is_end);
    let chosen: BTreeSet<_> = running.chain(waiting).chain(ended).take(most).collect();
    order.into_iter().filter(|place| chosen.contains(place)).collect()
}

/// Returns the places of all steps: those that have begun or ended, by number, and then the others, in the order
/// in which they start.
fn in_order(view: &RunView) -> Vec<usize> {
    let unbegun = view.unbegun();
    let later: BTreeSet<_> = unbegun.iter().copied().collect();
    let begun = (0..view.steps.len()).filter(|place| !later.contains(place));
    begun.chain(unbegun.iter().copied()).collect()
}

/// A queue, for programs.
#[derive(Serialize)]
struct QueueJson<'a> {
    queue: &'a str,
    run: &'a str,
    slots: Option<u32>,
    running: usize,
    waiting: usize,
    /// The steps that have ended and are not forgotten.
    ended: usize,
}

impl<'a> QueueJson<'a> {
    fn of(view: &'a RunView) -> Self {
        let running = view.steps.iter().filter(|step| step.state == StepState::Running).count();
        let ended = view.done();
        Self {
            queue: view.queue.as_deref().unwrap_or_default(),
            run: &view.run.id,
            slots: view.limit(),
            running,
            waiting: view.steps.len() - ended - running,
            ended,
        }
    }

    fn line(&self) -> String {
        json("queue", self)
    }
}

/// A step of a queue, for programs.
#[derive(Serialize)]
struct QueueStepJson<'a> {
    queue: &'a str,
    step: &'a str,
    name: Option<&'a str>,
    state: &'static str,
    command: String,
    why: Option<String>,
}

impl QueueStepJson<'_> {
    fn of(view: &RunView, place: usize, why: Option<String>) -> String {
        let step = &view.steps[place];
        json(
            "queue_step",
            &QueueStepJson {
                queue: view.queue.as_deref().unwrap_or_default(),
                step: &step.name,
                name: (step.declared != step.name).then_some(step.declared.as_str()),
                state: json_word(step.state),
                command: view.command(place),
                why: why.filter(|why| !why.is_empty()),
            },
        )
    }
}
