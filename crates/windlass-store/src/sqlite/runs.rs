//! Runs, journals and step records, in SQL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::types::Type;
use rusqlite::{Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Fact, Token, WorkId};

use super::tables::SqliteTables;
use crate::encoding::{decode, encode};
use crate::error::StoreError;
use crate::run::{RunEnd, RunListing, RunOutcome, RunRecord};
use crate::step::{AttemptEnd, AttemptRecord, Decision, GuardWait, StepOutput};
use crate::tables::{RunTables, StepTables};

impl SqliteTables<'_> {
    /// Returns the number of the last fact of a run; 0 if there is none.
    pub(super) fn last_seq(&self, run: &str) -> Result<i64, StoreError> {
        // The unary plus keeps SQLite from planning anew for each value, which costs more than the query.
        let last = "SELECT coalesce((SELECT max(seq) FROM fact WHERE run = +?1),
            (SELECT seq FROM journal_base WHERE run = +?1), 0)";
        Ok(self.sqlite.prepare_cached(last)?.query_row([run], |row| row.get(0))?)
    }

    fn put_attempt(&self, run: &str, attempt: &AttemptRecord) -> Result<(), StoreError> {
        let put = "INSERT OR REPLACE INTO attempt (run, work, attempt, step, started_ms, ended_ms, \
            ending, code, signal, why, peak_kib, cpu_ms) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let AttemptRecord { work, attempt: number, step, started_ms, ended_ms, end, .. } = attempt;
        let AttemptRecord { code, signal, why, peak_kib, cpu_ms, .. } = attempt;
        self.execute(
            put,
            params![
                run,
                work.get(),
                number,
                step,
                started_ms,
                ended_ms,
                end.word(),
                code,
                signal,
                why,
                peak_kib,
                cpu_ms
            ],
        )?;
        Ok(())
    }
}

