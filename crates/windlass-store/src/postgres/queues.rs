//! Queues and the bases of their journals, in the SQL of PostgreSQL.

use windlass_core::WorkId;

use super::session::{Columns, int};
use super::tables::PostgresTables;
use crate::error::StoreError;
use crate::queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
use crate::tables::QueueTables;

/// All queues.
pub(super) const QUEUES: &str = "SELECT name, run, added, changed FROM run_queue ORDER BY name";

impl QueueTables for PostgresTables<'_> {
    fn insert_queue(&self, name: &str, run: &str) -> Result<(), StoreError> {
        self.session
            .execute("INSERT INTO run_queue (name, run) VALUES ($1, $2)", &[&name, &run])?;
        Ok(())
    }

    fn queues(&self) -> Result<Vec<StoredQueue>, StoreError> {
        self.session.all(QUEUES, &[], queue)
    }

    fn queue(&self, name: &str) -> Result<Option<StoredQueue>, StoreError> {
        let query = "SELECT name, run, added, changed FROM run_queue WHERE name = $1";
        self.session.one(query, &[&name], queue)
    }

    fn queue_of_run(&self, run: &str) -> Result<Option<StoredQueue>, StoreError> {
        self.session.one(
            "SELECT name, run, added, changed FROM run_queue WHERE run = $1",
            &[&run],
            queue,
        )
    }

    fn add_step(&self, run: &str, text: &str) -> Result<WorkId, StoreError> {
        let count = "UPDATE run_queue SET added = added + 1 WHERE run = $1 RETURNING added";
        let number = self.session.one(count, &[&run], |row| work(row, 0))?;
        let number = number.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })?;
        let insert = "INSERT INTO added_step (run, work, text) VALUES ($1, $2, $3)";
        self.session.execute(insert, &[&run, &int(number.get()), &text])?;
        Ok(number)
    }

    fn steps_after(&self, run: &str, after: u64) -> Result<Vec<StoredStep>, StoreError> {
        let query = "SELECT work, text FROM added_step WHERE run = $1 AND work > $2 ORDER BY work";
        self.session.all(query, &[&run, &int(after)], step)
    }

    fn step(&self, run: &str, work: WorkId) -> Result<Option<StoredStep>, StoreError> {
        let query = "SELECT work, text FROM added_step WHERE run = $1 AND work = $2";
        self.session.one(query, &[&run, &int(work.get())], step)
    }

    fn set_step(&self, run: &str, work: WorkId, text: &str) -> Result<(), StoreError> {
        let set = "UPDATE added_step SET text = $3 WHERE run = $1 AND work = $2";
        self.session.execute(set, &[&run, &int(work.get()), &text])
    }

    fn add_change(&self, run: &str, text: &str) -> Result<u64, StoreError> {
        let count = "UPDATE run_queue SET changed = changed + 1 WHERE run = $1 RETURNING changed";
        let number: Option<u64> = self.session.one(count, &[&run], |row| row.int(0))?;
        let number = number.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })?;
        let insert = "INSERT INTO step_change (run, number, text) VALUES ($1, $2, $3)";
        self.session.execute(insert, &[&run, &int(number), &text])?;
        Ok(number)
    }

    fn changes_after(&self, run: &str, after: u64) -> Result<Vec<StoredChange>, StoreError> {
        let query =
            "SELECT number, text FROM step_change WHERE run = $1 AND number > $2 ORDER BY number";
        self.session.all(query, &[&run, &int(after)], |row| {
            Ok(StoredChange { number: row.int(0)?, text: row.value(1)? })
        })
    }

    fn delete_change(&self, run: &str, number: u64) -> Result<(), StoreError> {
        let delete = "DELETE FROM step_change WHERE run = $1 AND number = $2";
        self.session.execute(delete, &[&run, &int(number)])
    }

    fn delete_step(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        for table in ["added_step", "attempt", "guard_wait", "decision"] {
            let delete = format!("DELETE FROM {table} WHERE run = $1 AND work = $2");
            self.session.execute(&delete, &[&run, &int(work.get())])?;
        }
        Ok(())
    }

    fn base(&self, run: &str) -> Result<Option<StoredBase>, StoreError> {
        let query = "SELECT seq, text FROM journal_base WHERE run = $1";
        self.session
            .one(query, &[&run], |row| Ok(StoredBase { facts: row.int(0)?, text: row.value(1)? }))
    }

    fn set_base(&self, run: &str, text: &str) -> Result<(), StoreError> {
        let put = "INSERT INTO journal_base (run, seq, text) VALUES ($1, $2, $3)
            ON CONFLICT (run) DO UPDATE SET seq = $2, text = $3";
        self.session.execute(put, &[&run, &self.last_seq(run)?, &text])?;
        self.session.execute("DELETE FROM fact WHERE run = $1", &[&run])
    }
}

fn queue(row: &Columns<'_>) -> Result<StoredQueue, StoreError> {
    Ok(StoredQueue {
        name: row.value(0)?,
        run: row.value(1)?,
        added: row.int(2)?,
        changed: row.int(3)?,
    })
}

fn step(row: &Columns<'_>) -> Result<StoredStep, StoreError> {
    Ok(StoredStep { work: work(row, 0)?, text: row.value(1)? })
}

fn work(row: &Columns<'_>, column: usize) -> Result<WorkId, StoreError> {
    row.known(column, WorkId::new(row.int(column)?))
}
