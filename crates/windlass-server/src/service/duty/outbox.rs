//! The reports of a worker that the store does not have yet. Each is in the ledger first.

use std::io;

use crate::service::ledger::Ledger;

/// The reports that the store does not have, by the tokens of their orders.
pub(super) struct Outbox {
    reports: Vec<(u64, String)>,
    ledger: Ledger,
}

impl Outbox {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self { reports: Vec::new(), ledger }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn reports(&self) -> &[(u64, String)] {
        &self.reports
    }

    /// Adds a report that needs no record, because it says no more than the next life would.
    pub(super) fn add(&mut self, token: u64, report: String) {
        self.reports.push((token, report));
    }

    /// Records a report, and adds it. If there is no room for the record, only a kill before the store has the
    /// report costs another attempt.
    pub(super) fn record(&mut self, token: u64, report: String) -> io::Result<()> {
        let report = [(token, report)];
        let recorded = self.ledger.note(&report);
        self.reports.extend(report);
        recorded
    }

    /// Forgets all reports, because the store has them.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.reports.clear();
        self.ledger.clear()
    }
}
