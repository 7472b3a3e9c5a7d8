//! A run: pulls grants from the engine, has bodies polled, and waits for news.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::{Engine, Grant, Input, Phase, WorkId};

use crate::attempt::{Attempt, panic_text};
use crate::context::WorkContext;
use crate::gate::Gate;
use crate::shared::{Shared, Visit};
use crate::state::Mode;

/// When a run returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Once every work has ended.
    Done,
    /// Once it is cancelled, and every work has ended.
    Cancelled,
}

/// One run of a scheduler. Dropped early, it cancels every work, and the bodies are dropped at their
/// next await.
pub(crate) struct Run {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    /// It returns of its own accord: nothing is left to cancel.
    is_over: bool,
}

/// What there is to do before the next wait.
#[derive(Default)]
struct Round {
    attempts: Vec<Attempt>,
    gates: Vec<(WorkId, Gate)>,
    /// Whether every work has ended.
    done: bool,
    /// Whether nothing is taken in any more.
    closed: bool,
    wake: Option<Instant>,
}

impl Run {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, tasks: JoinSet::new(), is_over: false }
    }

    pub(crate) async fn go(mut self, until: Until, cancel: &CancellationToken) {
        let mut cancelled = false;
        loop {
            let Round { attempts, gates, done, closed, wake } = self.next_round();
            attempts.into_iter().for_each(|attempt| _ = self.tasks.spawn(attempt.run()));
            gates.into_iter().for_each(|(work, gate)| self.watch(work, gate));
            if done && (cancelled || closed || until == Until::Done) {
                self.is_over = true;
                return;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel();
                }
                () = self.shared.news.notified() => {}
                () = self.shared.client.bell.notified() => {
                    self.shared.apply(Input::LookAgain).expect("a look is never refused");
                }
                // Whatever a task had to say it has said; a panic came from a destructor.
                Some(_) = self.tasks.join_next() => {}
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Cancels every work, and what comes until the run returns.
    fn cancel(&self) {
        self.shared.visit(|visit| {
            if visit.state.mode == Mode::Open {
                visit.state.mode = Mode::Cancelling;
            }
            visit.apply(Input::CancelAll).expect("everything can be cancelled");
        });
    }

    fn next_round(&self) -> Round {
        let mut round = Round::default();
        self.shared.visit(|visit| {
            while let Some(grant) = visit.engine(Engine::take_next) {
                round.attempts.extend(self.begin(visit, grant));
            }
            for work in std::mem::take(&mut visit.state.gates) {
                let gate = visit.state.entries.get_mut(&work).and_then(|entry| entry.gate.take());
                round.gates.extend(gate.map(|gate| (work, gate)));
            }
            round.done = visit.state.engine.is_done();
            round.closed = visit.state.mode == Mode::Closed;
            let wake = visit.state.engine.next_wakeup();
            round.wake = wake.and_then(|at| self.shared.client.capacity.instant(at));
            visit.nothing_new();
        });
        round
    }

    /// The attempt that is to begin; none if it goes on after a wait, which it has heard by now.
    fn begin(&self, visit: &mut Visit<'_>, grant: Grant) -> Option<Attempt> {
        let Grant { work, attempt } = grant;
        if visit.state.engine.phase(work) != Some(Phase::Granted) {
            return None;
        }
        let entry = visit.state.entry(work);
        let (cell, body) = entry.start(Instant::now());
        let name = entry.name.clone();
        visit.apply(Input::Begin(grant)).expect("it was granted just now");
        let ctx = WorkContext { id: work, attempt, cell, shared: Arc::clone(&self.shared) };
        Some(Attempt::new(name, ctx, body))
    }

    fn watch(&mut self, work: WorkId, gate: Gate) {
        let shared = Arc::clone(&self.shared);
        let watcher = self.tasks.spawn(async move {
            let opened = AssertUnwindSafe(gate.opened()).catch_unwind().await;
            shared.visit(|visit| {
                // Refused if the work has ended meanwhile.
                let _ = match opened {
                    Ok(()) => visit.apply(Input::Open(work)),
                    Err(panic) => visit.reject(work, panic_text(&*panic)),
                };
            });
        });
        let mut state = self.shared.look();
        // It may wait for others again, with its gate still before it.
        if state.engine.phase(work).is_some_and(|phase| !phase.state().is_terminal()) {
            state.entry(work).watcher = Some(watcher);
        } else {
            watcher.abort();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.visit(|visit| {
            if visit.state.mode == Mode::Cancelling {
                visit.state.mode = Mode::Open;
            }
            if !self.is_over {
                visit.apply(Input::CancelAll).expect("everything can be cancelled");
            }
        });
    }
}
