//! Orders and reports: what a scheduler has workers execute, and how that ended.

use std::collections::BTreeMap;

use windlass_core::{Name, Presence};

use super::Notices;
use crate::clock::{Clock, ClockReading};
use crate::error::StoreError;
use crate::lease::StoredLease;
use crate::name::check_text;
use crate::order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker};
use crate::process::{Liveness, Process};
use crate::tables::{LeaseChanges, Look, Tables};
use crate::wakeup::Topic;

/// The orders, the reports and the workers of a store, within a [`Transaction`](super::Transaction).
pub struct Orders<'a> {
    tables: &'a dyn Tables,
    clock: &'a dyn Clock,
    now: &'a ClockReading,
    notices: &'a Notices,
}

impl<'a> Orders<'a> {
    pub(super) fn new(
        tables: &'a dyn Tables,
        clock: &'a dyn Clock,
        now: &'a ClockReading,
        notices: &'a Notices,
    ) -> Self {
        Self { tables, clock, now, notices }
    }

    /// Writes orders of a run for workers, and returns their tokens.
    pub fn write(&self, run: &str, orders: &[NewOrder]) -> Result<Vec<u64>, StoreError> {
        self.notices.add(Topic::Orders);
        self.tables.insert_orders(run, orders)
    }

    /// Has schedulers look at the store after the commit.
    pub fn announce(&self) {
        self.notices.add(Topic::Reports);
    }

    /// Has workers look at the store after the commit.
    pub fn tell_workers(&self) {
        self.notices.add(Topic::Orders);
    }

    /// Says how an order is to end. Does nothing if it has been taken in already.
    pub fn wish(&self, token: u64, wish: &str) -> Result<(), StoreError> {
        self.notices.add(Topic::Orders);
        self.tables.set_wish(token, wish)
    }

    /// Says what is read next, before anything of it is written.
    pub fn expect(&self, look: Look<'_>) -> Result<(), StoreError> {
        self.tables.expect(look)
    }

    /// Returns the orders of a life with tokens above `after`, in order.
    pub fn of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError> {
        self.tables.orders_of_life(life, after)
    }

