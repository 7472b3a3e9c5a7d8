//! One attempt of one work, from the first poll of its body to the report of its end.

use std::any::Any;
use std::future::Future;
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures::FutureExt;
use tracing::Instrument;
use windlass_core::{Ending, Grant, Input, Outcome, Phase, Rejected, Why, WorkId};

use crate::context::{AttemptCell, WorkContext};
use crate::shared::{Shared, Visit};
use crate::state::State;
use crate::work::{Work, WorkOutcome};

/// An attempt that is to begin. Dropped before it is over, it reports that it is gone, once its body
/// is.
pub(crate) struct Attempt {
    name: Arc<str>,
    ctx: WorkContext,
    body: Box<dyn Work>,
    unfinished: Unfinished,
}

/// What a runner does after an attempt.
pub(crate) struct Next {
    pub(crate) attempt: Option<Attempt>,
    /// Whether others were woken who may stand behind it on the same thread.
    pub(crate) others_first: bool,
}

impl Attempt {
    pub(crate) fn new(name: Arc<str>, ctx: WorkContext, body: Box<dyn Work>, run: u64) -> Self {
        let (shared, grant) = (Arc::clone(&ctx.shared), ctx.grant());
        let unfinished = Unfinished { shared, grant, run, has_waited: false, is_over: false };
        Self { name, ctx, body, unfinished }
    }

    /// Runs the attempt and reports its end; what its runner does next.
    pub(crate) async fn run(self) -> Next {
        let Attempt { name, ctx, body, mut unfinished } = self;
        let span =
            tracing::info_span!("attempt", work = %name, id = %ctx.id, attempt = ctx.attempt);
        finish(&ctx, body, &mut unfinished).instrument(span).await
    }
}

async fn finish(ctx: &WorkContext, mut body: Box<dyn Work>, course: &mut Unfinished) -> Next {
    // Dropping what is left of the body may panic, too.
    let run = AssertUnwindSafe(run_body(ctx, &mut *body, course)).catch_unwind().await;
    let mut outcome = run.unwrap_or_else(|panic| WorkOutcome::Failed(panic_text(&*panic)));
    let mut report = Report { ctx, body: Some(body), told: None };
    loop {
        wait_for_children(ctx, &outcome, course).await;
        match report.hand_in(&outcome, course) {
            Answer::Over(next) => {
                tracing::debug!(?outcome, "attempt over");
                return next;
            }
            Answer::ChildrenOpen => {}
            Answer::Hook(kind) => {
                if let Err(panic) = report.call_hook(kind) {
                    outcome = WorkOutcome::Failed(panic_text(&*panic));
                }
            }
        }
    }
}

/// Polls the body until it returns, or has been asked to stop and does not.
async fn run_body(ctx: &WorkContext, body: &mut dyn Work, course: &mut Unfinished) -> WorkOutcome {
    let run = async {
        body.on_reset();
        body.run(ctx.clone()).await
    };
    tokio::select! {
        biased;
        outcome = paced(&ctx.cell, run, course) => outcome,
        () = overstayed(ctx) => WorkOutcome::Cancelled,
    }
}

/// Ready when an attempt that was asked to stop has had its time to do so.
async fn overstayed(ctx: &WorkContext) {
    ctx.cell.token().cancelled().await;
    match ctx.shared.grace(ctx.id) {
        Some(grace) => tokio::time::sleep(grace).await,
        None => std::future::pending().await,
    }
}

/// An attempt ends after its children, which are asked to stop unless it went well.
async fn wait_for_children(ctx: &WorkContext, outcome: &WorkOutcome, course: &mut Unfinished) {
    // Acquire, with the release in `add_child`.
    if !ctx.cell.has_children.load(Ordering::Acquire) || ctx.children().open() == 0 {
        return;
    }
    ctx.shared.visit(|visit| {
        if *outcome != WorkOutcome::Success {
            visit.apply(Input::StopChildren(ctx.id)).expect("a work under way is known");
        }
        visit.apply(Input::Join(ctx.grant())).expect("the attempt is under way");
    });
    course.wait();
    ctx.children_ended().await;
}

/// Polls the body only while its work may go on.
async fn paced<F: Future>(cell: &AttemptCell, run: F, course: &mut Unfinished) -> F::Output {
    tokio::pin!(run);
    std::future::poll_fn(|cx| {
        // Registered before asking: whoever lets it go on in between wakes this task.
        cell.runner.register(cx.waker());
        let polled = if cell.may_go_on() { run.as_mut().poll(cx) } else { Poll::Pending };
        if polled.is_pending() {
            course.wait();
            course.suspend_again(cell);
        }
        polled
    })
    .await
}

/// Hands in the end of an attempt, once the hook that belongs to it was called.
struct Report<'a> {
    ctx: &'a WorkContext,
    body: Option<Box<dyn Work>>,
    /// The end for which the hook was called.
    told: Option<Discriminant<Ending>>,
}

/// What is left to do before an attempt is over.
enum Answer {
    Over(Next),
    /// A child came after all: somebody else has the context, too.
    ChildrenOpen,
    /// The hook has yet to hear of this end.
    Hook(Ending),
}

