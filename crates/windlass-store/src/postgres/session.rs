//! One connection to the database: statements that are prepared once, and rows that are read with care.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, ready};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Row, Statement};

use super::link::{ANSWER, Link};
use super::pipeline::{Encoded, Pipeline, encoded};
use super::target::Target;
use crate::error::StoreError;

/// The parameters of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection.
pub(super) struct Session {
    link: Link,
    pipeline: Pipeline,
    statements: RefCell<HashMap<String, Statement>>,
    database: String,
    /// What tells the database apart from others, and from copies of it.
    system: String,
    /// Whether a statement has failed in a way that a repetition of the transaction may mend.
    is_repeatable: Cell<bool>,
}

impl Session {
    /// Connects to the database, by `deadline` if there is one. The server ends the session if it stands still
    /// in a transaction for `stall`, because it keeps out all writers. What the server knows of the sizes of
    /// tables says nothing of those that are empty now and then: without indexes, the joins of their statements
    /// would cost the square.
    pub(super) fn open(
        target: &Target,
        stall: Duration,
        deadline: Option<Instant>,
    ) -> Result<Self, StoreError> {
        let (schema, stall, answer) = (target.schema(), stall.as_millis(), ANSWER.as_millis());
        let mut session = Self {
            link: Link::open(target, deadline)?,
            pipeline: Pipeline::default(),
            statements: RefCell::default(),
            database: target.to_string(),
            system: String::new(),
            is_repeatable: Cell::new(false),
        };
        session.batch(&format!(
            "SET search_path = \"{schema}\"; SET jit = off; SET enable_seqscan = off;
             SET statement_timeout = {answer};
             SET idle_in_transaction_session_timeout = {stall};
             SET default_transaction_isolation = 'read committed'"
        ))?;
        let system = "SELECT system_identifier::text FROM pg_control_system()";
        session.system = session.one(system, &[], |row| row.value(0))?.expect("it has one row");
        Ok(session)
    }

    /// Returns what tells the database apart from others, and from copies of it.
    pub(super) fn system(&self) -> &str {
        &self.system
    }

    /// Sets when the caller cannot wait any longer.
    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        self.link.set_deadline(deadline);
    }

    /// Fails if the caller cannot wait for another answer. Then the connection is given up.
    pub(super) fn expect_time(&self) -> Result<(), StoreError> {
        self.link.expect_time()
    }

    /// Returns whether the connection is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Returns whether the last transaction has failed in a way that a repetition may mend: the
    /// connection was lost, another transaction got in the way, or the server had no room.
    pub(super) fn is_repeatable(&self) -> bool {
        self.is_repeatable.get() || self.is_closed()
    }

    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.link.asked()
    }

    /// Forgets what a transaction has left that has failed.
    pub(super) fn clear(&self) {
        self.pipeline.clear();
        self.is_repeatable.set(false);
    }

    /// Runs statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.ask(|client| client.batch_execute(sql))
    }

    /// Runs statements without parameters with the next question.
    pub(super) fn batch_later(&self, sql: impl Into<String>) {
        self.pipeline.batch(sql.into());
    }

    /// Runs a statement with the next question: if it fails, that does.
    pub(super) fn execute(&self, sql: &str, values: Values<'_>) -> Result<(), StoreError> {
        let statement = self.prepared(sql)?;
        let values = self.encoded(&statement, values)?;
        self.pipeline.statement(statement, values);
        Ok(())
    }

    /// Runs a statement and returns how many rows it has changed.
    pub(super) fn change(&self, sql: &str, values: Values<'_>) -> Result<u64, StoreError> {
        let statement = self.prepared(sql)?;
        self.ask(|client| client.execute(&statement, values))
    }

    /// Runs a query with the next question. Its rows are those of the same query when it is asked next: until
    /// then, nothing of what it reads is written.
    pub(super) fn look_ahead(&self, sql: &str, values: Values<'_>) -> Result<(), StoreError> {
        let statement = self.prepared(sql)?;
        let values = self.encoded(&statement, values)?;
        self.pipeline.ahead(statement, (sql.to_owned(), values));
        Ok(())
    }

    /// Forgets the rows of queries that were not asked again.
    pub(super) fn forget_ahead(&self) {
        self.pipeline.forget_rows();
    }

    /// Returns the rows of a query, each read with `read`.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Columns<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(sql, values)?;
        rows.iter().map(|row| read(&Columns { row, session: self })).collect()
    }

    fn rows(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(sql)?;
        if self.pipeline.is_ahead() {
            let query = (sql.to_owned(), self.encoded(&statement, values)?);
            if self.pipeline.will_ask(&query) {
                self.ask(|_| ready(Ok(())))?;
            }
            if let Some(rows) = self.pipeline.take(&query) {
                return Ok(rows);
            }
        }
        self.ask(|client| client.query(&statement, values))
    }

    /// Returns the first row of a query, if it has one.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Columns<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Asks the server something, behind all that waits to go along.
    fn ask<'a, T, F>(&'a self, question: impl FnOnce(&'a Client) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let answer = self.link.ask(|client| self.pipeline.ask(client, question(client)))?;
        answer.map_err(|error| self.error(&error))
    }

    fn encoded(
        &self,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<Vec<Encoded>, StoreError> {
        encoded(statement, values).map_err(|error| StoreError::Database {
            database: self.database.clone(),
            why: error.to_string(),
        })
    }

    fn prepared(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.link.ask(|client| client.prepare(sql))?;
        let statement = prepared.map_err(|error| self.error(&error))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn error(&self, error: &tokio_postgres::Error) -> StoreError {
        const REPEATABLE: [SqlState; 3] = [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ];
        let is_turned_away = error.code().is_some_and(|code| REPEATABLE.contains(code));
        let error = super::target::error(&self.database, error);
        if is_turned_away || matches!(error, StoreError::DatabaseFull { .. }) {
            self.is_repeatable.set(true);
        }
        error
    }
}

/// One row of a result.
pub(super) struct Columns<'a> {
    row: &'a Row,
    session: &'a Session,
}

