//! Orders, reports and workers, in the SQL of PostgreSQL.

use windlass_core::Token;

use super::session::{Columns, int};
use super::tables::PostgresTables;
use crate::error::StoreError;
use crate::order::{Life, StoredOrder, StoredReport, StoredWorker, WorkerState};
use crate::tables::OrderTables;

/// The columns of an order, in the order in which [`order`] reads them.
const ORDER: &str = "token, run, key, worker, life, text, wish";

impl OrderTables for PostgresTables<'_> {
    fn insert_order(
        &self,
        run: &str,
        key: &str,
        life: &Life,
        text: &str,
    ) -> Result<u64, StoreError> {
        let token = self.next("token")?;
        let insert = "INSERT INTO work_order (token, run, key, worker, life, text)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let (number, of) = (int(token), int(life.token.0));
        self.session.execute(insert, &[&number, &run, &key, &life.worker, &of, &text])?;
        Ok(token)
    }

    fn set_wish(&self, token: u64, wish: &str) -> Result<(), StoreError> {
        let update = "UPDATE work_order SET wish = $2 WHERE token = $1";
        self.session.execute(update, &[&int(token), &wish])?;
        Ok(())
    }

    fn orders_of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError> {
        let query = format!(
            "SELECT {ORDER} FROM work_order WHERE worker = $1 AND life = $2 AND token > $3
             ORDER BY token"
        );
        self.session.all(&query, &[&life.worker, &int(life.token.0), &int(after)], order)
    }

    fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        let query =
            "SELECT token, wish FROM work_order WHERE worker = $1 AND life = $2 ORDER BY token";
        let read = |row: &Columns<'_>| Ok((row.int(0)?, row.value(1)?));
        self.session.all(query, &[&life.worker, &int(life.token.0)], read)
    }

    fn orders_before(&self, life: &Life) -> Result<Vec<StoredOrder>, StoreError> {
        let query = format!(
            "SELECT {ORDER} FROM work_order o WHERE worker = $1 AND life < $2
             AND NOT EXISTS (SELECT FROM report r WHERE r.token = o.token) ORDER BY token"
        );
        self.session.all(&query, &[&life.worker, &int(life.token.0)], order)
    }

    fn orders_of_run(&self, run: &str) -> Result<Vec<StoredOrder>, StoreError> {
        let query = format!("SELECT {ORDER} FROM work_order WHERE run = $1 ORDER BY token");
        self.session.all(&query, &[&run], order)
    }

    fn order_counts(&self, prefix: &str) -> Result<Vec<(String, usize)>, StoreError> {
        let query = "SELECT run, count(*) FROM work_order WHERE starts_with(key, $1)
            GROUP BY run ORDER BY run";
        self.session.all(query, &[&prefix], |row| Ok((row.value(0)?, row.int(1)?)))
    }

    fn put_report(&self, token: u64, text: &str) -> Result<(), StoreError> {
        // The scheduler may have taken the report in, and the reporter not have learned of it.
        let insert = "INSERT INTO report (token, text)
            SELECT token, $2 FROM work_order WHERE token = $1 ON CONFLICT DO NOTHING";
        self.session.execute(insert, &[&int(token), &text])?;
        Ok(())
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let query = "SELECT token, run, key, report.text FROM report JOIN work_order USING (token)
            ORDER BY token";
        self.session.all(query, &[], |row| {
            Ok(StoredReport {
                token: row.int(0)?,
                run: row.value(1)?,
                key: row.value(2)?,
                text: row.value(3)?,
            })
        })
    }

    fn take_report(&self, token: u64) -> Result<bool, StoreError> {
        let token = int(token);
        let report = self.session.execute("DELETE FROM report WHERE token = $1", &[&token])?;
        let order = self.session.execute("DELETE FROM work_order WHERE token = $1", &[&token])?;
        Ok((report, order) == (1, 1))
    }

    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError> {
        let put = "INSERT INTO worker (name, life, slots, state, since_ms)
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name)
            DO UPDATE SET life = $2, slots = $3, state = $4, since_ms = $5";
        let StoredWorker { life, slots, state, since_ms } = worker;
        let (of, slots, state) = (int(life.token.0), int(*slots), state.word());
        self.session.execute(put, &[&life.worker, &of, &slots, &state, since_ms])?;
        Ok(())
    }

    fn delete_worker(&self, life: &Life) -> Result<(), StoreError> {
        let delete = "DELETE FROM worker WHERE name = $1 AND life = $2";
        self.session.execute(delete, &[&life.worker, &int(life.token.0)])?;
        Ok(())
    }

    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError> {
        let query = "SELECT name, life, slots, state, since_ms FROM worker ORDER BY name";
        self.session.all(query, &[], |row| {
            Ok(StoredWorker {
                life: life(row, 0)?,
                slots: row.int(2)?,
                state: row.known(3, WorkerState::from_word(row.value(3)?))?,
                since_ms: row.value(4)?,
            })
        })
    }
}

fn order(row: &Columns<'_>) -> Result<StoredOrder, StoreError> {
    Ok(StoredOrder {
        token: row.int(0)?,
        run: row.value(1)?,
        key: row.value(2)?,
        life: life(row, 3)?,
        text: row.value(5)?,
        wish: row.value(6)?,
    })
}

fn life(row: &Columns<'_>, column: usize) -> Result<Life, StoreError> {
    Ok(Life { worker: row.value(column)?, token: Token(row.int(column + 1)?) })
}
