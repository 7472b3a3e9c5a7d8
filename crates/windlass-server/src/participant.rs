//! A participant in the limits of the store: a run in the foreground, or all submitted runs together.
//!
//! Its capacity tree is given what others leave of each limit, so that the tree decides which work starts
//! next. If only a limit refuses the first of its works, the participant has one place in the queues of what
//! that work needs, whatever waits behind it; its works claim at that place. So participants take turns,
//! however many works each of them has.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Amount, HolderId, Name, Need, Token};
use windlass_store::{
    Claim, LimitRoom, LimitShare, Process, Refused, RunRecord, StoreError, Transaction,
};

use crate::coordinator::served::NO_EPOCH;
use crate::look::holder::Attempt;
use crate::schedule::{LimitWait, SharedCapacity};

/// Who takes from the limits of a store, under one place in their queues.
pub(crate) struct Participant {
    works: Works,
    place: HolderId,
    process: Process,
    limits: BTreeSet<String>,
}

/// The works of a participant.
pub(crate) enum Works {
    /// The steps of a run in the foreground.
    OfRun(String),
    /// The steps of all submitted runs.
    Submitted,
}

impl Works {
    /// Returns the works to which the steps of a run belong.
    pub(crate) fn of(run: &RunRecord) -> Self {
        match run.env {
            Some(_) => Works::Submitted,
            None => Works::OfRun(run.id.clone()),
        }
    }

    /// Returns the holder of their place in the queues of limits.
    pub(crate) fn place(&self) -> HolderId {
        match self {
            Works::OfRun(run) => HolderId::new(format!("run {run}")),
            Works::Submitted => HolderId::new("submitted runs"),
        }
    }

    /// Returns whether a holder of names is one of them.
    pub(crate) fn contain(&self, holder: &HolderId) -> bool {
        let Some(attempt) = Attempt::read(holder.as_str()) else { return false };
        match self {
            Works::OfRun(run) => attempt.run == run,
            Works::Submitted => attempt.epoch == NO_EPOCH,
        }
    }
}

/// How a participant asks in one transaction.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// The priority of a work that would come first; larger is more urgent.
    pub(crate) priority: i16,
    /// The wake-up to notify when its turn has come.
    pub(crate) wakeup: Option<&'a str>,
    /// Stale holds of which no process is left.
    pub(crate) cleared: &'a [(Name, Token)],
}

/// What a participant waits for after a transaction.
pub(crate) enum LimitTurn {
    /// Nothing.
    Nothing,
    /// Others hold what its first work needs, or come before it.
    Refused(Refused),
    /// A limit is missing or too small for the work: the store has to be changed.
    Impossible(String),
    /// What it needs has become free: a dead holder was removed.
    Free,
}

impl Participant {
    /// Creates the participant for a run in the foreground, which `process` leads.
    pub(crate) fn of_run(run: &str, process: Process, limits: BTreeSet<String>) -> Self {
        let works = Works::OfRun(run.to_owned());
        Self { place: works.place(), works, process, limits }
    }

    /// Creates the participant for all runs that `process` schedules.
    pub(crate) fn of_scheduler(process: Process) -> Self {
        let works = Works::Submitted;
        Self { place: works.place(), works, process, limits: BTreeSet::new() }
    }

    /// Sets the limits that its runs use.
    pub(crate) fn set_limits(&mut self, limits: BTreeSet<String>) {
        self.limits = limits;
    }

    /// Returns its place in the queues of limits.
    pub(crate) fn place(&self) -> &HolderId {
        &self.place
    }

    /// Returns whether no work of it uses a limit.
    pub(crate) fn is_idle(&self) -> bool {
        self.limits.is_empty()
    }

    /// Gives its works what they have of the limits, and what others leave of them.
    pub(crate) fn share(
        &self,
        transaction: &Transaction<'_>,
        asking: Asking<'_>,
        capacity: &SharedCapacity,
    ) -> Result<BTreeMap<String, LimitRoom>, StoreError> {
        if self.is_idle() {
            return Ok(BTreeMap::new());
        }
        let share = LimitShare {
            place: &self.place,
            priority: i64::from(asking.priority),
            is_own: &|holder| self.works.contain(holder),
            ended: asking.cleared,
        };
        let rooms = transaction.limits().rooms(&self.limits, &share)?;
        capacity.share(&self.limits, &rooms);
        Ok(rooms)
    }

    /// Takes, keeps or leaves its place in the queues, after works have started. `has_started` says whether
    /// one of them uses a limit: then its turn is over, and it waits behind the others.
    pub(crate) fn queue(
        &self,
        transaction: &Transaction<'_>,
        asking: Asking<'_>,
        rooms: &BTreeMap<String, LimitRoom>,
        wait: Option<&LimitWait>,
        has_started: bool,
    ) -> Result<LimitTurn, StoreError> {
        if self.is_idle() {
            return Ok(LimitTurn::Nothing);
        }
        let Some(wait) = wait else {
            self.leave(transaction)?;
            return Ok(LimitTurn::Nothing);
        };
        if let Some(why) = wait.needs.iter().find_map(|need| impossible(need, rooms)) {
            self.leave(transaction)?;
            return Ok(LimitTurn::Impossible(why));
        }
        if has_started {
            self.leave(transaction)?;
        }
        let Asking { wakeup, cleared: ended, .. } = asking;
        let (process, priority) = (Some(&self.process), i64::from(wait.priority));
        let claim = Claim::new(&self.place, &wait.needs);
        let claim = Claim { process, wakeup, ended, priority, ..claim };
        match transaction.leases().refusal(&claim)? {
            Some(refused) => Ok(LimitTurn::Refused(refused)),
            None => Ok(LimitTurn::Free),
        }
    }

    /// Gives up its place in the queues.
    pub(crate) fn leave(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        match self.is_idle() {
            true => Ok(()),
            false => transaction.leases().leave_queue(&self.place),
        }
    }
}

/// Returns why a limit can never give what a work needs, if it cannot.
fn impossible(need: &Need, rooms: &BTreeMap<String, LimitRoom>) -> Option<String> {
    let (name, wanted) = (need.name.text(), Amount::from_steps(need.weight));
    match rooms.get(name) {
        None => Some(format!(
            "limit {name:?}, which was removed from the store; set it with: windlass limits set {name}=AMOUNT"
        )),
        Some(room) if room.limit < wanted => Some(format!(
            "limit {name:?}: it needs {wanted}, and the limit is {} now; raise it with: windlass limits set \
             {name}={wanted}",
            room.limit
        )),
        Some(_) => None,
    }
}