impl Columns<'_> {
    /// Returns a number that is always there.
    pub(super) fn int<T: TryFrom<i64>>(&self, column: usize) -> Result<T, StoreError> {
        T::try_from(self.value(column)?).map_err(|_| self.damaged(column, "is out of range"))
    }

    /// Returns a number that may be missing.
    pub(super) fn int_or_none<T: TryFrom<i64>>(
        &self,
        column: usize,
    ) -> Result<Option<T>, StoreError> {
        let found: Option<i64> = self.value(column)?;
        let number = found.map(T::try_from).transpose();
        number.map_err(|_| self.damaged(column, "is out of range"))
    }

    /// Returns a value of a type that the database has as well.
    pub(super) fn value<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, StoreError> {
        self.row.try_get(column).map_err(|_| self.damaged(column, "has another type"))
    }

    /// Returns a value that only a damaged store lacks.
    pub(super) fn known<T>(&self, column: usize, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.damaged(column, "is unknown"))
    }

    fn damaged(&self, column: usize, what: &str) -> StoreError {
        let name = self.row.columns()[column].name();
        let why = format!("the value of column {name} {what}");
        StoreError::Database { database: self.session.database.clone(), why }
    }
}

/// Returns a number in the stored form, at most the largest one that fits.
pub(super) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Returns a number that may be missing in the stored form.
pub(super) fn int_or_none(number: Option<impl TryInto<i64>>) -> Option<i64> {
    number.map(int)
}

#[cfg(test)]
mod tests {
    use windlass_sim::postgres::Server;

    use super::*;

    #[test]
    fn a_session_with_the_statements_of_another_one_is_behind_a_pooler() {
        let Some(server) = Server::shared() else { return };
        let target = Target::parse(&server.new_store()).expect("a URL");
        let session = Session::open(&target, Duration::from_secs(10), None).expect("it opens");
        // The library numbers the statements of all connections of a process.
        let taken = "DO $$ BEGIN FOR number IN 0..999 LOOP
            BEGIN EXECUTE format('PREPARE s%s AS SELECT 1', number);
            EXCEPTION WHEN duplicate_prepared_statement THEN NULL; END; END LOOP; END $$";
        session.batch(taken).expect("they can be prepared");
        let refused = session.one("SELECT 1", &[], |_| Ok(()));
        assert!(matches!(refused, Err(StoreError::Pooled { .. })), "{refused:?}");
    }
}
