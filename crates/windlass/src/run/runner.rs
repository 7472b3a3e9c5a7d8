//! A runner: a task that runs one attempt after the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use windlass_core::Ending;

use crate::attempt::{Attempt, Attempts, HandedIn};
use crate::panic::drop_quietly;
use crate::shared::Shared;

/// Polls bodies in place. Between two bodies it takes the lock once, hands in the end of one attempt and begins
/// the next. When a body waits for the first time, the task is that attempt's own until its end, and other
/// runners start in its place: as many as there are threads without one.
pub(super) struct Runner {
    shared: Arc<Shared>,
    attempt: Option<Attempt>,
    /// What is left of its turn on the thread.
    units: u64,
}

/// A runner gives way to other tasks after so many units: one for each body, and one for every
/// [`UNIT`] that it took.
const TURN: u64 = 64;
const UNIT: Duration = Duration::from_micros(10);

impl Runner {
    /// Starts a runner for each of these attempts.
    pub(super) fn start(shared: &Arc<Shared>, attempts: Attempts) {
        for mut attempt in attempts {
            attempt.open_span();
            tokio::spawn(Self { shared: Arc::clone(shared), attempt: Some(attempt), units: TURN });
        }
    }

    /// Ends the attempt and begins the next one. Returns whether other tasks should go first; as an error, what
    /// has to be done before the attempt can end.
    fn end(&mut self) -> Result<bool, HandedIn> {
        let Self { shared, attempt: current, units } = self;
        let attempt = current.as_mut().expect("an attempt is here until its end");
        attempt.expect_success();
        let (grant, began_at, has_waited) =
            (attempt.grant(), attempt.began_at(), attempt.has_waited());
        let (mut next, mut others) = (None, Attempts::default());
        let ((handed_in, took), wakes) = shared.session_on(shared.look(), |session| {
            let handed_in = attempt.hand_in(session);
            if let HandedIn::Over(_) = handed_in
                && attempt.is_current()
            {
                next = session.begin_next();
                if let Some(grant) = next {
                    attempt.begin_anew(session, grant);
                }
                others = session.begin_more(shared);
            }
            (handed_in, session.now().since(began_at))
        });
        let HandedIn::Over(ending) = handed_in else { return Err(handed_in) };
        if ending == Some(Ending::Success) {
            attempt.emit_success(grant);
        }
        match next {
            Some(_) => attempt.open_span(),
            None => *current = None,
        }
        let spent = 1 + took.as_nanos() as u64 / UNIT.as_nanos() as u64;
        *units = if has_waited { TURN } else { units.saturating_sub(spent) };
        // A task that was just started or woken is where no other thread finds it, until this one returns.
        let gives_way = *units == 0 || wakes || !others.is_empty();
        if !others.is_empty() {
            Self::start(shared, others);
        }
        Ok(gives_way)
    }

    /// The body waits for the first time, and other runners start in the place of this one.
    fn begin_wait(&mut self) {
        let Self { shared, attempt, .. } = self;
        let attempt = attempt.as_mut().expect("an attempt waits");
        let mut state = shared.look();
        attempt.begin_wait(&mut state.runners);
        if state.runners.may_start_one() && state.runners.may_find_work() && attempt.is_current() {
            let (others, _) = shared.session_on(state, |session| session.begin_more(shared));
            Self::start(shared, others);
        }
    }
}

impl Future for Runner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        while let Some(attempt) = &mut this.attempt {
            if !attempt.is_current() {
                // The run was dropped, and its bodies are dropped with it.
                drop_quietly(this.attempt.take());
                return Poll::Ready(());
            }
            if attempt.poll(cx).is_pending() {
                if !attempt.has_waited() {
                    this.begin_wait();
                    // Nothing has woken this task for a run that was dropped meanwhile.
                    if !this.attempt.as_ref().is_some_and(Attempt::is_current) {
                        continue;
                    }
                }
                return Poll::Pending;
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
                Err(HandedIn::HookDue(hook)) => {
                    this.attempt.as_mut().expect("its hook is due").call(hook);
                }
            }
        }
        Poll::Ready(())
    }
}
