//! The journal of a run in a store, led by this process.
//!
//! Facts and records go to the write-ahead log while they come quickly and the run shares no names, and
//! otherwise into one transaction of the store, in which names are claimed as well. A name whose holder has
//! died, but whose processes may still run, is not given away: the claim returns them as leftovers, they are
//! killed after the commit, and the next commit claims again. That is sound because a stale lease is never
//! revived.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use windlass_core::{Fact, Name, Phase, Token};
use windlass_store::{
    AttemptRecord, Decision, Durability, Event, JournalPosition, Leftover, OnWait, RunEnd, Store,
    StoreError, Transaction,
};

use super::super::identity::RunIdentity;
use super::super::requests::{forget_requests, target};
use super::super::{RunError, heeds_events, needs_names};
use super::admission::NameClaims;
use super::leader::Leader;
use super::reachability::Reachability;
use super::write_ahead::{WriteAhead, complete_journal};
use super::{Admission, Committed, Due, Journal, Record, Request, Start, SyncScope};
use crate::events::EventReader;
#[cfg(windlass_faults)]
use crate::fault::{self, Point};
use crate::leader_file;
use crate::participant::{Asking, Participant};
use crate::schedule::Schedule;

/// The durable state of a run that this process leads.
pub(in crate::coordinator) struct StoreJournal {
    store: Store,
    leader: Leader,
    identity: RunIdentity,
    /// Whether steps need names, which only the store can give.
    shares_names: bool,
    write_ahead: WriteAhead,
    /// Stale holds whose processes were ended here, so that the next commit can take their names.
    cleared: Vec<(Name, Token)>,
    reachability: Reachability,
    participant: Participant,
    /// None where no guard is woken by events.
    events: Option<EventReader>,
    /// A commit has not succeeded, so the engine knows more than the store.
    failed: bool,
}

impl StoreJournal {
    /// Leads a run whose journal has `facts`.
    pub(in crate::coordinator) fn new(
        mut store: Store,
        leader: Leader,
        identity: RunIdentity,
        schedule: &Schedule,
        facts: &[Fact],
    ) -> Result<Self, RunError> {
        // Opens the file to sync while there is room for another open file.
        store.file_to_sync();
        let plan = schedule.plan();
        let reachability = Reachability::new(&store, leader.process().clone(), plan)?;
        let events = match heeds_events(plan) {
            true => {
                let mut reader = store.try_clone()?;
                let after = reader.last_event()?;
                Some(EventReader::new(reader, after, Vec::new()))
            }
            false => None,
        };
        let process = leader.process().clone();
        let participant = Participant::of_run(identity.id(), process, schedule.limits());
        let stored = JournalPosition::default().with(facts);
        Ok(Self {
            write_ahead: WriteAhead::new(identity.logs(), stored),
            store,
            leader,
            identity,
            shares_names: plan.steps.iter().any(needs_names),
            cleared: Vec::new(),
            reachability,
            participant,
            events,
            failed: false,
        })
    }

    /// Returns all facts of a run that was led before, once the store has what a dead leader has
    /// left in the write-ahead log; and how its attempts have ended.
    pub(in crate::coordinator) fn replay(
        store: &mut Store,
        identity: &RunIdentity,
    ) -> Result<(Vec<Fact>, Vec<AttemptRecord>), RunError> {
        let facts = complete_journal(store, identity)?;
        let attempts = store.read(|transaction| transaction.steps().attempts(identity.id()))?;
        Ok((facts, attempts))
    }

    /// Gives up the lead of the run, which has ended like that, if it has.
    fn give_up(
        &mut self,
        schedule: &mut Schedule,
        end: Option<RunEnd>,
        on_wait: OnWait<'_>,
    ) -> Result<(), StoreError> {
        let Self { store, leader, identity, participant, .. } = self;
        let left = schedule.leave_queues(|_| true);
        store.transact_while(Durability::Full, on_wait, |transaction| {
            for grant in &left {
                transaction.leases().leave_queue(&identity.holder(*grant))?;
            }
            participant.leave(transaction)?;
            for wait in transaction.steps().guard_waits(identity.id())? {
                transaction.steps().delete_guard_wait(identity.id(), wait.work)?;
            }
            if end.is_some() {
                leader.expect_to_lead(transaction)?;
                transaction.runs().set_end(identity.id(), end)?;
                // What came too late is not meant for a retry of the run.
                forget_requests(transaction, identity.id())?;
            }
            leader.give_up(transaction)
        })
    }

    #[cfg(test)]
    pub(in crate::coordinator) fn set_pace(&mut self, pace: super::Pace) {
        self.write_ahead.set_pace(pace);
    }

