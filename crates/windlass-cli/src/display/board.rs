//! Where every step of a run stands, as far as the display has been told.
//!
//! Changes come in, and go out as events: what they mean, given what was known before. A change may
//! have been left out before one that comes, so nothing is taken for granted but the latest.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_server::WorkState;

use super::change::StepChange;
use super::outline::{Before, Outline, Quantity, StepOutline};
use crate::style::plain;

/// A run, and where its steps stand.
pub(crate) struct Board {
    pub(crate) outline: Outline,
    places: HashMap<String, usize>,
    steps: Vec<Standing>,
    counts: Counts,
    /// Those that run, in the order of their starts.
    running: BTreeMap<u64, usize>,
    starts: u64,
    /// What steps wait for that could start otherwise.
    waiting: BTreeMap<usize, String>,
    /// The same for steps that have begun, and keep what they have.
    notes: BTreeMap<usize, String>,
    in_use: Vec<Quantity>,
    failures: Vec<Event>,
}

/// Where one step stands.
#[derive(Clone, Debug)]
enum Standing {
    ToCome,
    Running { number: u64, attempt: Attempt },
    Ended(Kind),
}

/// An attempt that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    /// When it began, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// Where its output is.
    pub(crate) log: Option<PathBuf>,
}

/// What a change means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// The step's place.
    pub(crate) step: usize,
    /// Its latest attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// The number of attempts the step may have in all.
    pub(crate) most_attempts: u32,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// How long the attempt took that has ended.
    pub(crate) took: Option<Duration>,
    /// When its next attempt may begin, in milliseconds since 1970, if one comes later.
    pub(crate) due_ms: Option<u64>,
    pub(crate) why: Option<String>,
    /// Where the output of the attempt is.
    pub(crate) log: Option<PathBuf>,
    /// Where the output of its `finally` is, if the step failed because of that.
    pub(crate) finally_log: Option<PathBuf>,
}

impl Event {
    /// Returns the log that explains the event.
    pub(crate) fn telling_log(&self) -> Option<&Path> {
        self.finally_log.as_deref().or(self.log.as_deref())
    }
}

/// What happened to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It has to wait for something.
    Waits,
    /// An attempt began.
    Started,
    /// Another attempt comes, of a step whose attempt has ended or that had ended itself.
    Again,
    Succeeded,
    Skipped,
    Failed,
    Blocked,
    Cancelled,
}

impl Kind {
    /// How a step in this state has ended, if it has; `skipped` says whether a success was a skip.
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

/// How many steps stand where.
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

    /// The number that goes with what is shown of ends, if any of that kind is counted.
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
            steps: vec![Standing::ToCome; outline.steps.len()],
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
                board.stand(place, Standing::Ended(kind));
            }
        }
        board
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The step at a place.
    pub(crate) fn step(&self, place: usize) -> &StepOutline {
        &self.outline.steps[place]
    }

    /// Whether the attempt of an event began before the run went on, so that its output was shown then.
    pub(crate) fn is_earlier(&self, event: &Event) -> bool {
        event.attempt <= self.step(event.step).before.attempts
    }

    /// The attempts that are under way, in the order of their starts.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Attempt)> {
        self.running.values().filter_map(|&place| Some((place, self.attempt(place)?)))
    }

    /// The attempt of a step that is under way.
    pub(crate) fn attempt(&self, place: usize) -> Option<&Attempt> {
        match &self.steps[place] {
            Standing::Running { attempt, .. } => Some(attempt),
            _ => None,
        }
    }

    pub(crate) fn has_ended(&self, place: usize) -> bool {
        matches!(self.steps[place], Standing::Ended(_))
    }

    /// The steps that wait for something, and for what.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = (usize, &str)> {
        self.waiting.iter().map(|(&place, why)| (place, why.as_str()))
    }

    /// What a running step waits for, if it does.
    pub(crate) fn note(&self, place: usize) -> Option<&str> {
        self.notes.get(&place).map(String::as_str)
    }

    /// How much is in use of each resource, in the order of the outline.
    pub(crate) fn in_use(&self) -> &[Quantity] {
        &self.in_use
    }

    /// The steps that failed for good, in the order in which they did.
    pub(crate) fn failures(&self) -> &[Event] {
        &self.failures
    }

    /// Takes in that a step waits for something.
    pub(crate) fn wait(&mut self, step: &str, why: &str, at_ms: u64) -> Event {
        let (kind, step) = (Kind::Waits, self.place(step));
        // What can be done is told once; there is no room for it where lines are drawn again.
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

    /// Takes in a change; what it means.
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
        let standing = self.standing(&event);
        self.stand(place, standing);
        if kind == Kind::Failed {
            self.failures.push(event.clone());
        }
        event
    }

    fn standing(&mut self, event: &Event) -> Standing {
        match event.kind {
            Kind::Waits | Kind::Again => Standing::ToCome,
            Kind::Started => {
                self.starts += 1;
                let (number, since_ms, log) = (event.attempt, event.at_ms, event.log.clone());
                Standing::Running {
                    number: self.starts,
                    attempt: Attempt { number, since_ms, log },
                }
            }
            end => Standing::Ended(end),
        }
    }

    /// What can be said about a reason that was not told: who stands in the way of a blocked step.
    fn reason(&self, place: usize, kind: Kind) -> Option<String> {
        let unmet = |&&before: &&usize| {
            let kind = match self.steps[before] {
                Standing::Ended(kind) => kind,
                _ => return false,
            };
            !matches!(kind, Kind::Succeeded | Kind::Skipped)
        };
        let before = self.step(place).after.iter().find(unmet).filter(|_| kind == Kind::Blocked)?;
        Some(format!("by {}", self.step(*before).label))
    }

    /// The only place where the standing of a step changes, and what is counted by it.
    fn stand(&mut self, place: usize, standing: Standing) {
        self.waiting.remove(&place);
        self.notes.remove(&place);
        let before = std::mem::replace(&mut self.steps[place], standing);
        if let Some(count) = before.kind().and_then(|kind| self.counts.of(kind)) {
            *count -= 1;
        }
        if let Some(count) = self.steps[place].kind().and_then(|kind| self.counts.of(kind)) {
            *count += 1;
        }
        if let Standing::Running { number, .. } = before {
            self.running.remove(&number);
            self.use_up(place, u64::saturating_sub);
        }
        if let Standing::Running { number, .. } = self.steps[place] {
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

    /// The place of a step. One that the outline does not know gets a place of its own.
    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.steps.len();
        let (name, label) = (name.to_owned(), plain(name));
        self.places.insert(name.clone(), place);
        self.steps.push(Standing::ToCome);
        let (after, uses, before) = (Vec::new(), Vec::new(), Before::default());
        self.outline.steps.push(StepOutline { name, label, after, uses, before });
        place
    }
}

impl Standing {
    fn kind(&self) -> Option<Kind> {
        match self {
            Standing::ToCome => None,
            Standing::Running { .. } => Some(Kind::Started),
            Standing::Ended(kind) => Some(*kind),
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
