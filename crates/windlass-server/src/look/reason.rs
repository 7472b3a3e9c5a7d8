//! The reasons why the steps of a run wait, with names in the place of numbers.

use std::collections::BTreeMap;

use windlass_core::{
    Amount, Grant, HolderId, Lack, Name, Phase, Reason, SLOTS, Short, Shortage, Timestamp, WorkId,
    WorkerKind,
};
use windlass_store::{
    LimitKind, LimitRoom, NameView, StoreError, StoredLease, StoredWaiter, Transaction,
};
use windlass_workflow::SHARED;

use super::holder::{Attempt, command_line, other_host};
use super::{HolderNames, HolderView, RunState, RunView, StepState, WaitReason};
use crate::clock::millis;
use crate::participant::Works;
use crate::service::placement::Slots;

/// The names of the store, with their holders and waiters.
pub(super) struct Names {
    names: Vec<NameView>,
    holder_names: HolderNames,
    limits: BTreeMap<String, LimitKind>,
}

/// Returns the reasons why each of the steps at `places` waits.
pub(super) fn reasons(names: &Names, view: &mut RunView, places: &[usize]) -> Vec<Vec<WaitReason>> {
    let works: Vec<_> = places.iter().map(|place| view.work(*place)).collect();
    let queued = names.queued(view);
    // The run's leader finds out what has ended since by time alone.
    let before: Vec<_> = works.iter().map(|work| view.schedule.reasons(*work)).collect();
    if view.state.goes_on() {
        view.schedule.share(&names.rooms(view));
        view.schedule.settle(|work| queued.contains_key(&work));
    }
    let view = &*view;
    let explain = |((work, place), before): ((WorkId, &usize), Vec<Reason>)| {
        let state = view.steps[*place].state;
        match view.state {
            _ if state.is_end() => Vec::new(),
            // The step has run, and waits for what it has to ensure.
            _ if view.state.goes_on() && state == StepState::Running => guards(view, work),
            RunState::UnderWay { .. } | RunState::Paused { .. } | RunState::Queued { .. } => {
                let own = queued.get(&work).map_or(&[][..], Vec::as_slice);
                live_reasons(names, view, work, &before, own)
            }
            _ => lasting_reasons(view, work),
        }
    };
    works.into_iter().zip(places).zip(before).map(explain).collect()
}

/// Returns why a step of a run that a process leads does not run. `before` is what the journal alone says;
/// `queued` are the step's places in the queues of names.
fn live_reasons(
    names: &Names,
    view: &RunView,
    work: WorkId,
    before: &[Reason],
    queued: &[Queued],
) -> Vec<WaitReason> {
    let now = view.schedule.reasons(work);
    let found = if now.is_empty() { before } else { &now };
    let mut reasons = Vec::new();
    if let RunState::Queued { scheduler } = view.state {
        reasons
            .push(scheduler.map_or(WaitReason::NoScheduler, |pid| WaitReason::Scheduler { pid }));
    }
    reasons.extend(queued.iter().filter_map(|place| names.refusal(*place)));
    reasons.extend(guards(view, work));
    let translated = found.iter().flat_map(|reason| translated(view, work, reason));
    reasons.extend(translated.map(|reason| names.with_limit(view, reason)));
    if reasons.len() > 1 {
        reasons.retain(|reason| *reason != WaitReason::Starting);
    }
    reasons
}

/// A place in the queue of a name: that of the name among all, and that of the ticket in its queue.
#[derive(Clone, Copy)]
struct Queued {
    name: usize,
    ticket: usize,
}

impl Names {
    pub(super) fn read(transaction: &Transaction<'_>) -> Result<Self, StoreError> {
        let names = transaction.leases().overview()?;
        let held = names.iter().flat_map(|name| &name.leases).map(|stored| &stored.lease.holder);
        let tickets = names.iter().flat_map(|name| &name.waiters);
        let wanted = tickets.map(|stored| &stored.waiter.holder);
        let holders: Vec<_> = held.chain(wanted).map(HolderId::as_str).collect();
        let holder_names = HolderNames::read(transaction, &holders)?;
        Ok(Self { names, holder_names, limits: transaction.limits().all()? })
    }

    /// Returns what others leave a run of the limits that its steps use.
    fn rooms(&self, view: &RunView) -> BTreeMap<String, LimitRoom> {
        let names = view.schedule.limits().into_iter();
        names.filter_map(|name| Some((name.clone(), self.room(view, &name)?))).collect()
    }

    fn room(&self, view: &RunView, name: &str) -> Option<LimitRoom> {
        let limit = self.limits.get(name)?.amount();
        let held = self.users(name).into_iter().flat_map(|seen| &seen.leases);
        let free =
            held.fold(limit.steps(), |free, stored| free.saturating_sub(stored.lease.weight));
        let ahead = self.ahead(view, name).into_iter().map(|(_, weight)| weight);
        let free = Amount::from_steps(ahead.fold(free, u64::saturating_sub));
        Some(LimitRoom { limit, free })
    }