    #[cfg(test)]
    pub(in crate::coordinator) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Stores everything in one commit. Works that need names begin in it, because only the store
    /// can tell whether they are free.
    fn store_all(
        &mut self,
        schedule: &mut Schedule,
        admission: Admission,
        on_wait: OnWait<'_>,
    ) -> Result<Committed, RunError> {
        self.failed = true;
        let leaves = |phase: Phase| phase == Phase::Paused || phase.state().is_terminal();
        let over = schedule.leave_queues(leaves);
        let Self {
            store, leader, identity, shares_names, write_ahead, cleared, participant, ..
        } = self;
        let wakeup = self.reachability.wakeups().turn();
        let mut granted = Vec::new();
        let stored = store.transact_while(Durability::Process, on_wait, |transaction| {
            write_records(transaction, identity.id(), write_ahead.records())?;
            for grant in &over {
                transaction.leases().leave_queue(&identity.holder(*grant))?;
            }
            let process = leader.process();
            let place = participant.place();
            let mut claims =
                NameClaims::new(transaction, identity, process, place, cleared, wakeup);
            let committed = match *shares_names && admission == Admission::Open {
                true => {
                    schedule.stop_time();
                    schedule.keep_granted(&mut granted);
                    let priority = schedule.plan().priority;
                    let asking = Asking { priority, wakeup, cleared };
                    claims.admit_all(schedule, &mut granted, participant, asking)?
                }
                false => {
                    participant.leave(transaction)?;
                    schedule.set_waits_for_limits(false);
                    Committed::default()
                }
            };
            let begun = schedule.starts_of(committed.starts.iter().map(|start| start.grant));
            let (run, epoch) = (identity.id(), identity.epoch());
            match begun.is_empty() {
                true => transaction.facts().append(run, epoch, write_ahead.facts())?,
                false => {
                    let facts = [write_ahead.facts(), &begun].concat();
                    transaction.facts().append(run, epoch, &facts)?;
                }
            }
            #[cfg(windlass_faults)]
            Point::BeforeCommit.reached();
            Ok((committed, claims.leftovers, begun))
        });
        schedule.go_on();
        let (committed, leftovers, begun) = stored?;
        begun.iter().for_each(|start| schedule.begin_stored(start));
        #[cfg(windlass_faults)]
        fault::note_digest(schedule.engine().digest());
        self.committed(&begun);
        self.end_leftovers(leftovers)?;
        Ok(committed)
    }

    /// Has the store take over what only the write-ahead log has, and what was recorded since.
    fn store_rest(&mut self, on_wait: OnWait<'_>) -> Result<(), RunError> {
        if self.write_ahead.is_empty() {
            return Ok(());
        }
        self.failed = true;
        let Self { store, identity, write_ahead, .. } = self;
        store.transact_while(Durability::Process, on_wait, |transaction| {
            write_records(transaction, identity.id(), write_ahead.records())?;
            transaction.facts().append(identity.id(), identity.epoch(), write_ahead.facts())?;
            #[cfg(windlass_faults)]
            Point::BeforeCommit.reached();
            Ok(())
        })?;
        self.committed(&[]);
        Ok(())
    }

    fn committed(&mut self, facts: &[Fact]) {
        #[cfg(windlass_faults)]
        Point::AfterCommit.committed();
        self.failed = false;
        self.write_ahead.note_stored(facts);
    }

    /// Writes to the write-ahead log, if it may take this commit. Returns whether it has.
    fn write_ahead(&mut self, schedule: &Schedule, admission: Admission) -> bool {
        let goes_on = admission == Admission::Open && !schedule.engine().is_done();
        if !goes_on || self.shares_names || !self.write_ahead.accepts() {
            return false;
        }
        #[cfg(windlass_faults)]
        {
            fault::note_digest(schedule.engine().digest());
            Point::BeforeWalWrite.reached();
        }
        let written = self.write_ahead.append();
        #[cfg(windlass_faults)]
        if written {
            Point::AfterWalWrite.committed();
        }
        written
    }

    /// Ends what dead holders of the run's names have left running; the next commit takes the names.
    fn end_leftovers(&mut self, leftovers: Vec<Leftover>) -> Result<(), RunError> {
        self.cleared.clear();
        self.cleared = end_leftovers(self.store.dir(), leftovers)?;
        Ok(())
    }
}

impl Journal for StoreJournal {
    fn record(&mut self, record: Record) {
        self.write_ahead.add_record(record);
    }

    fn commit(
        &mut self,
        schedule: &mut Schedule,
        admission: Admission,
        on_wait: OnWait<'_>,
    ) -> Result<Committed, RunError> {
        self.write_ahead.note_commit();
        let mut starts = Vec::new();
        if !self.shares_names && admission == Admission::Open {
            starts = begin_all(schedule);
        }
        self.write_ahead.add_facts(schedule.take_facts());
        if self.write_ahead(schedule, admission) {
            return Ok(Committed { starts, ..Committed::default() });
        }
        let mut committed = self.store_all(schedule, admission, on_wait)?;
        starts.append(&mut committed.starts);
        Ok(Committed { starts, ..committed })
    }

    fn begin_sync(&mut self) {
        self.write_ahead.begin_sync(&mut self.store);
    }

    fn sync(&mut self, scope: SyncScope, on_wait: OnWait<'_>) -> Result<(), RunError> {
        if self.write_ahead.sync_log(scope) {
            self.store_rest(on_wait)?;
            self.store.sync()?;
            self.write_ahead.note_synced();
        }
        Ok(())
    }

