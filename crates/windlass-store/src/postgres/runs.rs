//! Runs, journals and step records, in the SQL of PostgreSQL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Fact, Token, WorkId};

use super::session::{Columns, int, int_or_none};
use super::tables::PostgresTables;
use crate::encoding::{decode, encode};
use crate::error::StoreError;
use crate::run::{HomeMachine, RunEnd, RunListing, RunOutcome, RunRecord};
use crate::step::{AttemptEnd, AttemptRecord, Decision, GuardWait, StepOutput};
use crate::tables::{RunTables, StepTables};
use crate::wakeup::unique;

/// The columns of a listing, in the order in which [`listing`] reads them.
const LISTING: &str = "id, workflow, file, created_ms, ended_ms, outcome, uid";
/// The columns of an attempt, in the order in which [`attempt`] reads them.
const ATTEMPT: &str =
    "work, attempt, step, started_ms, ended_ms, ending, code, signal, why, peak_kib, cpu_ms";
/// How many digits the id of a run has.
const ID_DIGITS: usize = 8;

impl PostgresTables<'_> {
    /// Returns the number of the last fact of a run; 0 if there is none.
    pub(super) fn last_seq(&self, run: &str) -> Result<i64, StoreError> {
        let query = "SELECT coalesce((SELECT max(seq) FROM fact WHERE run = $1),
            (SELECT seq FROM journal_base WHERE run = $1), 0)";
        Ok(self.session.one(query, &[&run], |row| row.value(0))?.unwrap_or(0))
    }
}

/// The runs that were submitted to a service and have not ended.
pub(super) const SERVED: &str = "SELECT id FROM run WHERE ended_ms IS NULL AND env IS NOT NULL
    ORDER BY created_ms, number";

