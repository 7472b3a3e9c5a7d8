//! Why a step does not run: every reason, with who stands in the way, since when, and until when.

use std::collections::{BTreeSet, VecDeque};

use windlass_core::{Amount, EdgeKind, Grant, Name, Reason, Short, Shortage, Timestamp, WorkId};
use windlass_store::{NameView, Process, Store, StoredLease, StoredTicket};
use windlass_workflow::EdgeCondition;

use super::find::found;
use super::holder::Attempt;
use super::run::{Seen, slate_of};
use super::turn::tell_habits;
use super::{
    Estimate, Expectations, Expected, LookError, People, RunState, RunView, StepState, StepView,
};
use crate::clock::millis;

/// Why a step is where it is.
#[non_exhaustive]
pub struct Explanation {
    /// The run, as it stood.
    pub view: RunView,
    /// The step's place in it.
    pub place: usize,
    /// Why it does not run; empty if it runs or has ended.
    pub reasons: Vec<WaitReason>,
    /// The steps that are to blame if it is blocked.
    pub causes: Vec<Cause>,
    /// Why it was skipped, if it was.
    pub skipped: Option<Skipped>,
    /// When it may start, as far as earlier runs tell.
    pub estimate: Option<Estimate>,
    /// How long it usually takes.
    pub expected: Option<Expected>,
}

/// Why a step was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// It was only for the failure of a step that did not fail.
    NoFailure {
        /// The place of that step in [`RunView::steps`].
        place: usize,
    },
    /// Its `when` said so.
    When,
}

/// One thing that stands between a step and its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// Nobody leads the run.
    Interrupted,
    /// A step has to end first.
    Step {
        /// Its place in [`RunView::steps`].
        place: usize,
        /// How it must end.
        condition: EdgeCondition,
    },
    /// A guard has not passed.
    Guard {
        /// What it is called.
        guard: String,
        /// Since when it is waited for.
        since_ms: i64,
        /// How often it was checked.
        checks: u32,
        /// What came of the last check.
        said: Option<String>,
        /// A person has to decide.
        escalated: bool,
    },
    /// What decides whether it runs has not been looked at, or not lately.
    Gate {
        /// The guards that must pass.
        guards: Vec<String>,
    },
    /// Its next attempt comes later.
    Retry {
        /// When.
        at_ms: i64,
        /// Which attempt that will be.
        attempt: u32,
    },
    /// There is too little of something that the steps of the run share.
    Resource {
        /// What it is called; `slots` for room to run at all.
        name: String,
        /// How much it needs.
        wanted: Amount,
        /// How much is there for it.
        free: Amount,
        /// The steps that have some of it.
        holders: Vec<String>,
        /// The step that some of it is set aside for.
        set_aside_for: Option<String>,
    },
    /// Too much was started lately.
    Rate {
        /// What the rate is called.
        name: String,
        /// How much it needs.
        wanted: Amount,
        /// When there is enough; none if others come first.
        at_ms: Option<i64>,
    },
    /// Others stand before it in the run's own line.
    Line {
        /// How many.
        ahead: usize,
        /// The first of them.
        first: String,
    },
    /// Another holder has a name that all who use the store share.
    Name {
        /// The name.
        name: Name,
        /// Who has it.
        holders: Vec<HolderView>,
        /// Who stands before it in line.
        ahead: Vec<HolderView>,
        /// Since when it stands in line.
        since_ms: i64,
    },
    /// Its turn has come.
    Starting,
}

/// Who holds or waits for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderView {
    /// What people call it: `RUN/STEP` for a step.
    pub name: String,
    /// Since when.
    pub since_ms: i64,
    /// Its process.
    pub pid: Option<u32>,
    /// What that process was called with, as far as it can be seen.
    pub command: Option<String>,
    /// How many slots it has or wants.
    pub weight: u32,
    /// Its process has ended.
    pub gone: bool,
    /// How long it usually takes, if it is a step and its earlier runs tell.
    pub usually_ms: Option<i64>,
}

