//! What is new in the store for the runs of a scheduler: reports, requests, added commands, events, and the time.

use std::collections::BTreeMap;

use windlass_store::{Request, StoreError, Transaction};

use super::runs::Runs;
use crate::coordinator::served::{RoundNews, ServedRun};
use crate::service::texts::{ReportText, id_of};

/// How many events are taken in per round.
const EVENTS: usize = 1000;

/// What rounds have taken in so far.
#[derive(Default)]
pub(super) struct Inbox {
    /// The last event that a committed round has taken in.
    last_event: Option<u64>,
    /// The last event that a round has taken in.
    seen_event: Option<u64>,
}

impl Inbox {
    /// Forgets what a round has taken in whose commit is not known.
    pub(super) fn go_back(&mut self) {
        self.seen_event = self.last_event;
    }

    /// Notes that the store has everything that rounds have decided.
    pub(super) fn note_committed(&mut self) {
        self.last_event = self.seen_event;
    }

    /// Returns whether something concerns a run, except for events.
    pub(super) fn has_news(
        &self,
        transaction: &Transaction<'_>,
        runs: &Runs,
    ) -> Result<bool, StoreError> {
        Ok(runs.values().any(|run| is_due(run) || run.waits_for_others())
            || transaction.orders().has_reports()?
            || !runs.unknown(transaction)?.is_empty()
            || !requests(transaction, runs)?.is_empty()
            || !grown(transaction, runs)?.is_empty())
    }

    /// Returns what concerns each run.
    pub(super) fn take(
        &mut self,
        transaction: &Transaction<'_>,
        runs: &Runs,
    ) -> Result<BTreeMap<String, RoundNews>, StoreError> {
        let mut open: BTreeMap<String, RoundNews> = BTreeMap::new();
        for report in transaction.orders().take()? {
            let text = serde_json::from_str::<ReportText>(&report.text).ok();
            // A run that has ended does not need it any more.
            if let Some(id) = id_of(&report.key)
                && let Some(text) = text
                && runs.find(&report.run).is_some()
            {
                open.entry(report.run).or_default().reports.push((report.token, id, text));
            }
        }
        for round in open.values_mut() {
            round.reports.sort_by_key(|(_, _, report)| report.at);
        }
        for (run, requests) in requests(transaction, runs)? {
            open.entry(run).or_default().requests = requests;
        }
        for run in grown(transaction, runs)? {
            open.entry(run).or_default();
        }
        let after = match self.seen_event {
            Some(last) => last,
            None => transaction.events().last()?,
        };
        let events = transaction.events().after(after, EVENTS)?;
        self.seen_event = Some(events.last().map_or(after, |last| last.number));
        for (id, run) in runs.iter() {
            if is_due(run) || run.wants_round() {
                open.entry(id.clone()).or_default();
            }
            if run.heeds_events() && !events.is_empty() {
                open.entry(id.clone()).or_default().events.clone_from(&events);
            }
        }
        Ok(open)
    }
}

/// Returns whether the time has come for which a run waits.
fn is_due(run: &ServedRun) -> bool {
    run.next_due().is_some_and(|due| due <= run.now())
}

/// Returns the requests to the runs, by run.
fn requests(
    transaction: &Transaction<'_>,
    runs: &Runs,
) -> Result<BTreeMap<String, Vec<Request>>, StoreError> {
    let mut requests: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for request in transaction.requests().all_pending()? {
        let run = request.target.strip_prefix("run/");
        if let Some(run) = run.filter(|run| runs.find(run).is_some()) {
            requests.entry(run.to_owned()).or_default().push(request);
        }
    }
    Ok(requests)
}

/// Returns the runs to which commands were added, or of which steps were changed, and that have not taken that.
fn grown(transaction: &Transaction<'_>, runs: &Runs) -> Result<Vec<String>, StoreError> {
    let queues = transaction.queues().all()?.into_iter();
    let grown =
        queues.filter(|queue| runs.find(&queue.run).is_some_and(|run| run.lags_behind(queue)));
    Ok(grown.map(|queue| queue.run).collect())
}