impl RunTables for SqliteTables<'_> {
    fn new_run_id(&self) -> Result<String, StoreError> {
        let random = "SELECT lower(hex(randomblob(4)))";
        loop {
            let id: String = self.sqlite.query_row(random, [], |row| row.get(0))?;
            if self.runs(&id)?.is_empty() {
                return Ok(id);
            }
        }
    }

    fn insert_run(&self, run: &RunRecord, at_ms: i64) -> Result<(), StoreError> {
        let RunRecord { id, workflow, file, text, dir, params, steps, jobs, priority, uid, env } =
            run;
        let insert = "INSERT INTO run (id, workflow, file, text, dir, params, steps, jobs, uid, created_ms, env, priority) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let dir = dir.to_string_lossy();
        let (params, steps) = (to_json(params), to_json(steps));
        let env = env.as_ref().map(to_json);
        let row =
            params![id, workflow, file, text, dir, params, steps, jobs, uid, at_ms, env, priority];
        self.execute(insert, row)?;
        Ok(())
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRecord>, StoreError> {
        let query = "SELECT id, workflow, file, text, dir, params, steps, jobs, uid, env, priority FROM run \
            WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2";
        self.all(query, [prefix], |row| {
            Ok(RunRecord {
                id: row.get(0)?,
                workflow: row.get(1)?,
                file: row.get(2)?,
                text: row.get(3)?,
                dir: PathBuf::from(row.get::<_, String>(4)?),
                params: from_json(row, 5)?,
                steps: from_json(row, 6)?,
                jobs: row.get(7)?,
                uid: row.get(8)?,
                env: from_json(row, 9)?,
                priority: row.get(10)?,
            })
        })
    }

    fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError> {
        let query = |condition: &str| {
            format!(
                "SELECT id, workflow, file, created_ms, ended_ms, outcome, uid FROM run {condition} \
                 ORDER BY created_ms DESC, rowid DESC LIMIT ?1"
            )
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        match workflow {
            None => self.all(&query(""), [limit], listing),
            Some(name) => self.all(&query("WHERE workflow = ?2"), params![limit, name], listing),
        }
    }

    fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError> {
        let query = "SELECT ended_ms, outcome FROM run WHERE id = ?1";
        Ok(self.one(query, [run], |row| end(row, 0))?.flatten())
    }

    fn listing(&self, run: &str) -> Result<Option<RunListing>, StoreError> {
        let query =
            "SELECT id, workflow, file, created_ms, ended_ms, outcome, uid FROM run WHERE id = ?1";
        Ok(self.all(query, [run], listing)?.pop())
    }

    fn open_runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let query = "SELECT id, workflow, file, created_ms, ended_ms, outcome, uid FROM run \
            WHERE ended_ms IS NULL ORDER BY created_ms DESC, rowid DESC";
        self.all(query, [], listing)
    }

    fn served_runs(&self) -> Result<Vec<String>, StoreError> {
        let query = "SELECT id FROM run WHERE ended_ms IS NULL AND env IS NOT NULL ORDER BY created_ms, rowid";
        self.all(query, [], |row| row.get(0))
    }

    fn set_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError> {
        let update = "UPDATE run SET ended_ms = ?2, outcome = ?3 WHERE id = ?1";
        let (at_ms, outcome) = end.map(|end| (end.at_ms, end.outcome.word())).unzip();
        self.execute(update, params![run, at_ms, outcome])?;
        Ok(())
    }

    fn set_run_env(&self, run: &str, env: &BTreeMap<String, String>) -> Result<(), StoreError> {
        self.execute("UPDATE run SET env = ?2 WHERE id = ?1", params![run, to_json(env)])?;
        Ok(())
    }

    fn set_run_jobs(&self, run: &str, jobs: u32) -> Result<(), StoreError> {
        self.execute("UPDATE run SET jobs = ?2 WHERE id = ?1", params![run, jobs])?;
        Ok(())
    }

    fn delete_run(&self, run: &str) -> Result<(), StoreError> {
        for table in [
            "fact",
            "attempt",
            "wait",
            "decision",
            "step_output",
            "work_order",
            "run_queue",
            "added_step",
            "step_change",
            "journal_base",
            "run_worker",
        ] {
            self.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run])?;
        }
        for table in ["name", "lease"] {
            self.execute(&format!("DELETE FROM {table} WHERE kind = 'run' AND name = ?1"), [run])?;
        }
        self.execute("DELETE FROM run WHERE id = ?1", [run])?;
        Ok(())
    }

    fn append_facts(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        let last = self.last_seq(run)?;
        let insert = "INSERT INTO fact (run, seq, epoch, fact) VALUES (?1, ?2, ?3, ?4)";
        for (seq, fact) in (last + 1..).zip(facts) {
            self.execute(insert, params![run, seq, epoch.0, encode(fact)])?;
        }
        Ok(())
    }

    fn facts_after(&self, run: &str, seen: usize) -> Result<Vec<Fact>, StoreError> {
        let query = "SELECT fact FROM fact WHERE run = ?1 AND seq > ?2 ORDER BY seq";
        let seen = i64::try_from(seen).unwrap_or(i64::MAX);
        let texts = self.all(query, params![run, seen], |row| row.get::<_, String>(0))?;
        texts.iter().map(|text| Ok(decode(text)?)).collect()
    }
}

