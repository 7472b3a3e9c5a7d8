//! A run: a few runners, each with one body at a time, and somebody who sees to it that there are
//! enough of them.
//!
//! A runner polls its body, hands in the result, and in the same visit takes the next work; so works
//! that never wait cost no task and no wake-up. When a body waits for the first time, its runner is
//! its own from then on, and hands over the next work for another runner. There are no more runners
//! with bodies that have not waited than the runtime has threads, unless news came from outside
//! while all of them were busy. A body that never yields keeps its thread, and whatever the body
//! before it on the same runner has woken last: Tokio leaves that for the same thread.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, coop, yield_now};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::{Input, Timestamp, WorkId};

use crate::attempt::panic_text;
use crate::crew::LOOK_IN;
use crate::entry::Entry;
use crate::gate::Gate;
use crate::shared::Shared;
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
    number: u64,
    tasks: JoinSet<()>,
    /// It returns of its own accord: nothing is left to cancel.
    is_over: bool,
}

/// What there is to do before the next wait.
#[derive(Default)]
struct Round {
    /// How many runners to start.
    runners: usize,
    gates: Vec<(WorkId, Gate)>,
    /// Whether every work has ended.
    done: bool,
    /// Whether nothing is taken in any more.
    closed: bool,
    wake: Option<Instant>,
    /// Whether somebody rests who could help, or is on the way and may be held up.
    looks_in: bool,
}