    fn unsynced_for(&self) -> Option<Duration> {
        self.write_ahead.unsynced_for()
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn loss(&mut self) -> Option<StoreError> {
        self.store.read(|_| Ok(())).err().filter(StoreError::is_lost)
    }

    fn until_due(&self) -> Option<Duration> {
        // A name that was cleared has to be claimed again, and no wake-up comes for it.
        let cleared = (!self.cleared.is_empty()).then_some(Duration::ZERO);
        let dues = [cleared, self.write_ahead.until_stored(), self.reachability.until_due()];
        dues.into_iter().flatten().min()
    }

    fn store_due(&mut self, on_wait: OnWait<'_>) -> Result<(), RunError> {
        match self.write_ahead.until_stored() {
            Some(Duration::ZERO) => self.store_rest(on_wait),
            _ => Ok(()),
        }
    }

    fn on_due(
        &mut self,
        watch: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Due, RunError> {
        // A process that came earlier has woken nothing.
        let reachable = self.reachability.on_due(&self.store, watch)?;
        match reachable || !self.cleared.is_empty() {
            true => Ok(Due::LookAgain),
            false => Ok(Due::Nothing),
        }
    }

    fn requests(&mut self) -> Result<Vec<Request>, RunError> {
        self.reachability.wakeups().drain();
        let target = target(self.identity.id());
        let requests = self.store.read(|transaction| transaction.requests().pending(&target))?;
        let request = |request: windlass_store::Request| Request {
            number: request.number,
            text: request.text,
        };
        Ok(requests.into_iter().map(request).collect())
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, RunError> {
        let run = self.identity.id();
        Ok(self.store.read(|transaction| transaction.steps().decisions(run))?)
    }

    fn events(&mut self) -> Result<Vec<Event>, RunError> {
        let mut events = Vec::new();
        if let Some(reader) = &mut self.events {
            while !reader.is_at_end()? {
                events.extend(reader.read()?);
            }
        }
        Ok(events)
    }

    fn lost_name(
        &mut self,
        names: &[(Name, Token)],
        on_wait: OnWait<'_>,
    ) -> Result<Option<Name>, RunError> {
        for (name, token) in names {
            let check = |transaction: &Transaction<'_>| transaction.leases().check(name, *token);
            let (held, _) = self.store.transact_while(Durability::Process, on_wait, check)?;
            if !held.is_yes() {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    fn finish(
        &mut self,
        schedule: &mut Schedule,
        end: Option<RunEnd>,
        on_wait: OnWait<'_>,
    ) -> Result<(), RunError> {
        self.store_rest(on_wait)?;
        #[cfg(windlass_faults)]
        Point::BeforeStepDown.reached();
        self.give_up(schedule, end, on_wait)?;
        self.write_ahead.remove();
        Ok(())
    }
}

/// Begins every work that fits inside the run.
fn begin_all(schedule: &mut Schedule) -> Vec<Start> {
    let mut starts = Vec::new();
    while let Some(grant) = schedule.take_next() {
        schedule.begin(grant).expect("it was granted just now");
        starts.push(Start::plain(grant));
    }
    starts
}

/// Ends what dead holders have left running. Returns the stale holds whose names are free now.
pub(crate) fn end_leftovers(
    dir: &Path,
    leftovers: Vec<Leftover>,
) -> Result<Vec<(Name, Token)>, RunError> {
    let mut cleared = Vec::new();
    for leftover in leftovers {
        // Every waiter of a name reports the same leftover, and a search of all processes is slow.
        let seen = (leftover.name.clone(), leftover.token);
        if cleared.contains(&seen) {
            continue;
        }
        let what = "cannot kill the processes that a dead holder has left";
        let free = leader_file::end_leftover(dir, &leftover);
        if !free.map_err(|source| RunError::Io { what, source })? {
            continue;
        }
        cleared.push(seen);
        #[cfg(windlass_faults)]
        Point::AfterClearing.reached();
    }
    Ok(cleared)
}

/// Writes the records of a run, those of attempts together.
pub(in crate::coordinator) fn write_records(
    transaction: &Transaction<'_>,
    run: &str,
    records: &[Record],
) -> Result<(), StoreError> {
    let mut attempts = Vec::new();
    for record in records {
        match record {
            Record::Attempt { record, holder, names } => {
                for (name, token) in names {
                    transaction.leases().release(name, holder, *token)?;
                }
                attempts.push(record);
            }
            Record::Wait(wait) => transaction.steps().put_guard_wait(run, wait)?,
            Record::WaitOver(work) => transaction.steps().delete_guard_wait(run, *work)?,
            Record::Undecided(work) => transaction.steps().delete_decisions(run, *work)?,
            Record::Emit(event) => drop(transaction.events().emit(event)?),
            Record::Taken(number) => drop(transaction.requests().take(*number)?),
            Record::Reopened => transaction.runs().set_end(run, None)?,
        }
    }
    match attempts.is_empty() {
        true => Ok(()),
        false => transaction.steps().put_attempts(run, &attempts),
    }
}