    fn users(&self, limit: &str) -> Option<&NameView> {
        self.names.iter().find(|seen| matches!(&seen.name, Name::Limit(name) if name == limit))
    }

    /// Returns the waiters that a limit has refused and that come before the place of a run, with what they
    /// need.
    fn ahead(&self, view: &RunView, limit: &str) -> Vec<(&StoredWaiter, u64)> {
        let Some(seen) = self.users(limit) else { return Vec::new() };
        let works = Works::of(&view.run);
        let place = works.place();
        let before = seen.waiters.iter().take_while(|stored| stored.waiter.holder != place);
        let before = before.filter(|stored| !works.contain(&stored.waiter.holder));
        let refused = before.filter(|stored| stored.waiter.refused.contains(&seen.name));
        let need = |stored: &StoredWaiter| {
            stored.waiter.needs.iter().find(|need| need.name == seen.name).map(|need| need.weight)
        };
        refused.filter_map(|stored| Some((stored, need(stored)?))).collect()
    }

    /// Puts a reason that says who has a limit of the store in the place of one that only says how much of it
    /// is short.
    fn with_limit(&self, view: &RunView, reason: WaitReason) -> WaitReason {
        let WaitReason::Resource { name, wanted, free, .. } = &reason else { return reason };
        let Some(limit) = name.strip_prefix(SHARED) else { return reason };
        let seen = self.users(limit);
        WaitReason::Limit {
            name: limit.to_owned(),
            wanted: *wanted,
            limit: self.limits.get(limit).map(LimitKind::amount),
            free: *free,
            holders: seen
                .into_iter()
                .flat_map(|seen| &seen.leases)
                .map(|stored| self.holder(stored))
                .collect(),
            ahead: self
                .ahead(view, limit)
                .into_iter()
                .map(|(stored, _)| self.waiter(&Name::Limit(limit.to_owned()), stored))
                .collect(),
        }
    }

    /// Returns the places of a run's steps in the queues of names.
    fn queued(&self, view: &RunView) -> BTreeMap<WorkId, Vec<Queued>> {
        let mut queued: BTreeMap<WorkId, Vec<Queued>> = BTreeMap::new();
        for (name, seen) in self.names.iter().enumerate() {
            for (ticket, stored) in seen.waiters.iter().enumerate() {
                let Some(attempt) = Attempt::read(stored.waiter.holder.as_str()) else { continue };
                let work = attempt.grant.work;
                if attempt.run == view.run.id && attempt.grant == next_attempt(view, work) {
                    queued.entry(work).or_default().push(Queued { name, ticket });
                }
            }
        }
        queued
    }

    /// Returns why a name refuses the step at this place of its queue, if it does.
    fn refusal(&self, queued: Queued) -> Option<WaitReason> {
        let seen = &self.names[queued.name];
        let ticket = &seen.waiters[queued.ticket];
        // The name may be free for the step by now, while the step waits for other names.
        let is_there = seen.leases.is_empty() && queued.ticket == 0;
        if !ticket.waiter.refused.contains(&seen.name) || is_there {
            return None;
        }
        let holders = seen.leases.iter().map(|lease| self.holder(lease)).collect();
        let ahead = seen.waiters[..queued.ticket].iter();
        let ahead = ahead.map(|stored| self.waiter(&seen.name, stored)).collect();
        let (name, since_ms) = (seen.name.clone(), ticket.since_ms);
        Some(WaitReason::Name { name, holders, ahead, since_ms })
    }

    fn holder(&self, stored: &StoredLease) -> HolderView {
        let process = stored.owner.process.as_ref();
        HolderView {
            name: self.holder_names.name(&stored.lease.holder),
            since_ms: stored.owner.since_ms,
            pid: process.map(|process| process.pid),
            command: process.and_then(command_line),
            host: other_host(stored.owner.host.as_deref()),
            weight: stored.lease.weight,
            gone: stored.owner.is_gone(),
            usually_ms: None,
        }
    }

    fn waiter(&self, name: &Name, stored: &StoredWaiter) -> HolderView {
        let process = stored.process.as_ref();
        let need = stored.waiter.needs.iter().find(|need| need.name == *name);
        HolderView {
            name: self.holder_names.name(&stored.waiter.holder),
            since_ms: stored.since_ms,
            pid: process.map(|process| process.pid),
            command: process.and_then(command_line),
            host: other_host(stored.host.as_deref()),
            weight: need.map_or(1, |need| need.weight),
            gone: stored.is_gone(),
            usually_ms: None,
        }
    }
}

