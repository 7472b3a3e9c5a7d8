//! Queues and the bases of their journals, in SQL.

use rusqlite::{Row, params};
use windlass_core::WorkId;

use super::tables::SqliteTables;
use crate::error::StoreError;
use crate::queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
use crate::tables::QueueTables;

impl QueueTables for SqliteTables<'_> {
    fn insert_queue(&self, name: &str, run: &str) -> Result<(), StoreError> {
        self.execute("INSERT INTO run_queue (name, run) VALUES (?1, ?2)", [name, run])?;
        Ok(())
    }

    fn queues(&self) -> Result<Vec<StoredQueue>, StoreError> {
        self.all("SELECT name, run, added, changed FROM run_queue ORDER BY name", [], queue)
    }

    fn queue(&self, name: &str) -> Result<Option<StoredQueue>, StoreError> {
        self.one("SELECT name, run, added, changed FROM run_queue WHERE name = ?1", [name], queue)
    }

    fn queue_of_run(&self, run: &str) -> Result<Option<StoredQueue>, StoreError> {
        self.one("SELECT name, run, added, changed FROM run_queue WHERE run = ?1", [run], queue)
    }

    fn add_step(&self, run: &str, text: &str) -> Result<WorkId, StoreError> {
        let count = "UPDATE run_queue SET added = added + 1 WHERE run = ?1 RETURNING added";
        let number = self.one(count, [run], |row| work(row, 0))?;
        let number = number.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })?;
        let insert = "INSERT INTO added_step (run, work, text) VALUES (?1, ?2, ?3)";
        self.execute(insert, params![run, number.get(), text])?;
        Ok(number)
    }

    fn steps_after(&self, run: &str, after: u64) -> Result<Vec<StoredStep>, StoreError> {
        let query = "SELECT work, text FROM added_step WHERE run = ?1 AND work > ?2 ORDER BY work";
        self.all(query, params![run, after], step)
    }

    fn step(&self, run: &str, work: WorkId) -> Result<Option<StoredStep>, StoreError> {
        let query = "SELECT work, text FROM added_step WHERE run = ?1 AND work = ?2";
        self.one(query, params![run, work.get()], step)
    }

    fn set_step(&self, run: &str, work: WorkId, text: &str) -> Result<(), StoreError> {
        let set = "UPDATE added_step SET text = ?3 WHERE run = ?1 AND work = ?2";
        self.execute(set, params![run, work.get(), text])?;
        Ok(())
    }

    fn add_change(&self, run: &str, text: &str) -> Result<u64, StoreError> {
        let count = "UPDATE run_queue SET changed = changed + 1 WHERE run = ?1 RETURNING changed";
        let number: Option<u64> = self.one(count, [run], |row| row.get(0))?;
        let number = number.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })?;
        let insert = "INSERT INTO step_change (run, number, text) VALUES (?1, ?2, ?3)";
        self.execute(insert, params![run, number, text])?;
        Ok(number)
    }

    fn changes_after(&self, run: &str, after: u64) -> Result<Vec<StoredChange>, StoreError> {
        let query =
            "SELECT number, text FROM step_change WHERE run = ?1 AND number > ?2 ORDER BY number";
        self.all(query, params![run, after], |row| {
            Ok(StoredChange { number: row.get(0)?, text: row.get(1)? })
        })
    }

    fn delete_change(&self, run: &str, number: u64) -> Result<(), StoreError> {
        let delete = "DELETE FROM step_change WHERE run = ?1 AND number = ?2";
        self.execute(delete, params![run, number])?;
        Ok(())
    }

    fn delete_step(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        for table in ["added_step", "attempt", "wait", "decision"] {
            let delete = format!("DELETE FROM {table} WHERE run = ?1 AND work = ?2");
            self.execute(&delete, params![run, work.get()])?;
        }
        Ok(())
    }

    fn base(&self, run: &str) -> Result<Option<StoredBase>, StoreError> {
        self.one("SELECT seq, text FROM journal_base WHERE run = ?1", [run], |row| {
            Ok(StoredBase { facts: row.get(0)?, text: row.get(1)? })
        })
    }

    fn set_base(&self, run: &str, text: &str) -> Result<(), StoreError> {
        let put = "INSERT OR REPLACE INTO journal_base (run, seq, text) VALUES (?1, ?2, ?3)";
        self.execute(put, params![run, self.last_seq(run)?, text])?;
        self.execute("DELETE FROM fact WHERE run = ?1", [run])?;
        Ok(())
    }
}

fn queue(row: &Row<'_>) -> rusqlite::Result<StoredQueue> {
    Ok(StoredQueue {
        name: row.get(0)?,
        run: row.get(1)?,
        added: row.get(2)?,
        changed: row.get(3)?,
    })
}

fn step(row: &Row<'_>) -> rusqlite::Result<StoredStep> {
    Ok(StoredStep { work: work(row, 0)?, text: row.get(1)? })
}

/// Reads a number, which only a damaged store lacks.
fn work(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkId> {
    let number = WorkId::new(row.get(column)?);
    number.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, 0))
}