impl RunTables for PostgresTables<'_> {
    fn new_run_id(&self) -> Result<String, StoreError> {
        loop {
            let id = unique()?[..ID_DIGITS].to_owned();
            if self.runs(&id)?.is_empty() {
                return Ok(id);
            }
        }
    }

    fn insert_run(&self, run: &RunRecord, at_ms: i64) -> Result<(), StoreError> {
        let RunRecord { id, workflow, file, text, dir, params, steps, jobs, priority, uid, env } =
            run;
        let number = int(self.next("run")?);
        let insert = "INSERT INTO run (id, number, workflow, file, text, dir, params, steps, jobs,
            uid, created_ms, env, priority)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        self.session.execute(
            insert,
            &[
                id,
                &number,
                workflow,
                file,
                text,
                &dir.to_string_lossy(),
                &to_json(params),
                &to_json(steps),
                &int_or_none(*jobs),
                &int_or_none(*uid),
                &at_ms,
                &env.as_ref().map(to_json),
                &int_or_none(*priority),
            ],
        )
    }

    fn set_home(&self, run: &str, home: &HomeMachine) -> Result<(), StoreError> {
        let update = "UPDATE run SET machine = $2, host = $3 WHERE id = $1";
        self.session.execute(update, &[&run, &home.id, &home.host])
    }

    fn home(&self, run: &str) -> Result<Option<HomeMachine>, StoreError> {
        let query = "SELECT machine, host FROM run WHERE id = $1 AND machine IS NOT NULL";
        self.session
            .one(query, &[&run], |row| Ok(HomeMachine { id: row.value(0)?, host: row.value(1)? }))
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRecord>, StoreError> {
        let query = "SELECT id, workflow, file, text, dir, params, steps, jobs, uid, env, priority
            FROM run WHERE starts_with(id, $1) LIMIT 2";
        self.session.all(query, &[&prefix], |row| {
            Ok(RunRecord {
                id: row.value(0)?,
                workflow: row.value(1)?,
                file: row.value(2)?,
                text: row.value(3)?,
                dir: PathBuf::from(row.value::<String>(4)?),
                params: from_json(row, 5)?,
                steps: from_json(row, 6)?,
                jobs: row.int_or_none(7)?,
                uid: row.int_or_none(8)?,
                env: from_json(row, 9)?,
                priority: row.int_or_none(10)?,
            })
        })
    }

    fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError> {
        let limit = int(limit);
        let order = "ORDER BY created_ms DESC, number DESC LIMIT $1";
        match workflow {
            None => {
                let query = format!("SELECT {LISTING} FROM run {order}");
                self.session.all(&query, &[&limit], listing)
            }
            Some(name) => {
                let query = format!("SELECT {LISTING} FROM run WHERE workflow = $2 {order}");
                self.session.all(&query, &[&limit, &name], listing)
            }
        }
    }

    fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError> {
        let query = "SELECT ended_ms, outcome FROM run WHERE id = $1";
        Ok(self.session.one(query, &[&run], |row| end(row, 0))?.flatten())
    }

    fn listing(&self, run: &str) -> Result<Option<RunListing>, StoreError> {
        let query = format!("SELECT {LISTING} FROM run WHERE id = $1");
        self.session.one(&query, &[&run], listing)
    }

    fn open_runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let query = format!(
            "SELECT {LISTING} FROM run WHERE ended_ms IS NULL ORDER BY created_ms DESC, number DESC"
        );
        self.session.all(&query, &[], listing)
    }

    fn served_runs(&self) -> Result<Vec<String>, StoreError> {
        self.session.all(SERVED, &[], |row| row.value(0))
    }

    fn set_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError> {
        let update = "UPDATE run SET ended_ms = $2, outcome = $3 WHERE id = $1";
        let (at_ms, outcome) = end.map(|end| (end.at_ms, end.outcome.word())).unzip();
        self.session.execute(update, &[&run, &at_ms, &outcome])
    }

    fn set_run_env(&self, run: &str, env: &BTreeMap<String, String>) -> Result<(), StoreError> {
        let update = "UPDATE run SET env = $2 WHERE id = $1";
        self.session.execute(update, &[&run, &to_json(env)])
    }

    fn set_run_jobs(&self, run: &str, jobs: u32) -> Result<(), StoreError> {
        let update = "UPDATE run SET jobs = $2 WHERE id = $1";
        self.session.execute(update, &[&run, &int(jobs)])
    }

    fn delete_run(&self, run: &str) -> Result<(), StoreError> {
        let reports = "DELETE FROM report USING work_order
            WHERE report.token = work_order.token AND work_order.run = $1";
        self.session.execute(reports, &[&run])?;
        for table in [
            "fact",
            "attempt",
            "guard_wait",
            "decision",
            "step_output",
            "work_order",
            "run_queue",
            "added_step",
            "step_change",
            "journal_base",
            "run_worker",
        ] {
            self.session.execute(&format!("DELETE FROM {table} WHERE run = $1"), &[&run])?;
        }
        for table in ["name", "lease"] {
            let delete = format!("DELETE FROM {table} WHERE kind = 'run' AND name = $1");
            self.session.execute(&delete, &[&run])?;
        }
        self.session.execute("DELETE FROM run WHERE id = $1", &[&run])
    }

    fn append_facts(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        if facts.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = facts.iter().map(encode).collect();
        let insert = "INSERT INTO fact (run, seq, count, epoch, facts) VALUES ($1, $2, $3, $4, $5)";
        let (count, lines) = (int(facts.len()), lines.join("\n"));
        let last = self.last_seq(run)? + count;
        self.session.execute(insert, &[&run, &last, &count, &int(epoch.0), &lines])
    }

    fn facts_after(&self, run: &str, seen: usize) -> Result<Vec<Fact>, StoreError> {
        let query = "SELECT seq - count, facts FROM fact WHERE run = $1 AND seq > $2 ORDER BY seq";
        let rows = self.session.all(query, &[&run, &int(seen)], |row| {
            Ok((row.int::<usize>(0)?, row.value::<String>(1)?))
        })?;
        let lines = rows
            .iter()
            .flat_map(|(before, lines)| lines.split('\n').skip(seen.saturating_sub(*before)));
        lines.map(|line| Ok(decode(line)?)).collect()
    }
}

