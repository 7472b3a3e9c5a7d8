//! A runner: a task that runs one attempt after the other.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use windlass_core::Ending;

use crate::attempt::{Attempt, HandedIn};
use crate::report::emit_success;
use crate::shared::Shared;

/// Polls bodies in place. Between two bodies it takes the lock once, hands in the end of one attempt and begins
/// the next. When a body waits for the first time, the task is that attempt's own until its end, and other
/// runners start in its place: as many as there are threads without one.
pub(super) struct Runner {
    shared: Arc<Shared>,
    run: u64,
    attempt: Option<Attempt>,
    /// Disabled unless somebody listens.
    span: tracing::Span,
    /// What is left of its turn on the thread.
    units: u64,
}

/// A runner gives way to other tasks after so many units: one for each body, and one for every
/// [`UNIT`] that it took.
const TURN: u64 = 64;
const UNIT: Duration = Duration::from_micros(10);

impl Runner {
    /// Starts a runner for each of these attempts.
    pub(super) fn start(shared: &Arc<Shared>, run: u64, attempts: Vec<Attempt>) {
        for attempt in attempts {
            let (shared, span) = (Arc::clone(shared), tracing::Span::none());
            let mut runner = Self { shared, run, attempt: None, span, units: TURN };
            runner.take_up(Some(attempt));
            tokio::spawn(runner);
        }
    }

    fn take_up(&mut self, attempt: Option<Attempt>) {
        if tracing::enabled!(tracing::Level::INFO) {
            self.span = attempt.as_ref().map_or_else(tracing::Span::none, Attempt::span);
        }
        self.attempt = attempt;
    }

    /// Ends the attempt and begins the next one. Returns whether other tasks should go first.
    fn end(&mut self) -> Result<bool, HandedIn> {
        let attempt = self.attempt.as_mut().expect("an attempt is here until its end");
        attempt.expect_success();
        let (began_at, has_waited) = (attempt.began_at(), attempt.has_waited());
        let (shared, run) = (&self.shared, self.run);
        let grant = attempt.grant();
        let (ended, wakes) = shared.session_of_runner(|session| {
            let ending = match attempt.hand_in(session) {
                HandedIn::Over(ending) => ending,
                more => return Err(more),
            };
            let is_current = shared.is_current(run);
            let next = if is_current { session.begin_next(shared) } else { None };
            let others = if is_current { session.begin_more(shared) } else { Vec::new() };
            Ok((ending, next, others, session.now().since(began_at)))
        });
        let (ending, next, others, took) = ended?;
        if ending == Some(Ending::Success) {
            emit_success(grant);
        }
        let spent = 1 + took.as_nanos() as u64 / UNIT.as_nanos() as u64;
        self.units = if has_waited { TURN } else { self.units.saturating_sub(spent) };
        // A task that was just started or woken is where no other thread finds it, until this one returns.
        let gives_way = self.units == 0 || wakes || !others.is_empty();
        Self::start(shared, run, others);
        self.take_up(next);
        Ok(gives_way)
    }

    /// The body waits for the first time, and other runners start in the place of this one.
    fn begin_wait(&mut self) {
        let attempt = self.attempt.as_mut().expect("an attempt waits");
        let (shared, run) = (&self.shared, self.run);
        let others = shared.session(|session| {
            attempt.begin_wait(session);
            if shared.is_current(run) { session.begin_more(shared) } else { Vec::new() }
        });
        Self::start(shared, run, others);
    }
}

impl Future for Runner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        while let Some(attempt) = &mut this.attempt {
            if !this.shared.is_current(this.run) {
                // The run was dropped, and its bodies are dropped with it.
                let attempt = this.attempt.take();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(attempt)));
                return Poll::Ready(());
            }
            let span = this.span.clone();
            let _entered = span.enter();
            if attempt.poll(cx).is_pending() {
                if attempt.has_waited() {
                    return Poll::Pending;
                }
                this.begin_wait();
                // Nothing has woken this task for a run that was dropped meanwhile.
                if this.shared.is_current(this.run) {
                    return Poll::Pending;
                }
                continue;
            }
            match this.end() {
                Ok(false) | Err(HandedIn::Over(_) | HandedIn::ChildrenOpen) => {}
                Ok(true) => {
                    // To the queue of this thread, where another one finds it. Tokio's own yield would put it
                    // where only this thread does.
                    this.units = TURN;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(HandedIn::HookDue(ending)) => {
                    let attempt = this.attempt.as_mut().expect("its hook is due");
                    attempt.call_hook(ending);
                }
            }
        }
        Poll::Ready(())
    }
}
