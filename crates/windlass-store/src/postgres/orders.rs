//! Orders, reports and workers, in the SQL of PostgreSQL.

use windlass_core::{Name, Token};

use super::queues::QUEUES;
use super::runs::SERVED;
use super::session::{Columns, Values, int};
use super::tables::{
    ALL_REQUESTS, META, PostgresTables, REQUESTS, leases_of_workers, leases_on_name,
};
use crate::error::StoreError;
use crate::order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker, WorkerState};
use crate::tables::{Look, OrderTables};

/// The columns of an order, in the order in which [`order`] reads them.
const ORDER: &str = "token, run, key, worker, life, text, wish";

/// The wishes of the orders of a life.
const WISHES: &str =
    "SELECT token, wish FROM work_order WHERE worker = $1 AND life = $2 ORDER BY token";
const HAS_REPORTS: &str = "SELECT 1 FROM report LIMIT 1";
const WORKERS: &str =
    "SELECT name, life, slots, state, since_ms, offer, about FROM worker ORDER BY name";

impl OrderTables for PostgresTables<'_> {
    fn expect(&self, look: Look<'_>) -> Result<(), StoreError> {
        let ask = |query: &str, values: Values<'_>| self.session.look_ahead(query, values);
        match look {
            Look::OfScheduler => {
                let lead = Name::Scheduler;
                ask(&leases_on_name(), &[&lead.kind(), &lead.text()])?;
                ask(WORKERS, &[])?;
                ask(&leases_of_workers(), &[])?;
                ask(HAS_REPORTS, &[])?;
                ask(SERVED, &[])?;
                ask(ALL_REQUESTS, &[])?;
                ask(QUEUES, &[])
            }
            Look::OfWorker { life, after, target } => {
                let token = int(life.token.0);
                ask(REQUESTS, &[&target])?;
                ask(&orders_of_life(), &[&life.worker, &token, &int(after)])?;
                ask(WISHES, &[&life.worker, &token])?;
                ask(META, &[])
            }
        }
    }

    fn insert_orders(&self, run: &str, orders: &[NewOrder]) -> Result<Vec<u64>, StoreError> {
        let insert =
            "WITH raised AS (UPDATE meta SET token = token + $2 RETURNING token - $2 AS before)
            INSERT INTO work_order (token, run, key, worker, life, text)
            SELECT before + place, $1, key, worker, life, text FROM raised,
            unnest($3::text[], $4::text[], $5::bigint[], $6::text[])
            WITH ORDINALITY AS new (key, worker, life, text, place)
            RETURNING token";
        let keys: Vec<_> = orders.iter().map(|order| &order.key).collect();
        let workers: Vec<_> = orders.iter().map(|order| &order.life.worker).collect();
        let lives: Vec<_> = orders.iter().map(|order| int(order.life.token.0)).collect();
        let texts: Vec<_> = orders.iter().map(|order| &order.text).collect();
        let values: Values<'_> = &[&run, &int(orders.len()), &keys, &workers, &lives, &texts];
        let mut tokens: Vec<u64> = self.session.all(insert, values, |row| row.int(0))?;
        tokens.sort_unstable();
        Ok(tokens)
    }

    fn set_wish(&self, token: u64, wish: &str) -> Result<(), StoreError> {
        let update = "UPDATE work_order SET wish = $2 WHERE token = $1";
        self.session.execute(update, &[&int(token), &wish])
    }

    fn orders_of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError> {
        let query = orders_of_life();
        self.session.all(&query, &[&life.worker, &int(life.token.0), &int(after)], order)
    }

    fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        let read = |row: &Columns<'_>| Ok((row.int(0)?, row.value(1)?));
        self.session.all(WISHES, &[&life.worker, &int(life.token.0)], read)
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

    fn put_reports(&self, reports: &[(u64, String)]) -> Result<(), StoreError> {
        // The scheduler may have taken a report in, and the reporter not have learned of it.
        let insert = "INSERT INTO report (token, text)
            SELECT token, new.text FROM unnest($1::bigint[], $2::text[]) AS new (token, text)
            JOIN work_order USING (token) ON CONFLICT DO NOTHING";
        let tokens: Vec<_> = reports.iter().map(|(token, _)| int(*token)).collect();
        let texts: Vec<_> = reports.iter().map(|(_, text)| text).collect();
        self.session.execute(insert, &[&tokens, &texts])
    }

    fn has_reports(&self) -> Result<bool, StoreError> {
        let found = self.session.one(HAS_REPORTS, &[], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let query = "SELECT token, run, key, report.text FROM report JOIN work_order USING (token)
            ORDER BY token";
        self.session.all(query, &[], report)
    }

    fn take_reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let query = "WITH taken AS (DELETE FROM report RETURNING token, text)
            DELETE FROM work_order ordered USING taken WHERE ordered.token = taken.token
            RETURNING ordered.token, ordered.run, ordered.key, taken.text";
        let mut taken = self.session.all(query, &[], report)?;
        taken.sort_unstable_by_key(|report| report.token);
        Ok(taken)
    }

    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError> {
        let put = "INSERT INTO worker (name, life, slots, state, since_ms, offer, about)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO UPDATE
            SET life = $2, slots = $3, state = $4, since_ms = $5, offer = $6, about = $7";
        let StoredWorker { life, slots, offer, state, since_ms, about } = worker;
        let (of, slots, state) = (int(life.token.0), int(*slots), state.word());
        self.session.execute(put, &[&life.worker, &of, &slots, &state, since_ms, offer, about])
    }

    fn delete_worker(&self, life: &Life) -> Result<(), StoreError> {
        let delete = "DELETE FROM worker WHERE name = $1 AND life = $2";
        self.session.execute(delete, &[&life.worker, &int(life.token.0)])
    }

    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError> {
        self.session.all(WORKERS, &[], |row| {
            Ok(StoredWorker {
                life: life(row, 0)?,
                slots: row.int(2)?,
                state: row.known(3, WorkerState::from_word(row.value(3)?))?,
                since_ms: row.value(4)?,
                offer: row.value(5)?,
                about: row.value(6)?,
            })
        })
    }

    fn name_worker(&self, run: &str, number: u32, name: &str) -> Result<(), StoreError> {
        let insert = "INSERT INTO run_worker (run, number, name) VALUES ($1, $2, $3)";
        self.session.execute(insert, &[&run, &int(number), &name])
    }

    fn worker_names(&self, run: &str) -> Result<Vec<String>, StoreError> {
        let query = "SELECT name FROM run_worker WHERE run = $1 ORDER BY number";
        self.session.all(query, &[&run], |row| row.value(0))
    }
}

/// Returns the query for the orders of a life above a token.
fn orders_of_life() -> String {
    format!(
        "SELECT {ORDER} FROM work_order WHERE worker = $1 AND life = $2 AND token > $3
         ORDER BY token"
    )
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

fn report(row: &Columns<'_>) -> Result<StoredReport, StoreError> {
    Ok(StoredReport {
        token: row.int(0)?,
        run: row.value(1)?,
        key: row.value(2)?,
        text: row.value(3)?,
    })
}

fn life(row: &Columns<'_>, column: usize) -> Result<Life, StoreError> {
    Ok(Life { worker: row.value(column)?, token: Token(row.int(column + 1)?) })
}