    /// Returns the tokens of the orders of a life, each with its wish.
    pub fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        self.tables.wishes(life)
    }

    /// Returns the orders that earlier lives of a worker have not reported.
    pub fn before(&self, life: &Life) -> Result<Vec<StoredOrder>, StoreError> {
        self.tables.orders_before(life)
    }

    /// Returns the orders of a run that were not taken in, in order.
    pub fn of_run(&self, run: &str) -> Result<Vec<StoredOrder>, StoreError> {
        self.tables.orders_of_run(run)
    }

    /// Returns how many orders of each run, with keys that begin so, were not taken in.
    pub fn counts(&self, prefix: &str) -> Result<Vec<(String, usize)>, StoreError> {
        self.tables.order_counts(prefix)
    }

    /// Reports what became of orders, for a life that is not over. The same report may be written again.
    /// Returns whether the life still holds its worker's name; if it does not, nothing was written.
    pub fn report(&self, life: &Life, reports: &[(u64, String)]) -> Result<bool, StoreError> {
        if !self.is_alive(life)? {
            return Ok(false);
        }
        self.put_reports(reports)?;
        Ok(true)
    }

    /// Reports what became of the orders of lives that are over, all of whose processes are gone.
    pub fn bury(&self, reports: &[(u64, String)]) -> Result<(), StoreError> {
        self.put_reports(reports)
    }

    fn put_reports(&self, reports: &[(u64, String)]) -> Result<(), StoreError> {
        self.notices.add(Topic::Reports);
        self.tables.put_reports(reports)
    }

    /// Returns the reports that were not taken in, in the order of their orders.
    pub fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        self.tables.reports()
    }

    /// Returns whether there are reports that were not taken in.
    pub fn has_reports(&self) -> Result<bool, StoreError> {
        self.tables.has_reports()
    }

    /// Deletes all reports and their orders, because the same transaction takes them in, and returns the
    /// reports in the order of their orders.
    pub fn take(&self) -> Result<Vec<StoredReport>, StoreError> {
        self.tables.take_reports()
    }

    /// Returns whether a life is not over: it holds its worker's name.
    pub fn is_alive(&self, life: &Life) -> Result<bool, StoreError> {
        Ok(self.lease_of(life)?.is_some_and(|stored| stored.is_valid(self.now)))
    }

    /// Returns whether a life has sent no heartbeats for a whole lease, or is over.
    pub fn is_silent(&self, life: &Life) -> Result<bool, StoreError> {
        Ok(self.lease_of(life)?.is_none_or(|stored| self.is_stale(&stored)))
    }

    /// Returns the process that keeps the lease of a life; none if the life is over.
    #[must_use]
    pub fn live_process(&self, stored: &StoredLease) -> Option<Process> {
        let process = stored.owner.process.as_ref().filter(|_| !self.is_stale(stored))?;
        (self.clock.liveness(process) != Liveness::Gone).then(|| process.clone())
    }

    /// Returns the lease of a life on its worker's name, which may be stale.
    pub fn lease_of(&self, life: &Life) -> Result<Option<StoredLease>, StoreError> {
        let leases = self.tables.leases(Some(&Name::Worker(life.worker.clone())))?;
        Ok(leases.into_iter().find(|stored| stored.lease.token == life.token))
    }

    /// Ends a life whose lease is stale for good: no heartbeat revives it any more, also none that could not be
    /// sent. Returns whether the life is over.
    pub fn end_life(&self, life: &Life) -> Result<bool, StoreError> {
        let Some(mut stored) = self.lease_of(life)? else { return Ok(true) };
        if !self.is_stale(&stored) {
            return Ok(false);
        }
        if stored.lease.presence == Presence::Presumed {
            stored.lease.presence = Presence::Stale;
            self.tables.save(&LeaseChanges { leases: vec![stored], ..LeaseChanges::default() })?;
        }
        Ok(true)
    }

    fn is_stale(&self, stored: &StoredLease) -> bool {
        stored.owner.frame != self.now.frame.id() || stored.lease.is_stale(self.now.at)
    }

    /// Inserts a worker, or replaces an earlier life of it.
    pub fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError> {
        check_text(&worker.life.worker)?;
        self.notices.add(Topic::Reports);
        self.tables.put_worker(worker)
    }

    /// Deletes a worker, unless it has begun another life.
    pub fn delete_worker(&self, life: &Life) -> Result<(), StoreError> {
        self.notices.add(Topic::Reports);
        self.tables.delete_worker(life)
    }

    /// Names a worker that facts of a run mean by a number. Numbers begin with 0 and leave none out.
    pub fn name_worker(&self, run: &str, number: u32, name: &str) -> Result<(), StoreError> {
        self.tables.name_worker(run, number, name)
    }

    /// Returns the names of the workers that facts of a run mean by numbers, in the order of these.
    pub fn worker_names(&self, run: &str) -> Result<Vec<String>, StoreError> {
        self.tables.worker_names(run)
    }

    /// Returns the workers, by name, each with the lease of its life on that name, if there is one. It may be
    /// stale. However many workers there are, this makes two queries.
    pub fn leased_workers(&self) -> Result<Vec<(StoredWorker, Option<StoredLease>)>, StoreError> {
        let leases = self.tables.leases_of_workers()?.into_iter();
        let mut leases: BTreeMap<_, _> =
            leases.map(|stored| ((stored.name.clone(), stored.lease.token), stored)).collect();
        let workers = self.tables.workers()?.into_iter();
        let leased = workers.map(|worker| {
            let name = Name::Worker(worker.life.worker.clone());
            let lease = leases.remove(&(name, worker.life.token));
            (worker, lease)
        });
        Ok(leased.collect())
    }

    /// Returns the workers whose lives are not over, by name, each with its process.
    pub fn live_workers(&self) -> Result<Vec<(StoredWorker, Process)>, StoreError> {
        let live = |(worker, lease): (StoredWorker, Option<StoredLease>)| {
            Some((worker, self.live_process(&lease?)?))
        };
        Ok(self.leased_workers()?.into_iter().filter_map(live).collect())
    }
}