/// A step that is to blame for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// The step that failed or was cancelled, by its place in [`RunView::steps`].
    pub place: usize,
    /// The blocked steps in between, from the one that is asked about.
    pub through: Vec<usize>,
}

impl Explanation {
    /// Why the step called `step` of the run that `run` stands for is where it is.
    pub fn of(store: &mut Store, run: &str, step: &str) -> Result<Self, LookError> {
        let dir = store.dir().to_owned();
        let run = store.look(|transaction| found(transaction, run))??;
        let slate = slate_of(store, &run.id);
        let (seen, names, people) = store.look(|transaction| {
            let names = transaction.overview()?;
            let people = people(transaction, &names)?;
            Ok((Seen::of(transaction, run, &slate)?, names, people))
        })?;
        let mut view = RunView::of(seen, &dir)?;
        let place = view.place(step)?;
        let expectations = Expectations::of(store, &view.workflow, &view.run.id)?;
        let mut reasons = Asking { names: &names, people: &people }.reasons(&mut view, place);
        tell_habits(store, &mut reasons)?;
        let estimate = Estimate::of(&view, &expectations, place).filter(|_| !reasons.is_empty());
        Ok(Self {
            causes: causes(&view.steps, place),
            skipped: skipped(&view.steps, place),
            estimate: estimate.or_else(|| Estimate::of_turn(&reasons, view.now_ms)),
            expected: expectations.step(&view.steps[place].name),
            reasons,
            place,
            view,
        })
    }

    /// The step that is asked about.
    #[must_use]
    pub fn step(&self) -> &StepView {
        &self.view.steps[self.place]
    }
}

fn people(
    transaction: &windlass_store::Transaction<'_>,
    names: &[NameView],
) -> Result<People, windlass_store::StoreError> {
    let held = names.iter().flat_map(|name| &name.leases).map(|stored| &stored.lease.holder);
    let wanted = names.iter().flat_map(|name| &name.tickets).map(|stored| &stored.ticket.holder);
    let holders: Vec<_> = held.chain(wanted).map(windlass_core::HolderId::as_str).collect();
    People::read(transaction, &holders)
}

/// The names of the machine, and who is behind them.
struct Asking<'a> {
    names: &'a [NameView],
    people: &'a People,
}