impl Report<'_> {
    /// A cancel that comes between a hook and the end changes the end, and another hook is due. With
    /// the end the runner takes the next attempt.
    fn hand_in(&mut self, outcome: &WorkOutcome, course: &mut Unfinished) -> Answer {
        let grant = self.ctx.grant();
        let reported = reported(outcome);
        if self.told.is_none()
            && let Ok(kind) = self.ctx.shared.look().engine.ending(grant, reported)
        {
            return Answer::Hook(kind);
        }
        self.ctx.shared.visit(|visit| {
            // An attempt whose time is up by now has not made it.
            visit.apply(Input::Tick).expect("time passes");
            let kind = match visit.state.engine.ending(grant, reported) {
                Ok(kind) => kind,
                Err(Rejected::ChildrenOpen { .. }) => return Answer::ChildrenOpen,
                Err(_) => return Answer::Over(course.end(visit)),
            };
            if self.told != Some(discriminant(&kind)) {
                return Answer::Hook(kind);
            }
            let error = self.error(&visit.state, outcome, kind);
            self.end(visit, Input::Finished { grant, outcome: reported }, error);
            Answer::Over(course.end(visit))
        })
    }

    fn call_hook(&mut self, kind: Ending) -> std::thread::Result<()> {
        self.told = Some(discriminant(&kind));
        let body = self.body.as_deref_mut().expect("it is handed in at the end");
        catch_unwind(AssertUnwindSafe(|| match kind {
            Ending::Success => body.on_success(),
            Ending::Failed => body.on_failure_raise(),
            Ending::Retry { .. } => body.on_failure_retry(),
            Ending::Cancelled => body.on_abort(),
            _ => {}
        }))
    }

    fn end(&mut self, visit: &mut Visit<'_>, finished: Input, error: Option<String>) {
        let work = self.ctx.id;
        visit.stop(work, self.body.take());
        if error.is_some() {
            visit.state.entry(work).last_error = error;
        }
        let family = if self.ctx.cell.has_children.load(Ordering::Acquire) {
            visit.state.engine.descendants(work)
        } else {
            Vec::new()
        };
        visit.apply(finished).expect("it was foreseen just now");
        visit.state.drop_forgotten(&family, &mut visit.after);
    }

    /// What to tell people who ask why it did not succeed.
    fn error(&self, state: &State, outcome: &WorkOutcome, kind: Ending) -> Option<String> {
        if !matches!(kind, Ending::Failed | Ending::Retry { .. }) {
            return None;
        }
        let why = match state.engine.phase(self.ctx.id) {
            Some(Phase::Cancelling { why, .. }) => Some(why),
            _ => None,
        };
        let entry = state.entries.get(self.ctx.id);
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
            Ending::Failed if !final_anyway => {
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
    let failed = failed.and_then(|child| state.entries.get(child));
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
    /// The run that it belongs to.
    run: u64,
    /// Whether its body has waited, so that its runner is its own.
    has_waited: bool,
    is_over: bool,
}

impl Unfinished {
    /// The body waits: from the first time on, another runner takes what comes next.
    fn wait(&mut self) {
        if std::mem::replace(&mut self.has_waited, true) {
            return;
        }
        self.shared.visit(|visit| {
            visit.state.crew.polling -= 1;
            if self.run == visit.state.crew.run {
                // Handed over before the run can be dropped: whoever drops it looks for it.
                let next = visit.next_attempt(&self.shared);
                next.into_iter().for_each(|next| self.shared.hand_over(next));
                visit.nothing_new();
            }
        });
    }

    /// One of its waits is over and has gone on as far as it could, and another one is not: that one
    /// may be for somebody who needs the slot.
    fn suspend_again(&self, cell: &AttemptCell) {
        if cell.has_resumed() && cell.only_waits() {
            self.shared.visit(|visit| {
                if cell.only_waits() {
                    visit.apply(Input::Suspend(self.grant)).expect("the attempt is under way");
                }
            });
        }
    }

    /// The attempt is over, and its runner is free for the next one. If there is a thread for one
    /// more, it is handed over.
    fn end(&mut self, visit: &mut Visit<'_>) -> Next {
        self.is_over = true;
        visit.state.crew.polling -= usize::from(!self.has_waited);
        if self.run != visit.state.crew.run {
            return Next { attempt: None, others_first: false };
        }
        let attempt = visit.next_attempt(&self.shared);
        let more = attempt.is_some() && visit.state.crew.has_room();
        let other = if more { visit.next_attempt(&self.shared) } else { None };
        let others_first = other.is_some() || visit.after.has_resumed || visit.needs_the_run();
        other.into_iter().for_each(|other| self.shared.hand_over(other));
        visit.nothing_new();
        Next { attempt, others_first }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Grant { work, .. } = self.grant;
        self.shared.visit(|visit| {
            visit.state.crew.polling -= usize::from(!self.has_waited);
            // Without its body it cannot be tried again, whatever it was asked to stop for.
            if visit.apply(Input::Cancel(work)).is_err() {
                return;
            }
            if visit.state.engine.children(work).open() > 0 {
                // Refused only if the attempt is over.
                let _ = visit.apply(Input::Join(self.grant));
                visit.state.entry(work).abandoned = true;
            } else if visit.state.engine.ending(self.grant, Outcome::Cancelled).is_ok() {
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
