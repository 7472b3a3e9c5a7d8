//! What a worker executes, under the eyes of its guardian.
//!
//! Once the guardian ends something, how orders end says nothing: all reports are dropped, and the worker
//! learns that its life is over. A guardian that is gone is replaced.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::duty::OrderToken;
use super::guardian::{Guardian, GuardianState};
use crate::coordinator::RunError;
use crate::coordinator::attempts::{Attempts, LocalAttempts, News, Order, StopMode};
use crate::fence;

/// The interval between two looks whether the guardian has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The attempts of a worker, and its guardian.
pub(super) struct Guarded {
    attempts: LocalAttempts<OrderToken>,
    /// None until the life has begun.
    guardian: Option<Guardian>,
    /// Locked for as long as this process is the worker.
    presence: File,
}

impl Guarded {
    /// Takes attempts of which none has begun.
    pub(super) fn new(attempts: LocalAttempts<OrderToken>, presence: File) -> Self {
        Self { attempts, guardian: None, presence }
    }

    /// Returns the file that is locked for as long as this process is the worker.
    pub(super) fn presence(&self) -> &File {
        &self.presence
    }

    /// Heeds a guardian from now on.
    pub(super) fn heed(&mut self, guardian: Guardian) -> io::Result<()> {
        self.attempts.watch(guardian.as_fd())?;
        self.guardian = Some(guardian);
        Ok(())
    }

    /// Returns what the guardian does. Replaces one that is gone.
    fn look(&mut self) -> io::Result<GuardianState> {
        let Some(guardian) = &mut self.guardian else { return Ok(GuardianState::Watching) };
        let state = guardian.state();
        if state == GuardianState::Gone {
            guardian.replace(&self.presence)?;
            self.attempts.watch(guardian.as_fd())?;
        }
        Ok(state)
    }

    /// Takes output, while the guardian asks the processes of orders to end. A signal ends the wait.
    fn await_guardian(&mut self) -> Result<(), RunError> {
        while self.look().map_err(cannot_guard)? == GuardianState::Ending
            && let Some(guardian) = &mut self.guardian
            && let Some(left) = guardian.time_left().map_err(cannot_guard)?
        {
            let news = self.attempts.wait(Some(left.min(LOOK)))?;
            if news.iter().any(|news| matches!(news, News::Signal(_))) {
                break;
            }
        }
        Ok(())
    }
}

impl Attempts<OrderToken> for Guarded {
    fn prepare(&mut self, order: Order<OrderToken>) {
        self.attempts.prepare(order);
    }

    fn start_prepared(&mut self) -> Result<(), RunError> {
        self.attempts.start_prepared()
    }

    fn stop(&mut self, id: OrderToken, mode: StopMode) -> Result<(), RunError> {
        self.attempts.stop(id, mode)
    }

    fn set_limit(&mut self, id: OrderToken, left: Option<Duration>) {
        self.attempts.set_limit(id, left);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<News<OrderToken>>, RunError> {
        let news = self.attempts.wait(timeout)?;
        // The guardian tells before it ends anything, so what has ended until now was not ended by it.
        match self.look().map_err(cannot_guard)? {
            GuardianState::Ending => Ok(vec![News::LifeOver]),
            _ => Ok(news),
        }
    }

    fn is_idle(&self) -> bool {
        self.attempts.is_idle()
    }

    fn watch(&mut self, source: BorrowedFd<'_>) -> io::Result<()> {
        self.attempts.watch(source)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        fence::close();
        self.await_guardian()?;
        self.attempts.finish()?;
        self.guardian.take().map_or(Ok(()), |guardian| guardian.dismiss().map_err(cannot_guard))
    }
}

fn cannot_guard(source: io::Error) -> RunError {
    RunError::Io { what: "the worker's guardian cannot be started or heeded", source }
}