impl Asking<'_> {
    fn reasons(&self, view: &mut RunView, place: usize) -> Vec<WaitReason> {
        if view.steps[place].state.is_end() {
            return Vec::new();
        }
        let work = WorkId::from_index(place);
        match (view.state, view.steps[place].state) {
            // One that has run, and must hold something before it counts as a success.
            (RunState::UnderWay { .. }, StepState::Running) => guards(view, work),
            (RunState::UnderWay { .. }, _) => self.live_reasons(view, work),
            _ => lasting_reasons(view, work),
        }
    }

    /// Why a step of a run that somebody leads does not run.
    fn live_reasons(&self, view: &mut RunView, work: WorkId) -> Vec<WaitReason> {
        let before = view.schedule.reasons(work);
        let refused = self.refused(view);
        view.schedule.settle(|work| refused.contains(&work));
        let now = view.schedule.reasons(work);
        // What time alone has ended since is for its leader to find out.
        let found = if now.is_empty() { before } else { now };
        let mut reasons = self.names_of(view, work);
        reasons.extend(guards(view, work));
        found.iter().for_each(|reason| reasons.extend(translated(view, work, reason)));
        if reasons.len() > 1 {
            reasons.retain(|reason| *reason != WaitReason::Starting);
        }
        reasons
    }

    /// The steps that stand in line for names.
    fn refused(&self, view: &RunView) -> BTreeSet<WorkId> {
        let tickets = self.names.iter().flat_map(|name| &name.tickets);
        let attempts = tickets.filter_map(|stored| Attempt::read(stored.ticket.holder.as_str()));
        let own = attempts.filter(|attempt| attempt.run == view.run.id);
        let grants = own.map(|attempt| attempt.grant);
        grants
            .filter(|grant| next_attempt(view, grant.work) == *grant)
            .map(|grant| grant.work)
            .collect()
    }

    /// The names that refuse a step.
    fn names_of(&self, view: &RunView, work: WorkId) -> Vec<WaitReason> {
        let grant = next_attempt(view, work);
        let mut reasons = Vec::new();
        for seen in self.names {
            let own = |stored: &StoredTicket| {
                Attempt::read(stored.ticket.holder.as_str())
                    .is_some_and(|attempt| attempt.run == view.run.id && attempt.grant == grant)
            };
            let Some(place) = seen.tickets.iter().position(own) else { continue };
            let ticket = &seen.tickets[place];
            // It may have been refused, and be there for it by now, while it waits for others.
            let is_there = seen.leases.is_empty() && place == 0;
            if ticket.ticket.refused.contains(&seen.name) && !is_there {
                let holders = seen.leases.iter().map(|lease| self.holder(lease)).collect();
                let ahead = seen.tickets[..place].iter();
                let ahead = ahead.map(|stored| self.waiter(&seen.name, stored)).collect();
                let (name, since_ms) = (seen.name.clone(), ticket.since_ms);
                reasons.push(WaitReason::Name { name, holders, ahead, since_ms });
            }
        }
        reasons
    }

    fn holder(&self, stored: &StoredLease) -> HolderView {
        let process = stored.owner.process.as_ref();
        HolderView {
            name: self.people.name(&stored.lease.holder),
            since_ms: stored.owner.since_ms,
            pid: process.map(|process| process.pid),
            command: process.and_then(command_of),
            weight: stored.lease.weight,
            gone: stored.owner.is_gone(),
            usually_ms: None,
        }
    }

    fn waiter(&self, name: &Name, stored: &StoredTicket) -> HolderView {
        let process = stored.process.as_ref();
        let need = stored.ticket.needs.iter().find(|need| need.name == *name);
        HolderView {
            name: self.people.name(&stored.ticket.holder),
            since_ms: stored.since_ms,
            pid: process.map(|process| process.pid),
            command: process.and_then(command_of),
            weight: need.map_or(1, |need| need.weight),
            gone: stored.is_gone(),
            usually_ms: None,
        }
    }
}

/// Why a step of a run that nobody leads would not run at once if somebody did.
fn lasting_reasons(view: &RunView, work: WorkId) -> Vec<WaitReason> {
    let lasting = |reason: &&Reason| {
        matches!(reason, Reason::Dependency(_) | Reason::Gate | Reason::Retry { .. })
    };
    let found = view.schedule.reasons(work);
    let found = found.iter().filter(lasting);
    let lasting = found.flat_map(|reason| translated(view, work, reason));
    let guards = guards(view, work);
    std::iter::once(WaitReason::Interrupted).chain(guards).chain(lasting).collect()
}

/// What the engine says, with names in the place of numbers.
fn translated(view: &RunView, work: WorkId, reason: &Reason) -> Vec<WaitReason> {
    let name = |work: WorkId| view.steps[work.index()].name.clone();
    match reason {
        Reason::Dependency(dependency) => {
            let condition = condition_of(dependency.kind);
            vec![WaitReason::Step { place: dependency.work.index(), condition }]
        }
        Reason::Gate if guards(view, work).is_empty() => {
            let plan = view.schedule.plan();
            let guards = plan.steps[work.index()].guards.iter();
            let guards = guards.map(|place| plan.guards[*place].name.clone()).collect();
            vec![WaitReason::Gate { guards }]
        }
        Reason::Retry { at } => {
            let attempt = next_attempt(view, work).attempt;
            vec![WaitReason::Retry { at_ms: millis(*at), attempt }]
        }
        Reason::Short { shortage, holders, set_aside_for } => {
            let holders = holders.iter().map(|work| name(*work)).collect();
            vec![short(view, shortage, holders, set_aside_for.map(name))]
        }
        // The names and guards that refuse it are told by themselves.
        Reason::Outside | Reason::Gate | Reason::Line { ahead: 0, .. } => Vec::new(),
        Reason::Line { ahead, first } => {
            vec![WaitReason::Line { ahead: *ahead, first: name(*first) }]
        }
        _ => vec![WaitReason::Starting],
    }
}

