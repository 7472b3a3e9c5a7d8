//! Runs, journals and step records in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use windlass_core::{Fact, Name, Token, WorkId};

use super::MemoryTransaction;
use crate::encoding::{decode, encode};
use crate::error::StoreError;
use crate::run::{RunEnd, RunListing, RunRecord};
use crate::step::{AttemptRecord, Decision, GuardWait, StepOutput};
use crate::tables::{RunTables, StepTables};
use crate::wakeup::unique;

#[derive(Clone, Default)]
pub(super) struct Runs {
    records: BTreeMap<String, (RunRecord, RunListing)>,
    /// The number of the last run, if the ids of runs follow from their numbers.
    pub(super) last: Option<u32>,
    /// The ids in the order of submission.
    order: Vec<String>,
    /// In the stored form, so that tests in memory notice a fact that has none.
    facts: BTreeMap<String, Vec<(Token, String)>>,
    /// How many facts of each run were deleted.
    deleted: BTreeMap<String, usize>,
    attempts: BTreeMap<(String, WorkId, u32), AttemptRecord>,
    waits: BTreeMap<(String, WorkId), GuardWait>,
    /// Each with its run.
    decisions: Vec<(String, Decision)>,
    outputs: BTreeMap<(String, WorkId, u32), StepOutput>,
}

impl Runs {
    /// Deletes what is recorded of a step.
    pub(super) fn delete_step(&mut self, run: &str, work: WorkId) {
        self.attempts.retain(|(id, of, _), _| (id.as_str(), *of) != (run, work));
        self.waits.remove(&(run.to_owned(), work));
        self.decisions.retain(|(id, decision)| (id.as_str(), decision.work) != (run, work));
    }

    /// Deletes all facts of a run, and returns how many were ever deleted. The numbers of later ones
    /// continue theirs.
    pub(super) fn delete_facts(&mut self, run: &str) -> usize {
        let facts = self.facts.remove(run).unwrap_or_default();
        let deleted = self.deleted.entry(run.to_owned()).or_default();
        *deleted += facts.len();
        *deleted
    }
}

impl RunTables for MemoryTransaction {
    fn new_run_id(&self) -> Result<String, StoreError> {
        let runs = &mut self.tables().runs;
        let Some(last) = &mut runs.last else {
            loop {
                let id = unique()?[..8].to_owned();
                if !runs.records.contains_key(&id) {
                    return Ok(id);
                }
            }
        };
        *last += 1;
        // Odd factors map different numbers to different ones.
        Ok(format!("{:08x}", last.wrapping_mul(0x9e37_79b1)))
    }

    fn insert_run(&self, run: &RunRecord, at_ms: i64) -> Result<(), StoreError> {
        let RunRecord { id, workflow, file, uid, .. } = run.clone();
        let (created_ms, end) = (at_ms, None);
        let listing = RunListing { id: id.clone(), workflow, file, created_ms, end, uid };
        let runs = &mut self.tables().runs;
        runs.order.push(id.clone());
        runs.records.insert(id, (run.clone(), listing));
        Ok(())
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRecord>, StoreError> {
        let tables = self.tables();
        let from = (Bound::Included(prefix.to_owned()), Bound::Unbounded);
        let from = tables.runs.records.range(from).map(|(_, (run, _))| run);
        Ok(from.take_while(|run| run.id.starts_with(prefix)).take(2).cloned().collect())
    }

    fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError> {
        let tables = self.tables();
        let newest = tables.runs.order.iter().rev().map(|id| &tables.runs.records[id].1);
        let wanted = newest.filter(|run| workflow.is_none_or(|name| run.workflow == name));
        Ok(wanted.take(limit).cloned().collect())
    }

    fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError> {
        Ok(self.tables().runs.records.get(run).and_then(|(_, listing)| listing.end))
    }

    fn listing(&self, run: &str) -> Result<Option<RunListing>, StoreError> {
        Ok(self.tables().runs.records.get(run).map(|(_, listing)| listing.clone()))
    }

    fn open_runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let all = self.latest_runs(None, usize::MAX)?;
        Ok(all.into_iter().filter(|run| run.end.is_none()).collect())
    }

    fn served_runs(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.tables();
        let runs = tables.runs.order.iter().map(|id| &tables.runs.records[id]);
        let served = runs.filter(|(run, listing)| run.env.is_some() && listing.end.is_none());
        Ok(served.map(|(run, _)| run.id.clone()).collect())
    }

    fn set_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError> {
        if let Some((_, listing)) = self.tables().runs.records.get_mut(run) {
            listing.end = end;
        }
        Ok(())
    }