impl StepTables for SqliteTables<'_> {
    fn put_attempts(&self, run: &str, attempts: &[&AttemptRecord]) -> Result<(), StoreError> {
        attempts.iter().try_for_each(|attempt| self.put_attempt(run, attempt))
    }

    fn attempt(
        &self,
        run: &str,
        work: WorkId,
        number: u32,
    ) -> Result<Option<AttemptRecord>, StoreError> {
        let query = "SELECT work, attempt, step, started_ms, ended_ms, ending, code, signal, why, \
            peak_kib, cpu_ms FROM attempt WHERE run = ?1 AND work = ?2 AND attempt = ?3";
        self.one(query, params![run, work.get(), number], attempt)
    }

    fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError> {
        let query = "SELECT work, attempt, step, started_ms, ended_ms, ending, code, signal, why, \
            peak_kib, cpu_ms FROM attempt WHERE run = ?1 ORDER BY work, attempt";
        self.all(query, [run], attempt)
    }

    fn put_guard_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError> {
        let put = "INSERT OR REPLACE INTO wait (run, work, guard, since_ms, checks, said, escalated) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let GuardWait { work, guard, since_ms, checks, last_result, escalated } = wait;
        self.execute(
            put,
            params![run, work.get(), guard, since_ms, checks, last_result, escalated],
        )?;
        Ok(())
    }

    fn delete_guard_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        self.execute("DELETE FROM wait WHERE run = ?1 AND work = ?2", params![run, work.get()])?;
        Ok(())
    }

    fn insert_decision(&self, run: &str, decision: &Decision) -> Result<(), StoreError> {
        let insert = "INSERT INTO decision (run, work, guard, attempt, verdict, uid, at_ms) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let Decision { work, guard, attempt, verdict, uid, at_ms } = decision;
        self.execute(insert, params![run, work.get(), guard, attempt, verdict, uid, at_ms])?;
        Ok(())
    }

    fn delete_decisions(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        let delete = "DELETE FROM decision WHERE run = ?1 AND work = ?2";
        self.execute(delete, params![run, work.get()])?;
        Ok(())
    }

    fn decisions(&self, run: &str) -> Result<Vec<Decision>, StoreError> {
        let query = "SELECT work, guard, attempt, verdict, uid, at_ms FROM decision \
            WHERE run = ?1 ORDER BY at_ms, work, attempt, guard";
        self.all(query, [run], decision)
    }

    fn guard_waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError> {
        let query = "SELECT work, guard, since_ms, checks, said, escalated FROM wait \
            WHERE run = ?1 ORDER BY work";
        self.all(query, [run], |row| {
            Ok(GuardWait {
                work: work(row, 0)?,
                guard: row.get(1)?,
                since_ms: row.get(2)?,
                checks: row.get(3)?,
                last_result: row.get(4)?,
                escalated: row.get(5)?,
            })
        })
    }

    fn put_output(&self, run: &str, output: &StepOutput) -> Result<(), StoreError> {
        let put = "INSERT OR REPLACE INTO step_output (run, work, attempt, text) \
            VALUES (?1, ?2, ?3, ?4)";
        let StepOutput { work, attempt, text } = output;
        self.execute(put, params![run, work.get(), attempt, text])?;
        Ok(())
    }

    fn outputs(&self, run: &str) -> Result<Vec<StepOutput>, StoreError> {
        let query = "SELECT work, attempt, text FROM step_output WHERE run = ?1 \
            ORDER BY work, attempt";
        self.all(query, [run], |row| {
            Ok(StepOutput { work: work(row, 0)?, attempt: row.get(1)?, text: row.get(2)? })
        })
    }
}

fn decision(row: &Row<'_>) -> rusqlite::Result<Decision> {
    Ok(Decision {
        work: work(row, 0)?,
        guard: row.get(1)?,
        attempt: row.get(2)?,
        verdict: row.get(3)?,
        uid: row.get(4)?,
        at_ms: row.get(5)?,
    })
}

fn listing(row: &Row<'_>) -> rusqlite::Result<RunListing> {
    Ok(RunListing {
        id: row.get(0)?,
        workflow: row.get(1)?,
        file: row.get(2)?,
        created_ms: row.get(3)?,
        end: end(row, 4)?,
        uid: row.get(6)?,
    })
}

/// Reads the end of a run from two columns.
fn end(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<RunEnd>> {
    let at_ms: Option<i64> = row.get(column)?;
    let outcome: Option<String> = row.get(column + 1)?;
    let (Some(at_ms), Some(word)) = (at_ms, outcome) else { return Ok(None) };
    Ok(Some(RunEnd { at_ms, outcome: known(column + 1, RunOutcome::from_word(&word))? }))
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<AttemptRecord> {
    Ok(AttemptRecord {
        work: work(row, 0)?,
        attempt: row.get(1)?,
        step: row.get(2)?,
        started_ms: row.get(3)?,
        ended_ms: row.get(4)?,
        end: known(5, AttemptEnd::from_word(&row.get::<_, String>(5)?))?,
        code: row.get(6)?,
        signal: row.get(7)?,
        why: row.get(8)?,
        peak_kib: row.get(9)?,
        cpu_ms: row.get(10)?,
    })
}

fn work(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkId> {
    known(column, WorkId::new(row.get(column)?))
}

/// Returns a value that only a damaged store lacks.
fn known<T>(column: usize, value: Option<T>) -> rusqlite::Result<T> {
    value.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, 0))
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts are always JSON")
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: Option<String> = row.get(column)?;
    serde_json::from_str(text.as_deref().unwrap_or("null")).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}
