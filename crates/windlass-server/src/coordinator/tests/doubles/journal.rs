//! A journal without a store.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::{Name, Token};
use windlass_store::{Blocker, Decision, Event, OnWait, RunEnd, StoreError, WriterWait};

use super::super::super::RunError;
use super::super::super::journal::{
    Admission, Committed, Due, Journal, Record, Request, Start, SyncScope,
};
use super::world::{Seen, Shared};
use crate::schedule::Schedule;

/// A journal in memory, which can fail.
pub(in crate::coordinator::tests) struct FakeJournal {
    pub(super) world: Shared,
    pub(super) records: Vec<Record>,
    pub(super) fails_at: Option<usize>,
    pub(super) failed: bool,
    /// From which second on it is kept from writing, and for how many.
    pub(super) stall: Option<(u64, u64)>,
}

/// A wait for another process that keeps writers out.
struct Stall {
    world: Shared,
    since: u64,
}

impl WriterWait for Stall {
    fn stalled_for(&self) -> Duration {
        Duration::from_secs(self.world.borrow().seconds() - self.since)
    }

    fn blocker(&self) -> Blocker {
        Blocker::new("/gate".into(), None)
    }

    fn keep_leases(&self) -> bool {
        self.world.borrow_mut().leases_kept += 1;
        true
    }
}

impl FakeJournal {
    /// Waits for a process that keeps writers out, if it is time to.
    fn wait(&mut self, on_wait: OnWait<'_>) -> Result<(), RunError> {
        let since = self.world.borrow().seconds();
        let Some((_, seconds)) = self.stall.take_if(|(from, _)| *from <= since) else {
            return Ok(());
        };
        let stall = Stall { world: self.world.clone(), since };
        while stall.stalled_for() < Duration::from_secs(seconds) {
            match on_wait(&stall) {
                ControlFlow::Continue(pause) => {
                    let pause = u64::try_from(pause.as_nanos()).expect("not for ever");
                    self.world.borrow().clock.fetch_add(pause, Ordering::Relaxed);
                }
                ControlFlow::Break(error) => {
                    self.failed = true;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Counts what is to be stored, and fails if it is time to.
    fn write(&mut self, on_wait: OnWait<'_>) -> Result<(), RunError> {
        self.wait(on_wait)?;
        let mut world = self.world.borrow_mut();
        world.writes += 1;
        if self.fails_at == Some(world.writes) {
            self.failed = true;
            world.see(Seen::JournalFailed);
            let source = io::Error::other("the disk is gone");
            return Err(RunError::Io { what: "the journal cannot be written", source });
        }
        Ok(())
    }
}

impl Journal for FakeJournal {
    fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    fn commit(
        &mut self,
        schedule: &mut Schedule,
        admission: Admission,
        on_wait: OnWait<'_>,
    ) -> Result<Committed, RunError> {
        let mut starts = Vec::new();
        while admission == Admission::Open
            && let Some(grant) = schedule.take_next()
        {
            schedule.begin(grant).expect("it was granted just now");
            // Every step holds one name, so that it may lose it.
            let names = vec![(Name::Lock("x".to_owned()), Token(1))];
            starts.push(Start { names, ..Start::plain(grant) });
        }
        self.write(on_wait)?;
        let mut world = self.world.borrow_mut();
        let facts = schedule.take_facts();
        if !facts.is_empty() {
            let now = world.clock.load(Ordering::Relaxed);
            world.unsynced_since.get_or_insert(now);
        }
        world.facts.extend(facts);
        for record in self.records.drain(..) {
            match record {
                Record::Attempt { record, .. } => {
                    world.attempts.push((record.work, record.attempt, record.end));
                }
                Record::Emit(event) => world.events.push(event),
                Record::Taken(number) => world.requests.retain(|asked| asked.number != number),
                Record::Wait(_) | Record::WaitOver(_) | Record::Undecided(_) | Record::Reopened => {
                }
            }
        }
        Ok(Committed { starts, refusals: Vec::new() })
    }

    fn begin_sync(&mut self) {}

    fn sync(&mut self, _: SyncScope, on_wait: OnWait<'_>) -> Result<(), RunError> {
        self.write(on_wait)?;
        let mut world = self.world.borrow_mut();
        (world.synced, world.unsynced_since) = (world.facts.len(), None);
        Ok(())
    }

    fn unsynced_for(&self) -> Option<Duration> {
        let world = self.world.borrow();
        let now = world.clock.load(Ordering::Relaxed);
        world.unsynced_since.map(|since| Duration::from_nanos(now - since))
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn loss(&mut self) -> Option<StoreError> {
        None
    }

    fn until_due(&self) -> Option<Duration> {
        None
    }

    fn store_due(&mut self, _: OnWait<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn on_due(
        &mut self,
        _: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Due, RunError> {
        Ok(Due::Nothing)
    }

    fn requests(&mut self) -> Result<Vec<Request>, RunError> {
        Ok(self.world.borrow().requests.clone())
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, RunError> {
        Ok(self.world.borrow().decisions.clone())
    }

    fn events(&mut self) -> Result<Vec<Event>, RunError> {
        Ok(std::mem::take(&mut self.world.borrow_mut().pending_events))
    }

    fn lost_name(
        &mut self,
        names: &[(Name, Token)],
        _: OnWait<'_>,
    ) -> Result<Option<Name>, RunError> {
        Ok(names.first().filter(|_| self.world.borrow().names_lost).map(|(name, _)| name.clone()))
    }

    fn finish(
        &mut self,
        schedule: &mut Schedule,
        end: Option<RunEnd>,
        on_wait: OnWait<'_>,
    ) -> Result<(), RunError> {
        self.write(on_wait)?;
        assert!(schedule.facts().is_empty(), "a run ends with facts that are not stored");
        let mut world = self.world.borrow_mut();
        world.synced = world.facts.len();
        world.ended = Some(end);
        Ok(())
    }
}