    fn set_run_env(&self, run: &str, env: &BTreeMap<String, String>) -> Result<(), StoreError> {
        if let Some((record, _)) = self.tables().runs.records.get_mut(run) {
            record.env = Some(env.clone());
        }
        Ok(())
    }

    fn set_run_jobs(&self, run: &str, jobs: u32) -> Result<(), StoreError> {
        if let Some((record, _)) = self.tables().runs.records.get_mut(run) {
            record.jobs = Some(jobs);
        }
        Ok(())
    }

    fn delete_run(&self, run: &str) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let name = Name::Run(run.to_owned());
        tables.leases.retain(|(held, _), _| *held != name);
        tables.names.remove(&name);
        let runs = &mut tables.runs;
        runs.order.retain(|id| id != run);
        runs.records.remove(run);
        runs.facts.remove(run);
        runs.deleted.remove(run);
        runs.attempts.retain(|(id, ..), _| id != run);
        runs.waits.retain(|(id, _), _| id != run);
        runs.decisions.retain(|(id, _)| id != run);
        runs.outputs.retain(|(id, ..), _| id != run);
        tables.queues.delete_run(run);
        tables.orders.delete_run(run);
        Ok(())
    }

    fn append_facts(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let journal = tables.runs.facts.entry(run.to_owned()).or_default();
        journal.extend(facts.iter().map(|fact| (epoch, encode(fact))));
        Ok(())
    }

    fn facts_after(&self, run: &str, seen: usize) -> Result<Vec<Fact>, StoreError> {
        let tables = self.tables();
        let journal = tables.runs.facts.get(run).map(Vec::as_slice).unwrap_or_default();
        let deleted = tables.runs.deleted.get(run).copied().unwrap_or_default();
        journal
            .iter()
            .skip(seen.saturating_sub(deleted))
            .map(|(_, fact)| Ok(decode(fact)?))
            .collect()
    }
}

impl StepTables for MemoryTransaction {
    fn put_attempts(&self, run: &str, attempts: &[&AttemptRecord]) -> Result<(), StoreError> {
        for attempt in attempts.iter().copied().cloned() {
            let key = (run.to_owned(), attempt.work, attempt.attempt);
            self.tables().runs.attempts.insert(key, attempt);
        }
        Ok(())
    }

    fn attempt(
        &self,
        run: &str,
        work: WorkId,
        attempt: u32,
    ) -> Result<Option<AttemptRecord>, StoreError> {
        Ok(self.tables().runs.attempts.get(&(run.to_owned(), work, attempt)).cloned())
    }

    fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError> {
        let tables = self.tables();
        let of_run = tables.runs.attempts.iter().filter(|((id, ..), _)| id == run);
        Ok(of_run.map(|(_, attempt)| attempt.clone()).collect())
    }

    fn put_guard_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError> {
        self.tables().runs.waits.insert((run.to_owned(), wait.work), wait.clone());
        Ok(())
    }

    fn delete_guard_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        self.tables().runs.waits.remove(&(run.to_owned(), work));
        Ok(())
    }

    fn insert_decision(&self, run: &str, decision: &Decision) -> Result<(), StoreError> {
        self.tables().runs.decisions.push((run.to_owned(), decision.clone()));
        Ok(())
    }

    fn delete_decisions(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        let of_work = |id: &str, decision: &Decision| id == run && decision.work == work;
        self.tables().runs.decisions.retain(|(id, decision)| !of_work(id, decision));
        Ok(())
    }

    fn decisions(&self, run: &str) -> Result<Vec<Decision>, StoreError> {
        let tables = self.tables();
        let of_run = tables.runs.decisions.iter().filter(|(id, _)| id == run);
        let mut decisions: Vec<_> = of_run.map(|(_, decision)| decision.clone()).collect();
        decisions.sort_by_key(|decision| decision.at_ms);
        Ok(decisions)
    }

    fn guard_waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError> {
        let tables = self.tables();
        let of_run = tables.runs.waits.iter().filter(|((id, _), _)| id == run);
        Ok(of_run.map(|(_, wait)| wait.clone()).collect())
    }

    fn put_output(&self, run: &str, output: &StepOutput) -> Result<(), StoreError> {
        let key = (run.to_owned(), output.work, output.attempt);
        self.tables().runs.outputs.insert(key, output.clone());
        Ok(())
    }

    fn outputs(&self, run: &str) -> Result<Vec<StepOutput>, StoreError> {
        let tables = self.tables();
        let of_run = tables.runs.outputs.iter().filter(|((id, ..), _)| id == run);
        Ok(of_run.map(|(_, output)| output.clone()).collect())
    }
}