impl StepTables for PostgresTables<'_> {
    fn put_attempts(&self, run: &str, attempts: &[&AttemptRecord]) -> Result<(), StoreError> {
        let put = format!(
            "INSERT INTO attempt (run, {ATTEMPT})
             SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
             $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[])
             ON CONFLICT (run, work, attempt) DO UPDATE SET step = excluded.step,
             started_ms = excluded.started_ms, ended_ms = excluded.ended_ms, ending = excluded.ending,
             code = excluded.code, signal = excluded.signal, why = excluded.why,
             peak_kib = excluded.peak_kib, cpu_ms = excluded.cpu_ms"
        );
        // A statement changes a row once.
        let latest = attempts.iter().map(|attempt| ((attempt.work, attempt.attempt), *attempt));
        let latest: Vec<_> = latest.collect::<BTreeMap<_, _>>().into_values().collect();
        let ints = |column: fn(&AttemptRecord) -> Option<i64>| -> Vec<_> {
            latest.iter().map(|attempt| column(attempt)).collect()
        };
        let texts = |column: fn(&AttemptRecord) -> Option<&str>| -> Vec<_> {
            latest.iter().map(|attempt| column(attempt)).collect()
        };
        self.session.execute(
            &put,
            &[
                &run,
                &ints(|attempt| Some(int(attempt.work.get()))),
                &ints(|attempt| Some(int(attempt.attempt))),
                &texts(|attempt| Some(&attempt.step)),
                &ints(|attempt| Some(attempt.started_ms)),
                &ints(|attempt| Some(attempt.ended_ms)),
                &texts(|attempt| Some(attempt.end.word())),
                &ints(|attempt| int_or_none(attempt.code)),
                &ints(|attempt| int_or_none(attempt.signal)),
                &texts(|attempt| attempt.why.as_deref()),
                &ints(|attempt| int_or_none(attempt.peak_kib)),
                &ints(|attempt| int_or_none(attempt.cpu_ms)),
            ],
        )
    }

    fn attempt(
        &self,
        run: &str,
        work: WorkId,
        number: u32,
    ) -> Result<Option<AttemptRecord>, StoreError> {
        let query =
            format!("SELECT {ATTEMPT} FROM attempt WHERE run = $1 AND work = $2 AND attempt = $3");
        self.session.one(&query, &[&run, &int(work.get()), &int(number)], attempt)
    }

    fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError> {
        let query = format!("SELECT {ATTEMPT} FROM attempt WHERE run = $1 ORDER BY work, attempt");
        self.session.all(&query, &[&run], attempt)
    }

    fn put_guard_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError> {
        let put = "INSERT INTO guard_wait
            (run, work, guard, since_ms, checks, last_result, escalated)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (run, work) DO UPDATE
            SET guard = $3, since_ms = $4, checks = $5, last_result = $6, escalated = $7";
        let GuardWait { work, guard, since_ms, checks, last_result, escalated } = wait;
        let (work, checks) = (int(work.get()), int(*checks));
        self.session
            .execute(put, &[&run, &work, guard, since_ms, &checks, last_result, escalated])?;
        Ok(())
    }

    fn delete_guard_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        let delete = "DELETE FROM guard_wait WHERE run = $1 AND work = $2";
        self.session.execute(delete, &[&run, &int(work.get())])
    }

    fn guard_waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError> {
        let query = "SELECT work, guard, since_ms, checks, last_result, escalated FROM guard_wait
            WHERE run = $1 ORDER BY work";
        self.session.all(query, &[&run], |row| {
            Ok(GuardWait {
                work: work(row, 0)?,
                guard: row.value(1)?,
                since_ms: row.value(2)?,
                checks: row.int(3)?,
                last_result: row.value(4)?,
                escalated: row.value(5)?,
            })
        })
    }

    fn insert_decision(&self, run: &str, decision: &Decision) -> Result<(), StoreError> {
        let insert = "INSERT INTO decision (run, work, guard, attempt, verdict, uid, at_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let Decision { work, guard, attempt, verdict, uid, at_ms } = decision;
        let (work, attempt, uid) = (int(work.get()), int(*attempt), int(*uid));
        self.session.execute(insert, &[&run, &work, guard, &attempt, verdict, &uid, at_ms])
    }

    fn delete_decisions(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        let delete = "DELETE FROM decision WHERE run = $1 AND work = $2";
        self.session.execute(delete, &[&run, &int(work.get())])
    }

    fn decisions(&self, run: &str) -> Result<Vec<Decision>, StoreError> {
        let query = "SELECT work, guard, attempt, verdict, uid, at_ms FROM decision
            WHERE run = $1 ORDER BY at_ms, work, attempt, guard";
        self.session.all(query, &[&run], |row| {
            Ok(Decision {
                work: work(row, 0)?,
                guard: row.value(1)?,
                attempt: row.int(2)?,
                verdict: row.value(3)?,
                uid: row.int(4)?,
                at_ms: row.value(5)?,
            })
        })
    }

    fn put_output(&self, run: &str, output: &StepOutput) -> Result<(), StoreError> {
        let put = "INSERT INTO step_output (run, work, attempt, text) VALUES ($1, $2, $3, $4)
            ON CONFLICT (run, work, attempt) DO UPDATE SET text = $4";
        let StepOutput { work, attempt, text } = output;
        self.session.execute(put, &[&run, &int(work.get()), &int(*attempt), text])
    }

    fn outputs(&self, run: &str) -> Result<Vec<StepOutput>, StoreError> {
        let query = "SELECT work, attempt, text FROM step_output WHERE run = $1
            ORDER BY work, attempt";
        self.session.all(query, &[&run], |row| {
            Ok(StepOutput { work: work(row, 0)?, attempt: row.int(1)?, text: row.value(2)? })
        })
    }
}

