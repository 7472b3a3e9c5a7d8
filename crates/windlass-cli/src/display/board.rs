//! The state of every step, as far as the display knows it.
//!
//! The board turns changes into events, which say what a change means after the previous state. An
//! earlier change may have been left out, so the board relies only on the latest one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_server::WorkState;

use super::change::StepChange;
use super::outline::{Before, Outline, Quantity, StepOutline};
use crate::style::plain;

/// A run and the states of its steps.
pub(crate) struct Board {
    pub(crate) outline: Outline,
    places: HashMap<String, usize>,
    steps: Vec<StepProgress>,
    counts: Counts,
    /// The running steps, in the order of their starts.
    running: BTreeMap<u64, usize>,
    starts: u64,
    /// What ready steps wait for.
    waiting: BTreeMap<usize, String>,
    /// What running steps wait for.
    notes: BTreeMap<usize, String>,
    in_use: Vec<Quantity>,
    failures: Vec<Event>,
}

/// The state of a step.
#[derive(Clone, Debug)]
enum StepProgress {
    Pending,
    Running { number: u64, attempt: Attempt },
    Ended(Kind),
}

/// A running attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    /// When it began, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// The file with its output.
    pub(crate) log: Option<PathBuf>,
}

/// A change of a step, with what it means for the display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// The index of the step.
    pub(crate) step: usize,
    /// Its latest attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// The number of attempts the step may have in all.
    pub(crate) most_attempts: u32,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// How long the ended attempt took.
    pub(crate) took: Option<Duration>,
    /// When its next attempt begins, in milliseconds since 1970, if a retry is planned.
    pub(crate) due_ms: Option<u64>,
    pub(crate) why: Option<String>,
    /// The file with the output of the attempt.
    pub(crate) log: Option<PathBuf>,
    /// The file with the output of its `finally`, if the step failed because of that.
    pub(crate) finally_log: Option<PathBuf>,
}

impl Event {
    /// Returns the log that explains the event.
    pub(crate) fn main_log(&self) -> Option<&Path> {
        self.finally_log.as_deref().or(self.log.as_deref())
    }
}

/// What happened to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It waits for something.
    Waits,
    /// An attempt began.
    Started,
    /// It will run again: an attempt has ended, or a user has retried it.
    Again,
    Succeeded,
    Skipped,
    Failed,
    Blocked,
    Cancelled,
}

impl Kind {
    /// Returns how a step in this state has ended; none if it has not.
    pub(crate) fn of_end(state: WorkState, skipped: bool) -> Option<Self> {
        match state {
            WorkState::Pending | WorkState::Running => None,
            WorkState::Success if skipped => Some(Kind::Skipped),
            WorkState::Success => Some(Kind::Succeeded),
            WorkState::Failed => Some(Kind::Failed),
            WorkState::Blocked => Some(Kind::Blocked),
            WorkState::Cancelled => Some(Kind::Cancelled),
        }
    }
}

/// The number of steps in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) running: usize,
    pub(crate) succeeded: usize,
    pub(crate) skipped: usize,
    pub(crate) failed: usize,
    pub(crate) blocked: usize,
    pub(crate) cancelled: usize,
}

impl Counts {
    pub(crate) fn ended(&self) -> usize {
        self.succeeded + self.skipped + self.failed + self.blocked + self.cancelled
    }

    /// Returns the counter for steps of this kind, if they are counted.
    fn of(&mut self, kind: Kind) -> Option<&mut usize> {
        match kind {
            Kind::Waits | Kind::Again => None,
            Kind::Started => Some(&mut self.running),
            Kind::Succeeded => Some(&mut self.succeeded),
            Kind::Skipped => Some(&mut self.skipped),
            Kind::Failed => Some(&mut self.failed),
            Kind::Blocked => Some(&mut self.blocked),
            Kind::Cancelled => Some(&mut self.cancelled),
        }
    }
}

impl Board {
    pub(crate) fn new(outline: Outline) -> Self {
        let names = outline.steps.iter().map(|step| step.name.clone());
        let mut board = Self {
            places: names.zip(0..).collect(),
            steps: vec![StepProgress::Pending; outline.steps.len()],
            counts: Counts::default(),
            running: BTreeMap::new(),
            starts: 0,
            waiting: BTreeMap::new(),
            notes: BTreeMap::new(),
            in_use: vec![Quantity(0); outline.resources.len()],
            failures: Vec::new(),
            outline,
        };
        for place in 0..board.steps.len() {
            if let Some(kind) = board.outline.steps[place].before.ended {
                board.set_progress(place, StepProgress::Ended(kind));
            }
        }
        board
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the step at an index.
    pub(crate) fn step(&self, place: usize) -> &StepOutline {
        &self.outline.steps[place]
    }

    /// Returns whether the attempt of an event began before the run was resumed, so that its output was
    /// shown then.
    pub(crate) fn is_earlier(&self, event: &Event) -> bool {
        event.attempt <= self.step(event.step).before.attempts
    }

    /// Returns the running attempts, in the order of their starts.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Attempt)> {
        self.running.values().filter_map(|&place| Some((place, self.attempt(place)?)))
    }

    /// Returns the running attempt of a step.
    pub(crate) fn attempt(&self, place: usize) -> Option<&Attempt> {
        match &self.steps[place] {
            StepProgress::Running { attempt, .. } => Some(attempt),
            _ => None,
        }
    }

    pub(crate) fn has_ended(&self, place: usize) -> bool {
        matches!(self.steps[place], StepProgress::Ended(_))
    }