impl Run {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let threads = Handle::current().metrics().num_workers();
        let number = shared.look().crew.begin(threads);
        shared.shelf().open(number, threads);
        Self { shared, number, tasks: JoinSet::new(), is_over: false }
    }

    pub(crate) async fn go(mut self, until: Until, cancel: &CancellationToken) {
        let mut cancelled = false;
        let mut is_news = true;
        // One for all rounds: to arm a timer may wake whoever sees to timers.
        let mut look_in = pin!(sleep(LOOK_IN));
        loop {
            // Asked before each round, so that a run whose token is cancelled already starts nothing.
            if !cancelled && cancel.is_cancelled() {
                cancelled = true;
                self.cancel();
            }
            let Round { runners, gates, done, closed, wake, looks_in } = self.next_round(is_news);
            (0..runners).for_each(|_| self.start_runner());
            gates.into_iter().for_each(|(work, gate)| self.watch(work, gate));
            if done && (cancelled || closed || until == Until::Done) {
                self.is_over = true;
                return;
            }
            if looks_in && look_in.is_elapsed() {
                look_in.as_mut().reset(Instant::now() + LOOK_IN);
            }
            is_news = true;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !cancelled => {}
                () = &mut look_in, if looks_in => is_news = false,
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

    fn start_runner(&mut self) {
        self.tasks.spawn(run_all(Arc::clone(&self.shared), self.number));
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

    /// What there is to do, after news or because it was time to look in.
    fn next_round(&self, is_news: bool) -> Round {
        let mut round = Round::default();
        self.shared.visit(|visit| {
            let now = visit.now();
            for _ in 0..visit.state.crew.missing(now, is_news) {
                let Some(attempt) = visit.next_attempt(&self.shared) else { break };
                self.shared.shelf().put(attempt);
            }
            let mut shelf = self.shared.shelf();
            round.runners = if is_news { shelf.send_for() } else { shelf.send_for_late() };
            round.looks_in = shelf.is_watched() | visit.state.crew.looks_in();
            drop(shelf);
            for work in std::mem::take(&mut visit.state.gates) {
                let rare = visit.state.entries.get_mut(work).and_then(Entry::known_rare);
                let gate = rare.and_then(|rare| rare.gate.take());
                round.gates.extend(gate.map(|gate| (work, gate)));
            }
            round.done = visit.state.engine.is_done();
            round.closed = visit.state.mode == Mode::Closed;
            let wake = visit.state.engine.next_wakeup();
            visit.state.crew.wakes_at = wake;
            round.wake = wake.and_then(|at| self.shared.client.capacity.instant(at));
            visit.seen_by_the_run();
        });
        round
    }

    fn watch(&mut self, work: WorkId, gate: Gate) {
        let shared = Arc::clone(&self.shared);
        let watcher = self.tasks.spawn(async move {
            let mut gate = gate.opened();
            let opened = AssertUnwindSafe(&mut gate).catch_unwind().await;
            let opened = opened.and(catch_unwind(AssertUnwindSafe(|| drop(gate))));
            let opened = opened.map_err(panic_text);
            shared.visit(|visit| {
                // Refused if the work has ended meanwhile.
                let _ = match opened {
                    Ok(()) => visit.apply(Input::Open(work)),
                    Err(error) => visit.reject(work, error),
                };
            });
        });
        let mut state = self.shared.look();
        // It may wait for others again, with its gate still before it.
        if state.engine.phase(work).is_some_and(|phase| !phase.state().is_terminal()) {
            state.entry(work).rare_mut().watcher = Some(watcher);
        } else {
            watcher.abort();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.visit(|visit| {
            visit.state.crew.end();
            if visit.state.mode == Mode::Cancelling {
                visit.state.mode = Mode::Open;
            }
            if !self.is_over {
                visit.apply(Input::CancelAll).expect("everything can be cancelled");
            }
        });
        let left = self.shared.shelf().close();
        for attempt in left {
            // A body whose destructor panics has told of it; the others go all the same.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(attempt)));
        }
    }
}

/// A runner: one attempt after the other, until there is none for it.
async fn run_all(shared: Arc<Shared>, run: u64) {
    let first = shared.shelf().take(run);
    let Some(first) = first else { return };
    let mut attempt = Box::new(first);
    attempt.take_up(shared.now());
    let mut turn = Turn::new(attempt.polled_at());
    loop {
        let next;
        (attempt, next) = attempt.run(&shared).await;
        if !next.again {
            return;
        }
        // Bodies that never wait must not keep other tasks from this thread.
        if turn.has_to_pay(attempt.polled_at()) && coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
        // Whoever was woken may stand behind this task on the same thread, where no other thread finds
        // it, and this body may never yield.
        if next.others_first || !coop::has_budget_remaining() {
            let steps_back = next.others_first || !next.is_alone;
            let kept = shared.leave(*attempt, run);
            let_others_go_first(steps_back).await;
            let Some(next) = kept.or_else(|| shared.shelf().take(run)) else { return };
            attempt = Box::new(next);
            attempt.take_up(shared.now());
        }
    }
}

/// What a runner owes for the turn that it has of its thread: a unit of Tokio's budget, which is 128 of them,
/// for about a microsecond. To let others go first, and be found by a thread that has nothing to do, takes as
/// long as a dozen bodies that take next to no time.
struct Turn {
    paid_at: Timestamp,
    /// How many bodies there were since.
    unpaid: u32,
}

/// So much time costs a unit.
const UNIT: Duration = Duration::from_micros(1);
/// So do so many bodies, also if time stands still.
const FEW: u32 = 4;

impl Turn {
    fn new(now: Timestamp) -> Self {
        Self { paid_at: now, unpaid: 0 }
    }

    /// Whether a unit is due after one more body; it is paid then.
    fn has_to_pay(&mut self, now: Timestamp) -> bool {
        self.unpaid += 1;
        let is_due = self.unpaid >= FEW || now.since(self.paid_at) >= UNIT;
        if is_due {
            *self = Self::new(now);
        }
        is_due
    }
}

/// Lets others on this thread go first. One that `steps_back` stands meanwhile where another thread finds it.
/// If none has come for it, it yields as Tokio has it, and goes on when its thread has nothing else to do: those
/// who went first may have yielded themselves, and would be stuck behind its body. Having nothing else to do,
/// a thread sees to timers, and others who came to do so have gone to sleep; so it steps back once more,
/// which wakes one of them.
async fn let_others_go_first(steps_back: bool) {
    let stepped_from = thread::current().id();
    if steps_back {
        step_back().await;
    }
    if thread::current().id() == stepped_from {
        yield_now().await;
        if steps_back {
            step_back().await;
        }
    }
}

/// Goes to the back of this thread's queue.
async fn step_back() {
    let mut has_stepped_back = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_stepped_back, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
