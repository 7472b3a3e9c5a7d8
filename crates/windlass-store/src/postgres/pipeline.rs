//! What goes to the server with the next question, in one round trip.
//!
//! A statement whose answer nobody needs waits here for the next question, and so does a query whose rows will
//! be asked for. The server executes all of it in order, and refuses what follows an error in a transaction. So
//! the first error is that of the question.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, Row, Statement};

use super::session::Values;

/// What waits for the next question, and rows that have come before theirs.
#[derive(Default)]
pub(super) struct Pipeline {
    waiting: RefCell<Vec<Waiting>>,
    rows: RefCell<HashMap<Query, Vec<Row>>>,
}

enum Waiting {
    Batch(String),
    Statement(Statement, Vec<Encoded>),
    Ahead(Statement, Query),
}

/// A query and its parameters.
pub(super) type Query = (String, Vec<Encoded>);

/// A parameter as the server reads it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Encoded(Option<Vec<u8>>);

impl Pipeline {
    /// Has statements without parameters go along.
    pub(super) fn batch(&self, sql: String) {
        self.waiting.borrow_mut().push(Waiting::Batch(sql));
    }

    /// Has a statement go along.
    pub(super) fn statement(&self, statement: Statement, values: Vec<Encoded>) {
        self.waiting.borrow_mut().push(Waiting::Statement(statement, values));
    }

    /// Has a query go along whose rows will be asked for.
    pub(super) fn ahead(&self, statement: Statement, query: Query) {
        self.waiting.borrow_mut().push(Waiting::Ahead(statement, query));
    }

    /// Returns whether queries have gone ahead, or will, whose rows were not asked for.
    pub(super) fn is_ahead(&self) -> bool {
        let will = |waiting: &Waiting| matches!(waiting, Waiting::Ahead(..));
        !self.rows.borrow().is_empty() || self.waiting.borrow().iter().any(will)
    }

    /// Returns whether a query will go ahead with the next question.
    pub(super) fn will_ask(&self, query: &Query) -> bool {
        let is_it = |waiting: &Waiting| matches!(waiting, Waiting::Ahead(_, of) if of == query);
        self.waiting.borrow().iter().any(is_it)
    }

    /// Takes the rows of a query that has gone ahead.
    pub(super) fn take(&self, query: &Query) -> Option<Vec<Row>> {
        self.rows.borrow_mut().remove(query)
    }

    /// Drops the rows that were not asked for.
    pub(super) fn forget_rows(&self) {
        self.rows.borrow_mut().clear();
    }

    /// Drops everything, as when a transaction has failed.
    pub(super) fn clear(&self) {
        self.waiting.borrow_mut().clear();
        self.forget_rows();
    }

    /// Asks a question behind everything that waits.
    pub(super) async fn ask<T>(
        &self,
        client: &Client,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let waiting = self.waiting.take().into_iter();
        // Each goes out when it is polled first.
        let mut sent: Vec<_> = waiting.map(|waiting| Box::pin(waiting.send(client))).collect();
        let mut question = pin!(question);
        let (mut failed, mut answer) = (None, None);
        poll_fn(|context| {
            sent.retain_mut(|sent| match sent.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(rows)) => {
                    self.rows.borrow_mut().extend(rows);
                    false
                }
                Poll::Ready(Err(error)) => {
                    failed.get_or_insert(error);
                    false
                }
            });
            if answer.is_none()
                && let Poll::Ready(ready) = question.as_mut().poll(context)
            {
                answer = Some(ready);
            }
            if sent.is_empty() && answer.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        failed.map_or_else(|| answer.expect("it was waited for"), Err)
    }
}

impl Waiting {
    /// Sends this, and returns the rows of a query.
    async fn send(self, client: &Client) -> Result<Option<(Query, Vec<Row>)>, Error> {
        match self {
            Self::Batch(sql) => client.batch_execute(&sql).await.map(|()| None),
            Self::Statement(statement, values) => {
                client.execute_raw(&statement, &values).await.map(|_| None)
            }
            Self::Ahead(statement, query) => {
                let values: Vec<_> = query.1.iter().map(|value| value as _).collect();
                let rows = client.query(&statement, &values).await?;
                Ok(Some((query, rows)))
            }
        }
    }
}

/// Returns the parameters of a statement as the server reads them.
pub(super) fn encoded(
    statement: &Statement,
    values: Values<'_>,
) -> Result<Vec<Encoded>, Box<dyn StdError + Sync + Send>> {
    assert_eq!(statement.params().len(), values.len(), "the parameters of a statement");
    let each = statement.params().iter().zip(values).map(|(of, value)| {
        let mut bytes = BytesMut::new();
        Ok(match value.to_sql_checked(of, &mut bytes)? {
            IsNull::Yes => Encoded(None),
            IsNull::No => Encoded(Some(bytes.to_vec())),
        })
    });
    each.collect()
}

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