fn listing(row: &Columns<'_>) -> Result<RunListing, StoreError> {
    Ok(RunListing {
        id: row.value(0)?,
        workflow: row.value(1)?,
        file: row.value(2)?,
        created_ms: row.value(3)?,
        end: end(row, 4)?,
        uid: row.int_or_none(6)?,
    })
}

/// Reads the end of a run from two columns.
fn end(row: &Columns<'_>, column: usize) -> Result<Option<RunEnd>, StoreError> {
    let (at_ms, outcome): (Option<i64>, Option<&str>) =
        (row.value(column)?, row.value(column + 1)?);
    let (Some(at_ms), Some(word)) = (at_ms, outcome) else { return Ok(None) };
    Ok(Some(RunEnd { at_ms, outcome: row.known(column + 1, RunOutcome::from_word(word))? }))
}

fn attempt(row: &Columns<'_>) -> Result<AttemptRecord, StoreError> {
    Ok(AttemptRecord {
        work: work(row, 0)?,
        attempt: row.int(1)?,
        step: row.value(2)?,
        started_ms: row.value(3)?,
        ended_ms: row.value(4)?,
        end: row.known(5, AttemptEnd::from_word(row.value(5)?))?,
        code: row.int_or_none(6)?,
        signal: row.int_or_none(7)?,
        why: row.value(8)?,
        peak_kib: row.int_or_none(9)?,
        cpu_ms: row.int_or_none(10)?,
    })
}

fn work(row: &Columns<'_>, column: usize) -> Result<WorkId, StoreError> {
    row.known(column, WorkId::new(row.int(column)?))
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts are always JSON")
}

fn from_json<T: DeserializeOwned>(row: &Columns<'_>, column: usize) -> Result<T, StoreError> {
    let text: Option<&str> = row.value(column)?;
    row.known(column, serde_json::from_str(text.unwrap_or("null")).ok())
}