fn next_attempt(view: &RunView, work: WorkId) -> Grant {
    let begun = view.schedule.engine().attempts(work).unwrap_or_default();
    Grant { work, attempt: begun + 1 }
}

/// The guards that a step waits for.
fn guards(view: &RunView, work: WorkId) -> Vec<WaitReason> {
    let own = view.waits.iter().filter(|wait| wait.work == work);
    own.map(|wait| WaitReason::Guard {
        guard: wait.guard.clone(),
        since_ms: wait.since_ms,
        checks: wait.checks,
        said: wait.said.clone(),
        escalated: wait.escalated,
    })
    .collect()
}

fn short(
    view: &RunView,
    shortage: &Shortage,
    holders: Vec<String>,
    set_aside_for: Option<String>,
) -> WaitReason {
    let (name, wanted) = (view.schedule.resource(shortage.resource).to_owned(), shortage.wanted);
    match shortage.why {
        Short::Limit { free, set_aside } => {
            let free = Amount::from_steps(u64::try_from((free - set_aside).max(0)).unwrap_or(0));
            WaitReason::Resource { name, wanted, free, holders, set_aside_for }
        }
        Short::Rate { at } | Short::Quota { at } => {
            let at_ms = (at != Timestamp::MAX).then(|| millis(at));
            WaitReason::Rate { name, wanted, at_ms }
        }
        _ => WaitReason::Rate { name, wanted, at_ms: None },
    }
}

/// The command line of a process that lives where we can see it.
fn command_of(process: &Process) -> Option<String> {
    let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
    // Looked at afterwards, so that it is not that of another life of the same number.
    if !process.is_in_sight() || process.is_gone() {
        return None;
    }
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    Some(words.join(" ").trim().to_owned()).filter(|line| !line.is_empty())
}

fn condition_of(kind: EdgeKind) -> EdgeCondition {
    match kind {
        EdgeKind::Success => EdgeCondition::Success,
        EdgeKind::Done => EdgeCondition::Done,
        EdgeKind::Failed => EdgeCondition::Failed,
    }
}

/// The steps that failed or were cancelled, and so block the one at `place`; each by the shortest
/// way.
fn causes(steps: &[StepView], place: usize) -> Vec<Cause> {
    if steps[place].state != StepState::Blocked {
        return Vec::new();
    }
    let (mut seen, mut causes) = (BTreeSet::from([place]), Vec::new());
    let mut open = VecDeque::from([(place, Vec::new())]);
    while let Some((step, through)) = open.pop_front() {
        for edge in &steps[step].after {
            let state = steps[edge.step].state;
            if !blocks(edge.condition, state) || !seen.insert(edge.step) {
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

fn skipped(steps: &[StepView], place: usize) -> Option<Skipped> {
    if steps[place].state != StepState::Skipped {
        return None;
    }
    let fine = |edge: &&windlass_workflow::Edge| {
        let state = steps[edge.step].state;
        edge.condition == EdgeCondition::Failed
            && matches!(state, StepState::Success | StepState::Skipped)
    };
    let unneeded = steps[place].after.iter().find(fine);
    Some(unneeded.map_or(Skipped::When, |edge| Skipped::NoFailure { place: edge.step }))
}

/// Whether a step that ended so can no longer end as one behind it needs.
fn blocks(condition: EdgeCondition, state: StepState) -> bool {
    use StepState::{Blocked, Cancelled, Failed};
    match condition {
        EdgeCondition::Success => matches!(state, Failed | Blocked | Cancelled),
        EdgeCondition::Done => false,
        EdgeCondition::Failed => matches!(state, Blocked | Cancelled),
    }
}
