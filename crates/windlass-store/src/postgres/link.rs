//! One connection to a server, which waits for an answer only so long.
//!
//! A network that is cut, or a server that stands still, may never answer. A link that has waited too long
//! counts as lost, whatever comes later.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Notification};

use super::target::Target;
use crate::error::StoreError;

/// How long to wait for a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// How long to wait for the answer to a statement.
pub(super) const ANSWER: Duration = Duration::from_secs(60);
/// How long to wait for the server to hear that the link is closed.
const CLOSE: Duration = Duration::from_millis(100);
/// How many notifications are kept that were not heard yet; then the server keeps them.
const NOTIFICATIONS: usize = 1024;

/// A connection.
pub(super) struct Link {
    /// None only while it is closed.
    client: Option<Client>,
    driver: JoinHandle<()>,
    notifications: Receiver<Notification>,
    runtime: Runtime,
    is_lost: Cell<bool>,
    /// When the caller cannot wait any longer.
    deadline: Cell<Option<Instant>>,
    database: String,
    /// How often the server was asked.
    #[cfg(test)]
    asked: Cell<usize>,
}

impl Link {
    /// Connects to the database, by `deadline` if there is one.
    pub(super) fn open(target: &Target, deadline: Option<Instant>) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(cannot_wait)?;
        let limit = until(deadline, CONNECT);
        let (tell, notifications) = mpsc::channel(NOTIFICATIONS);
        let connected =
            runtime.block_on(async { timeout(limit, connect(target, limit, tell)).await });
        let (client, driver) =
            connected.unwrap_or_else(|_| Err(late(target.to_string(), limit)))?;
        Ok(Self {
            client: Some(client),
            driver,
            notifications,
            runtime,
            is_lost: Cell::new(false),
            deadline: Cell::new(deadline),
            database: target.to_string(),
            #[cfg(test)]
            asked: Cell::default(),
        })
    }

    /// Sets when the caller cannot wait any longer.
    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_lost.get() || self.client().is_closed()
    }

    /// Asks the server something. The error of the server is told apart from a lost link.
    pub(super) fn ask<'a, T, F>(
        &'a self,
        question: impl FnOnce(&'a Client) -> F,
    ) -> Result<Result<T, tokio_postgres::Error>, StoreError>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let limit = until(self.deadline.get(), ANSWER);
        if self.is_lost.get() {
            return Err(late(self.database.clone(), limit));
        }
        #[cfg(test)]
        self.asked.update(|asked| asked + 1);
        let answer = question(self.client());
        let answer = self.runtime.block_on(async { timeout(limit, answer).await });
        answer.map_err(|_| self.give_up(limit))
    }

    /// Fails if the caller cannot wait for another answer.
    pub(super) fn expect_time(&self) -> Result<(), StoreError> {
        match until(self.deadline.get(), ANSWER) {
            Duration::ZERO => Err(self.give_up(Duration::ZERO)),
            _ => Ok(()),
        }
    }

    fn give_up(&self, limit: Duration) -> StoreError {
        self.is_lost.set(true);
        self.driver.abort();
        late(self.database.clone(), limit)
    }

    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.asked.get()
    }

    /// Waits for a notification. Returns none after `limit`, and an error once the link is lost.
    pub(super) fn hear(&mut self, limit: Duration) -> Result<Option<Notification>, Closed> {
        let heard = self.notifications.recv();
        match self.runtime.block_on(async { timeout(limit, heard).await }) {
            Ok(Some(notification)) => Ok(Some(notification)),
            Ok(None) => Err(Closed),
            Err(_) if self.is_closed() => Err(Closed),
            Err(_) => Ok(None),
        }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("it is there until the link is dropped")
    }
}

/// The link is lost.
#[derive(Debug)]
pub(super) struct Closed;

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.client.take());
        if !self.is_lost.get() {
            let driver = &mut self.driver;
            // It tells the server. A server that does not hear it finds out.
            let _ = self.runtime.block_on(async { timeout(CLOSE, driver).await });
        }
    }
}

async fn connect(
    target: &Target,
    limit: Duration,
    tell: Sender<Notification>,
) -> Result<(Client, JoinHandle<()>), StoreError> {
    match target.tls()? {
        None => {
            let connected = target.config(limit).connect(NoTls).await;
            let (client, connection) = connected.map_err(|error| target.error(&error))?;
            Ok((client, tokio::spawn(drive(connection, tell))))
        }
        Some(tls) => {
            let connected = target.config(limit).connect(tls).await;
            let (client, connection) = connected.map_err(|error| target.error(&error))?;
            Ok((client, tokio::spawn(drive(connection, tell))))
        }
    }
}

/// Carries what client and server tell each other, until the link is lost or closed.
async fn drive<S, T>(mut connection: Connection<S, T>, tell: Sender<Notification>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            // Only a listener keeps the other end.
            let _ = tell.send(notification).await;
        }
    }
}

fn until(deadline: Option<Instant>, limit: Duration) -> Duration {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    left.map_or(limit, |left| left.min(limit))
}

fn late(database: String, limit: Duration) -> StoreError {
    let why = format!("no answer within {:.1} s", limit.as_secs_f64());
    StoreError::DatabaseAway { database, why }
}

fn cannot_wait(source: io::Error) -> StoreError {
    StoreError::SystemQuery { what: "a connection to a database", source }
}
