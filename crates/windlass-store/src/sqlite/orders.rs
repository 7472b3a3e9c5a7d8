//! Orders, reports and workers, in SQL.

use rusqlite::{Row, params};
use windlass_core::Token;

use super::tables::SqliteTables;
use crate::error::StoreError;
use crate::order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker, WorkerState};
use crate::tables::OrderTables;

/// The columns of an order, in the order in which [`order`] reads them.
const ORDER: &str = "token, run, key, worker, life, text, wish";

impl OrderTables for SqliteTables<'_> {
    fn insert_orders(&self, run: &str, orders: &[NewOrder]) -> Result<Vec<u64>, StoreError> {
        let insert =
            "INSERT INTO work_order (run, key, worker, life, text) VALUES (?1, ?2, ?3, ?4, ?5)";
        let insert = |NewOrder { key, life, text }: &NewOrder| {
            self.execute(insert, params![run, key, life.worker, life.token.0, text])?;
            Ok(self.sqlite.last_insert_rowid().unsigned_abs())
        };
        orders.iter().map(insert).collect()
    }

    fn set_wish(&self, token: u64, wish: &str) -> Result<(), StoreError> {
        self.execute("UPDATE work_order SET wish = ?2 WHERE token = ?1", params![token, wish])?;
        Ok(())
    }

    fn orders_of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError> {
        let query = format!(
            "SELECT {ORDER} FROM work_order WHERE worker = ?1 AND life = ?2 AND token > ?3 ORDER BY token"
        );
        self.all(&query, params![life.worker, life.token.0, after], order)
    }

    fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        let query =
            "SELECT token, wish FROM work_order WHERE worker = ?1 AND life = ?2 ORDER BY token";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.all(query, params![life.worker, life.token.0], read)
    }

    fn orders_before(&self, life: &Life) -> Result<Vec<StoredOrder>, StoreError> {
        let query = format!(
            "SELECT {ORDER} FROM work_order WHERE worker = ?1 AND life < ?2
             AND token NOT IN (SELECT token FROM report) ORDER BY token"
        );
        self.all(&query, params![life.worker, life.token.0], order)
    }

    fn orders_of_run(&self, run: &str) -> Result<Vec<StoredOrder>, StoreError> {
        self.all(
            &format!("SELECT {ORDER} FROM work_order WHERE run = ?1 ORDER BY token"),
            [run],
            order,
        )
    }

    fn order_counts(&self, prefix: &str) -> Result<Vec<(String, usize)>, StoreError> {
        let query = "SELECT run, count(*) FROM work_order
            WHERE substr(key, 1, length(?1)) = ?1 GROUP BY run";
        self.all(query, [prefix], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn put_reports(&self, reports: &[(u64, String)]) -> Result<(), StoreError> {
        // The scheduler may have taken a report in, and the reporter not have learned of it.
        let insert = "INSERT OR IGNORE INTO report (token, text)
            SELECT token, ?2 FROM work_order WHERE token = ?1";
        for (token, text) in reports {
            self.execute(insert, params![token, text])?;
        }
        Ok(())
    }

    fn has_reports(&self) -> Result<bool, StoreError> {
        Ok(!self.all("SELECT 1 FROM report LIMIT 1", [], |_| Ok(()))?.is_empty())
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let query = "SELECT token, run, key, report.text FROM report JOIN work_order USING (token)
            ORDER BY token";
        self.all(query, [], |row| {
            Ok(StoredReport {
                token: row.get(0)?,
                run: row.get(1)?,
                key: row.get(2)?,
                text: row.get(3)?,
            })
        })
    }

    fn take_reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let reports = self.reports()?;
        for StoredReport { token, .. } in &reports {
            // Its report goes with it.
            self.execute("DELETE FROM work_order WHERE token = ?1", [token])?;
        }
        Ok(reports)
    }

    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError> {
        let put = "INSERT OR REPLACE INTO worker (name, life, slots, state, since_ms, offer, about)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let StoredWorker { life, slots, offer, state, since_ms, about } = worker;
        let (of, state) = (life.token.0, state.word());
        self.execute(put, params![life.worker, of, slots, state, since_ms, offer, about])?;
        Ok(())
    }

    fn delete_worker(&self, life: &Life) -> Result<(), StoreError> {
        let delete = "DELETE FROM worker WHERE name = ?1 AND life = ?2";
        self.execute(delete, params![life.worker, life.token.0])?;
        Ok(())
    }

    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError> {
        let query =
            "SELECT name, life, slots, state, since_ms, offer, about FROM worker ORDER BY name";
        self.all(query, [], |row| {
            let state = WorkerState::from_word(&row.get::<_, String>(3)?);
            Ok(StoredWorker {
                life: life(row, 0)?,
                slots: row.get(2)?,
                state: state.ok_or(rusqlite::Error::IntegralValueOutOfRange(3, 0))?,
                since_ms: row.get(4)?,
                offer: row.get(5)?,
                about: row.get(6)?,
            })
        })
    }

    fn name_worker(&self, run: &str, number: u32, name: &str) -> Result<(), StoreError> {
        let insert = "INSERT INTO run_worker (run, number, name) VALUES (?1, ?2, ?3)";
        self.execute(insert, params![run, number, name])?;
        Ok(())
    }

    fn worker_names(&self, run: &str) -> Result<Vec<String>, StoreError> {
        let query = "SELECT name FROM run_worker WHERE run = ?1 ORDER BY number";
        self.all(query, [run], |row| row.get(0))
    }
}

fn order(row: &Row<'_>) -> rusqlite::Result<StoredOrder> {
    Ok(StoredOrder {
        token: row.get(0)?,
        run: row.get(1)?,
        key: row.get(2)?,
        life: life(row, 3)?,
        text: row.get(5)?,
        wish: row.get(6)?,
    })
}

fn life(row: &Row<'_>, column: usize) -> rusqlite::Result<Life> {
    Ok(Life { worker: row.get(column)?, token: Token(row.get(column + 1)?) })
}