/// Returns why a step of an interrupted run would not run at once if the run were resumed.
fn lasting_reasons(view: &RunView, work: WorkId) -> Vec<WaitReason> {
    let lasting = |reason: &&Reason| {
        matches!(
            reason,
            Reason::Dependency(_)
                | Reason::Gate
                | Reason::Retry { .. }
                | Reason::Paused
                | Reason::AllPaused
        )
    };
    let found = view.schedule.reasons(work);
    let found = found.iter().filter(lasting);
    let lasting = found.flat_map(|reason| translated(view, work, reason));
    let guards = guards(view, work);
    std::iter::once(WaitReason::Interrupted).chain(guards).chain(lasting).collect()
}

/// Translates a reason of the engine: names in the place of numbers.
fn translated(view: &RunView, work: WorkId, reason: &Reason) -> Vec<WaitReason> {
    let name = |work: WorkId| view.schedule.step(work).name.clone();
    match reason {
        Reason::Dependency(dependency) => {
            let place = view.place(dependency.work).into_iter();
            place.map(|place| WaitReason::Step { place, kind: dependency.kind }).collect()
        }
        Reason::Gate if view.schedule.opens_at(work).is_some() => {
            let opens = view.schedule.opens_at(work).into_iter();
            opens.map(|at| WaitReason::Time { at_ms: millis(at) }).collect()
        }
        Reason::Gate if guards(view, work).is_empty() => {
            let plan = view.schedule.plan();
            let guards = view.schedule.step(work).gate.guards.iter();
            let guards = guards.map(|place| plan.guards[*place].name.clone()).collect();
            vec![WaitReason::Gate { guards }]
        }
        Reason::Paused => vec![WaitReason::Paused],
        Reason::AllPaused => vec![WaitReason::RunPaused],
        Reason::Retry { at } => {
            let attempt = next_attempt(view, work).attempt;
            vec![WaitReason::Retry { at_ms: millis(*at), attempt }]
        }
        Reason::Short { shortage, holders, reserved_for } => {
            let holders = holders.iter().map(|work| name(*work)).collect();
            vec![short(view, shortage, holders, reserved_for.map(name))]
        }
        Reason::Workers { kinds, beside } => vec![no_worker(view, kinds, *beside)],
        // The names and guards that refuse it are reasons of their own.
        Reason::Outside | Reason::Gate | Reason::Queued { ahead: 0, .. } => Vec::new(),
        Reason::Queued { ahead, first } => {
            vec![WaitReason::Queue { ahead: *ahead, first: name(*first) }]
        }
        _ => vec![WaitReason::Starting],
    }
}

fn next_attempt(view: &RunView, work: WorkId) -> Grant {
    let begun = view.schedule.engine().attempts(work).unwrap_or_default();
    Grant { work, attempt: begun + 1 }
}

/// Returns the guards that a step waits for.
fn guards(view: &RunView, work: WorkId) -> Vec<WaitReason> {
    let own = view.waits.iter().filter(|wait| wait.work == work);
    own.map(|wait| WaitReason::Guard {
        guard: wait.guard.clone(),
        since_ms: wait.since_ms,
        checks: wait.checks,
        said: wait.last_result.clone(),
        escalated: wait.escalated,
    })
    .collect()
}

/// Returns why no worker takes a step.
fn no_worker(view: &RunView, kinds: &[WorkerKind], beside: Option<WorkId>) -> WaitReason {
    let Slots { all, others } = view.slots.unwrap_or(Slots { all: 0, others: 0 });
    let beside = beside.map(|work| view.schedule.step(work).name.clone());
    let lacks = || kinds.iter().flat_map(|kind| &kind.lacks);
    let are_full = lacks().all(|lack| {
        matches!(lack, Lack::Free { resource, free, reserved, .. }
            if resource == SLOTS && *free < Amount::ONE && *reserved == Amount::ZERO)
    });
    if !are_full || beside.is_some() {
        return WaitReason::NoWorker { kinds: kinds.to_vec(), beside };
    }
    let holds = |work: &WorkId| view.schedule.engine().phase(*work).is_some_and(Phase::holds);
    let holders = view.schedule.works().filter(holds);
    let holders = holders.map(|work| view.schedule.step(work).name.clone()).collect();
    WaitReason::Workers { slots: all, others, holders }
}

fn short(
    view: &RunView,
    shortage: &Shortage,
    holders: Vec<String>,
    reserved_for: Option<String>,
) -> WaitReason {
    let (name, wanted) = (view.schedule.resource(shortage.resource), shortage.wanted);
    match shortage.why {
        Short::Limit { free, reserved } => {
            let free = Amount::from_steps(u64::try_from((free - reserved).max(0)).unwrap_or(0));
            WaitReason::Resource { name, wanted, free, holders, reserved_for }
        }
        Short::Rate { at } | Short::Quota { at } => {
            let at_ms = (at != Timestamp::MAX).then(|| millis(at));
            WaitReason::Rate { name, wanted, at_ms }
        }
        _ => WaitReason::Rate { name, wanted, at_ms: None },
    }
}
