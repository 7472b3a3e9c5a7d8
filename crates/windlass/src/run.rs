//! A run: sees to it that there are enough runners, watches gates, and keeps the time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::{Input, WorkId};

use crate::attempt::{Attempts, panic_text};
use crate::entry::Entry;
use crate::gate::Gate;
use crate::shared::{Shared, Undropped};
use crate::state::Mode;
use crate::summary::RunSummary;

mod runner;

use runner::Runner;

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
    /// The tasks that watch gates.
    watchers: JoinSet<()>,
    /// It returns of its own accord: nothing is left to cancel.
    is_over: bool,
}

/// A gate that the run has taken from its work. A shutdown waits until it is dropped.
struct TakenGate {
    gate: Gate,
    _undropped: Undropped,
}

/// What there is to do before the next wait.
struct Round {
    attempts: Attempts,
    gates: Vec<(WorkId, TakenGate)>,
    /// Whether every work has ended.
    is_done: bool,
    /// Whether no works are accepted any more.
    is_closed: bool,
    wake: Option<Instant>,
}

impl Run {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let number = shared.change_run();
        let threads = Handle::current().metrics().num_workers();
        shared.look().runners.begin_run(number, threads);
        Self { shared, watchers: JoinSet::new(), is_over: false }
    }

    pub(crate) async fn go(mut self, until: Until, cancel: &CancellationToken) -> RunSummary {
        let (mut is_cancelled, mut news) = (false, Input::Tick);
        loop {
            if !is_cancelled && cancel.is_cancelled() {
                is_cancelled = true;
                self.cancel();
            }
            let Round { attempts, gates, is_done, is_closed, wake } = self.next_round(news);
            news = Input::Tick;
            Runner::start(&self.shared, attempts);
            gates.into_iter().for_each(|(work, gate)| self.watch(work, gate));
            while self.watchers.try_join_next().is_some() {}
            let is_done = is_done && self.watchers.is_empty();
            if is_done && (is_cancelled || is_closed || until == Until::Done) {
                self.is_over = true;
                return self.shared.look().tally.take();
            }
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !is_cancelled => {}
                () = self.shared.news.notified() => {}
                () = self.shared.client.wakeup.notified() => news = Input::RetrySearch,
                // A watcher has said what it had to say; a panic came from a destructor.
                Some(_) = self.watchers.join_next() => {}
                () = alarm(wake) => {}
            }
        }
    }

    /// Cancels every work, and what is submitted until the run returns.
    fn cancel(&self) {
        self.shared.session(|session| {
            if session.state.mode == Mode::Open {
                session.state.mode = Mode::Cancelling;
            }
            session.apply(Input::CancelAll).expect("everything can be cancelled");
        });
    }

    fn next_round(&self, news: Input) -> Round {
        self.shared.session(|session| {
            session.apply(news).expect("neither time nor a look is ever refused");
            let attempts = session.begin_more(&self.shared);
            let mut gates = Vec::new();
            for work in std::mem::take(&mut session.state.gates) {
                let extras = session.state.entry_mut(work).and_then(Entry::known_extras);
                let gate = extras.and_then(|extras| extras.gate.take());
                gates.extend(gate.map(|gate| {
                    let undropped = Undropped::begin(&self.shared, &mut session.state);
                    (work, TakenGate { gate, _undropped: undropped })
                }));
            }
            let alarm = session.state.engine.next_wakeup();
            session.state.runners.alarm = alarm;
            Round {
                attempts,
                gates,
                is_done: session.state.engine.is_done(),
                is_closed: session.state.mode == Mode::Closed,
                wake: alarm.and_then(|at| self.shared.client.capacity.instant(at)),
            }
        })
    }

    fn watch(&mut self, work: WorkId, taken: TakenGate) {
        let shared = Arc::clone(&self.shared);
        let watcher = self.watchers.spawn(async move {
            // The gate is dropped before it is counted as dropped, wherever the task is aborted.
            let TakenGate { gate, _undropped } = taken;
            let mut gate = gate.opened();
            let opened = AssertUnwindSafe(&mut gate).catch_unwind().await;
            let opened = opened.and(catch_unwind(AssertUnwindSafe(|| drop(gate))));
            let opened = opened.map_err(panic_text);
            shared.session(|session| {
                // Refused if the work has ended meanwhile.
                let _ = match opened {
                    Ok(()) => session.apply(Input::Open(work)),
                    Err(error) => session.reject(work, error),
                };
            });
        });
        let mut state = self.shared.look();
        // The work may wait for others again, with its gate still before it.
        if state.engine.phase(work).is_some_and(|phase| !phase.state().is_terminal()) {
            state.known(work).extras_mut().gate_watcher = Some(watcher);
        } else {
            watcher.abort();
        }
    }
}

/// Ready at this time; never without one. A runtime without timers serves a run that needs none.
async fn alarm(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.change_run();
        let under_way: Vec<_> = self.shared.session(|session| {
            session.state.runners.end_run();
            if session.state.mode == Mode::Cancelling {
                session.state.mode = Mode::Open;
            }
            if self.is_over {
                return Vec::new();
            }
            session.apply(Input::CancelAll).expect("everything can be cancelled");
            session.state.entries_mut().filter_map(|entry| entry.attempt().cloned()).collect()
        });
        // Their runners find that the run is over, and drop them.
        under_way.into_iter().for_each(|attempt| attempt.wake_runner());
    }
}