    /// Returns the waiting steps, and what they wait for.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = (usize, &str)> {
        self.waiting.iter().map(|(&place, why)| (place, why.as_str()))
    }

    /// Returns what a running step waits for, if it does.
    pub(crate) fn note(&self, place: usize) -> Option<&str> {
        self.notes.get(&place).map(String::as_str)
    }

    /// Returns how much of each resource is in use, in the order of the outline.
    pub(crate) fn in_use(&self) -> &[Quantity] {
        &self.in_use
    }

    /// Returns the failed steps, in the order in which they failed.
    pub(crate) fn failures(&self) -> &[Event] {
        &self.failures
    }

    /// Records that a step waits for something.
    pub(crate) fn wait(&mut self, step: &str, why: &str, at_ms: u64) -> Event {
        let (kind, step) = (Kind::Waits, self.place(step));
        // The first line is the reason. The others say what the user can do, for which the live display
        // has no room.
        let short = plain(why.lines().next().unwrap_or_default());
        let why = plain(&why.replace('\n', "; "));
        let attempt = self.attempt(step).map(|attempt| attempt.number);
        let list = if attempt.is_some() { &mut self.notes } else { &mut self.waiting };
        list.insert(step, short);
        let (attempt, why) = (attempt.unwrap_or_default(), Some(why));
        let (took, due_ms, log, finally_log) = (None, None, None, None);
        let most_attempts = attempt;
        Event { kind, step, attempt, most_attempts, at_ms, took, due_ms, why, log, finally_log }
    }

    /// Records a change, and returns what it means.
    pub(crate) fn apply(&mut self, change: StepChange) -> Event {
        let place = self.place(&change.step);
        let kind = meaning(&change);
        let StepChange { attempt, most_attempts, at_ms, due_ms, log, finally_log, .. } = change;
        let before = self.attempt(place).filter(|_| kind != Kind::Started);
        let took = before.map(|before| at_ms.saturating_sub(before.since_ms));
        let why = change.why.as_deref().map(plain).or_else(|| self.reason(place, kind));
        let took = took.map(Duration::from_millis);
        let event = Event {
            kind,
            step: place,
            attempt,
            most_attempts,
            at_ms,
            took,
            due_ms,
            why,
            log,
            finally_log,
        };
        let progress = self.progress(&event);
        self.set_progress(place, progress);
        if kind == Kind::Failed {
            self.failures.push(event.clone());
        }
        event
    }

    fn progress(&mut self, event: &Event) -> StepProgress {
        match event.kind {
            Kind::Waits | Kind::Again => StepProgress::Pending,
            Kind::Started => {
                self.starts += 1;
                let (number, since_ms, log) = (event.attempt, event.at_ms, event.log.clone());
                StepProgress::Running {
                    number: self.starts,
                    attempt: Attempt { number, since_ms, log },
                }
            }
            end => StepProgress::Ended(end),
        }
    }

    /// Returns the reason for a change that came without one: the step that blocks a blocked step.
    fn reason(&self, place: usize, kind: Kind) -> Option<String> {
        let unmet = |&&before: &&usize| {
            let kind = match self.steps[before] {
                StepProgress::Ended(kind) => kind,
                _ => return false,
            };
            !matches!(kind, Kind::Succeeded | Kind::Skipped)
        };
        let before = self.step(place).after.iter().find(unmet).filter(|_| kind == Kind::Blocked)?;
        Some(format!("by {}", self.step(*before).label))
    }

    /// Changes the state of a step and the counters. Nothing else changes them.
    fn set_progress(&mut self, place: usize, progress: StepProgress) {
        self.waiting.remove(&place);
        self.notes.remove(&place);
        let before = std::mem::replace(&mut self.steps[place], progress);
        if let Some(count) = before.kind().and_then(|kind| self.counts.of(kind)) {
            *count -= 1;
        }
        if let Some(count) = self.steps[place].kind().and_then(|kind| self.counts.of(kind)) {
            *count += 1;
        }
        if let StepProgress::Running { number, .. } = before {
            self.running.remove(&number);
            self.use_up(place, u64::saturating_sub);
        }
        if let StepProgress::Running { number, .. } = self.steps[place] {
            self.running.insert(number, place);
            self.use_up(place, u64::saturating_add);
        }
    }

    fn use_up(&mut self, place: usize, change: impl Fn(u64, u64) -> u64) {
        for &(resource, Quantity(amount)) in &self.outline.steps[place].uses {
            let Quantity(used) = &mut self.in_use[resource];
            *used = change(*used, amount);
        }
    }

    /// Returns the index of a step, and adds the step if the outline does not have it.
    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.steps.len();
        let (name, label) = (name.to_owned(), plain(name));
        self.places.insert(name.clone(), place);
        self.steps.push(StepProgress::Pending);
        let (after, uses, before) = (Vec::new(), Vec::new(), Before::default());
        self.outline.steps.push(StepOutline { name, label, after, uses, before });
        place
    }
}

impl StepProgress {
    fn kind(&self) -> Option<Kind> {
        match self {
            StepProgress::Pending => None,
            StepProgress::Running { .. } => Some(Kind::Started),
            StepProgress::Ended(kind) => Some(*kind),
        }
    }
}

fn meaning(change: &StepChange) -> Kind {
    match change.state {
        WorkState::Running => Kind::Started,
        WorkState::Pending => Kind::Again,
        state => Kind::of_end(state, change.skipped).expect("all that is left are ends"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
