//! Drives a scheduler's engine with Tokio: pulls grants, runs bodies, hands in their results.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::{Engine, Grant, Input, Outcome, WorkState};

use crate::scheduler::WorkScheduler;
use crate::work::{Work, WorkContext, WorkOutcome};

/// One call of `run_until_done`. Dropped early, it cancels every work.
pub(crate) struct Run<'a> {
    scheduler: &'a mut WorkScheduler,
    attempts: JoinSet<Attempt>,
}

/// An attempt that has returned, with the body for the next one.
struct Attempt {
    grant: Grant,
    body: Box<dyn Work>,
    outcome: WorkOutcome,
}

impl<'a> Run<'a> {
    pub(crate) fn new(scheduler: &'a mut WorkScheduler) -> Self {
        Self { scheduler, attempts: JoinSet::new() }
    }

    pub(crate) async fn until_done(mut self, cancel: &CancellationToken) {
        let mut cancelled = false;
        loop {
            self.start_what_fits();
            if self.scheduler.engine.is_done() {
                return;
            }
            let due = self.scheduler.engine.next_wakeup().and_then(|at| self.scheduler.instant(at));
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.scheduler.cancel_all();
                }
                Some(attempt) = self.attempts.join_next() => {
                    self.hand_in(attempt.expect("a body's panic is caught, and none is aborted"));
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.scheduler.apply(Input::Tick).expect("the passing of time is no surprise");
                }
            }
        }
    }

    fn start_what_fits(&mut self) {
        while let Some(grant) = self.scheduler.call(Engine::take_next) {
            self.scheduler.apply(Input::Begin(grant)).expect("it was granted just now");
            let entry = &mut self.scheduler.entries[grant.work.index()];
            entry.started_at = Some(Instant::now());
            let body = entry.body.take().expect("a body is there between attempts");
            let cancel_token = entry.token.clone();
            let ctx = WorkContext { id: grant.work, attempt: grant.attempt, cancel_token };
            self.attempts.spawn(attempt(grant, body, ctx));
        }
    }

    fn hand_in(&mut self, attempt: Attempt) {
        let Attempt { grant, body, outcome } = attempt;
        let reported = match &outcome {
            WorkOutcome::Success => Outcome::Success,
            WorkOutcome::Retry { delay } => Outcome::Retry { delay: *delay },
            WorkOutcome::Failed(_) => Outcome::Failed,
            WorkOutcome::Cancelled => Outcome::Cancelled,
        };
        let entry = &mut self.scheduler.entries[grant.work.index()];
        entry.settle(&outcome, Some(body));
        let finished = Input::Finished { grant, outcome: reported };
        self.scheduler.apply(finished).expect("an attempt returns once");
        let failed = self.scheduler.state(grant.work) == Some(WorkState::Failed);
        if failed && matches!(outcome, WorkOutcome::Retry { .. }) {
            let error = format!("no retries left after attempt {}", grant.attempt);
            self.scheduler.entries[grant.work.index()].last_error = Some(error);
        }
    }
}

impl Drop for Run<'_> {
    /// The bodies under way go with `attempts`, each at its next await.
    fn drop(&mut self) {
        if self.scheduler.engine.is_done() {
            return;
        }
        self.scheduler.cancel_all();
        for work in self.scheduler.engine.works().collect::<Vec<_>>() {
            if self.scheduler.state(work) == Some(WorkState::Running) {
                let attempt = self.scheduler.engine.attempts(work).expect("it is running");
                let grant = Grant { work, attempt };
                self.scheduler.entries[work.index()].settle(&WorkOutcome::Cancelled, None);
                let stopped = Input::Finished { grant, outcome: Outcome::Cancelled };
                self.scheduler.apply(stopped).expect("its body is being dropped");
            }
        }
    }
}

async fn attempt(grant: Grant, mut body: Box<dyn Work>, ctx: WorkContext) -> Attempt {
    let outcome = AssertUnwindSafe(body.run(ctx)).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|panic| {
        WorkOutcome::Failed(format!("the work panicked: {}", message(panic.as_ref())))
    });
    Attempt { grant, body, outcome }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
