//! One attempt of one work, from the first poll of its body to the report of its end.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use tracing::Instrument;
use windlass_core::{EndKind, Grant, Input, Outcome, Phase, Why, WorkId};

use crate::context::{AttemptCell, WorkContext};
use crate::shared::{Shared, Visit};
use crate::state::State;
use crate::work::{Work, WorkOutcome};

/// An attempt that is to begin.
pub(crate) struct Attempt {
    pub(crate) name: Arc<str>,
    pub(crate) ctx: WorkContext,
    pub(crate) body: Box<dyn Work>,
}

impl Attempt {
    /// Runs the attempt and reports its end. Dropped before that, it reports that it is gone.
    pub(crate) async fn run(self) {
        let Attempt { name, ctx, body } = self;
        let (shared, grant) = (Arc::clone(&ctx.shared), ctx.grant());
        let mut unfinished = Unfinished { shared, grant, is_over: false };
        let span =
            tracing::info_span!("attempt", work = %name, id = %ctx.id, attempt = ctx.attempt);
        finish(&ctx, body).instrument(span).await;
        unfinished.is_over = true;
    }
}

async fn finish(ctx: &WorkContext, mut body: Box<dyn Work>) {
    let mut outcome = run_body(ctx, &mut *body).await;
    wait_for_children(ctx, &outcome).await;
    let mut report = Report { ctx, body: Some(body), told: None };
    while let Some(kind) = report.hand_in(&outcome) {
        let body = report.body.as_deref_mut().expect("it is handed in at the end");
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| call_hook(body, kind))) {
            outcome = WorkOutcome::Failed(panic_text(&*panic));
        }
        report.told = Some(kind);
    }
    tracing::debug!(?outcome, "attempt over");
}

/// Polls the body until it returns, panics, or has been asked to stop and does not.
async fn run_body(ctx: &WorkContext, body: &mut dyn Work) -> WorkOutcome {
    let run = async {
        body.on_reset();
        body.run(ctx.clone()).await
    };
    let run = paced(&ctx.cell, AssertUnwindSafe(run).catch_unwind());
    tokio::select! {
        biased;
        outcome = run => outcome.unwrap_or_else(|panic| WorkOutcome::Failed(panic_text(&*panic))),
        () = overstayed(ctx) => WorkOutcome::Cancelled,
    }
}

/// Ready when an attempt that was asked to stop has had its time to do so.
async fn overstayed(ctx: &WorkContext) {
    ctx.cell.token.cancelled().await;
    match ctx.shared.grace(ctx.id) {
        Some(grace) => tokio::time::sleep(grace).await,
        None => std::future::pending().await,
    }
}

/// An attempt ends after its children, which are asked to stop unless it went well.
async fn wait_for_children(ctx: &WorkContext, outcome: &WorkOutcome) {
    if ctx.children().open() == 0 {
        return;
    }
    ctx.shared.visit(|visit| {
        if *outcome != WorkOutcome::Success {
            visit.apply(Input::StopChildren(ctx.id)).expect("a work under way is known");
        }
        visit.apply(Input::Join(ctx.grant())).expect("the attempt is under way");
    });
    ctx.children_ended().await;
}

fn call_hook(body: &mut dyn Work, kind: EndKind) {
    match kind {
        EndKind::Success => body.on_success(),
        EndKind::Failed => body.on_failure_raise(),
        EndKind::Retry => body.on_failure_retry(),
        EndKind::Cancelled => body.on_abort(),
        _ => {}
    }
}

/// Polls the body only while its work may go on.
async fn paced<F: Future>(cell: &AttemptCell, run: F) -> F::Output {
    tokio::pin!(run);
    std::future::poll_fn(|cx| {
        // Registered before asking: whoever lets it go on in between wakes this task.
        cell.runner.register(cx.waker());
        if cell.may_go_on() { run.as_mut().poll(cx) } else { Poll::Pending }
    })
    .await
}

/// Hands in the end of an attempt, once the hook that belongs to it was called.
struct Report<'a> {
    ctx: &'a WorkContext,
    body: Option<Box<dyn Work>>,
    /// The end for which the hook was called.
    told: Option<EndKind>,
}

impl Report<'_> {
    /// The end that the hook has yet to hear of; none if the attempt is over. A cancel that comes
    /// between the two changes the end, and another hook is due.
    fn hand_in(&mut self, outcome: &WorkOutcome) -> Option<EndKind> {
        let grant = self.ctx.grant();
        let reported = reported(outcome);
        self.ctx.shared.visit(|visit| {
            let kind = visit.state.foresee(grant, reported)?;
            if self.told != Some(kind) {
                return Some(kind);
            }
            let error = self.error(&visit.state, outcome, kind);
            self.end(visit, Input::Finished { grant, outcome: reported }, error);
            None
        })
    }

    fn end(&mut self, visit: &mut Visit<'_>, finished: Input, error: Option<String>) {
        let work = self.ctx.id;
        visit.stop(work, self.body.take());
        if error.is_some() {
            visit.state.entry(work).last_error = error;
        }
        let family = visit.state.engine.descendants(work);
        visit.apply(finished).expect("it was foreseen just now");
        visit.state.drop_forgotten(&family, &mut visit.after);
    }

    /// What to tell people who ask why it did not succeed.
    fn error(&self, state: &State, outcome: &WorkOutcome, kind: EndKind) -> Option<String> {
        if !matches!(kind, EndKind::Failed | EndKind::Retry) {
            return None;
        }
        let why = match state.engine.phase(self.ctx.id) {
            Some(Phase::Cancelling { why, .. }) => Some(why),
            _ => None,
        };
        let entry = state.entries.get(&self.ctx.id);
        let (timeout, retries) = entry.map_or((None, 0), |entry| (entry.timeout, entry.retries));
        let (text, final_anyway) = match (why, outcome) {
            (Some(Why::Deadline), _) => ("its deadline passed".to_owned(), true),
            (Some(_), _) => (format!("timed out after {:?}", timeout.unwrap_or_default()), false),
            (None, WorkOutcome::Failed(error)) => (error.clone(), true),
            (None, WorkOutcome::Retry { .. }) => {
                let reason = self.ctx.cell.take_reason();
                (reason.unwrap_or_else(|| "it asked to be tried again".to_owned()), false)
            }
            // It asked for nothing itself, so it is told of its retries only if it had some.
            (None, _) => (failed_child(state, self.ctx.id), retries == 0),
        };
        Some(match kind {
            EndKind::Failed if !final_anyway => {
                format!("{text}; no retries left after attempt {}", self.ctx.attempt)
            }
            _ => text,
        })
    }
}

fn failed_child(state: &State, parent: WorkId) -> String {
    let children = state.engine.descendants(parent).into_iter();
    let mut own = children.filter(|child| state.engine.parent(*child) == Some(parent));
    let failed = own.find(|child| state.engine.phase(*child) == Some(Phase::Failed));
    let failed = failed.and_then(|child| state.entries.get(&child));
    match failed {
        Some(child) => {
            let why = child.last_error.as_deref().unwrap_or("for no known reason");
            format!("its child {:?} failed: {why}", child.name)
        }
        None => "a child of it did not succeed".to_owned(),
    }
}

fn reported(outcome: &WorkOutcome) -> Outcome {
    match outcome {
        WorkOutcome::Success => Outcome::Success,
        WorkOutcome::Retry { delay } => Outcome::Retry { delay: *delay },
        WorkOutcome::Failed(_) => Outcome::Failed,
        WorkOutcome::Cancelled => Outcome::Cancelled,
    }
}

/// An attempt whose end nobody has reported. Dropped, it reports that the attempt is gone, and the
/// body with it.
struct Unfinished {
    shared: Arc<Shared>,
    grant: Grant,
    is_over: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Grant { work, .. } = self.grant;
        self.shared.visit(|visit| {
            if visit.apply(Input::StopChildren(work)).is_err() {
                return;
            }
            if visit.state.engine.children(work).open() > 0 {
                // Refused only if the attempt is over.
                let _ = visit.apply(Input::Join(self.grant));
                visit.state.entry(work).abandoned = true;
            } else if visit.state.foresee(self.grant, Outcome::Cancelled).is_some() {
                visit.stop(work, None);
                visit.apply(State::gone(self.grant)).expect("it was foreseen just now");
            }
        });
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the work panicked: {}", text.unwrap_or("no message"))
}
