//! One attempt of one work, from the first poll of its body to the report of its end.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};
use tracing::Span;
use windlass_core::{Ending, Grant, Input, Outcome, Rejected, Timestamp};

use crate::body::Body;
use crate::context::{AttemptShared, WorkContext};
use crate::panic;
use crate::report::emit_success;
use crate::session::{Session, gone};
use crate::shared::Shared;
use crate::state::Runners;
use crate::work::WorkOutcome;

mod cause;

/// An attempt that is under way. Dropped before its end, it drops its body and reports that it is gone.
pub(crate) struct Attempt {
    ctx: WorkContext,
    /// Absent once it was handed back.
    body: Option<Box<dyn Body>>,
    /// The run that it began in.
    run: u64,
    stage: Stage,
    /// Whether it has waited, so that its task runs no other attempt meanwhile.
    has_waited: bool,
    /// The hook that was called last.
    called: Option<Hook>,
    overtime: Overtime,
    is_over: bool,
    /// Where spans are enabled.
    span: Option<Box<Span>>,
}

const _: () = assert!(size_of::<Attempt>() <= 112);

/// Attempts that have begun and have no runner yet: mostly none or one, for which no memory is allocated.
#[derive(Default)]
pub(crate) struct Attempts {
    first: Option<Attempt>,
    others: Vec<Attempt>,
}

enum Stage {
    /// Its body has yet to begin.
    New,
    Running,
    /// Its body has returned; its children may not have ended.
    Returned(WorkOutcome),
}

/// How long an attempt that was asked to stop may go on.
enum Overtime {
    /// It was not asked to stop, as far as is known.
    Unknown,
    Unlimited,
    Limited(Pin<Box<Sleep>>),
}

/// What a work is told of the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Success,
    Failure,
    Retry,
    Abort,
    /// Nothing.
    None,
}

/// What is left to do at the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedIn {
    /// Nothing. The end is none if the attempt had been ended by others.
    Over(Option<Ending>),
    /// The attempt has children that have not ended.
    ChildrenOpen,
    /// This hook has to be called first.
    HookDue(Hook),
}

const IS_HERE: &str = "a body is here until it is handed back";

impl Attempt {
    /// Begins an attempt in a session of its scheduler.
    pub(crate) fn begin(session: &mut Session<'_>, shared: &Arc<Shared>, grant: Grant) -> Self {
        let inner = Arc::new(AttemptShared::new(Arc::clone(shared), session.now()));
        let (body, run) = session.start(grant.work, &inner);
        Self {
            ctx: WorkContext { id: shared.issuer.id(grant.work), attempt: grant.attempt, inner },
            body: Some(body),
            run,
            stage: Stage::New,
            has_waited: false,
            called: None,
            overtime: Overtime::Unknown,
            is_over: false,
            span: None,
        }
    }

    /// Begins the next attempt of the same runner in place of this one, which is over.
    pub(crate) fn begin_anew(&mut self, session: &mut Session<'_>, grant: Grant) {
        AttemptShared::renew(&mut self.ctx.inner, session.now());
        (self.ctx.id, self.ctx.attempt) = (self.shared().issuer.id(grant.work), grant.attempt);
        let (body, run) = session.start(grant.work, &self.ctx.inner);
        (self.body, self.run) = (Some(body), run);
        (self.stage, self.overtime) = (Stage::New, Overtime::Unknown);
        (self.has_waited, self.called, self.is_over) = (false, None, false);
    }

    /// Returns whether its run is the one under way.
    pub(crate) fn is_current(&self) -> bool {
        self.shared().is_current(self.run)
    }

    pub(crate) fn grant(&self) -> Grant {
        self.ctx.grant()
    }

    pub(crate) fn began_at(&self) -> Timestamp {
        self.inner().began_at
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Polls the body, then waits for the children. Ready once the attempt can be handed in.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let span = self.span.take();
        let polled = {
            let _entered = span.as_ref().map(|span| span.enter());
            self.poll_inside(cx)
        };
        self.span = span;
        polled
    }

    fn poll_inside(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.stage, Stage::Returned(_)) {
            let outcome = ready!(self.poll_body(cx));
            self.stage = Stage::Returned(outcome);
        }
        ready!(self.poll_closures(cx));
        self.poll_children(cx)
    }

    /// Ready when no closure of the attempt is on the CPU pool: until then it keeps its slot. The body's end
    /// has asked them to stop.
    fn poll_closures(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.inner().is_on_pool() {
            return Poll::Ready(());
        }
        self.inner().register(cx.waker());
        match self.inner().is_on_pool() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<WorkOutcome> {
        if let Stage::New = self.stage {
            self.stage = Stage::Running;
            let (body, ctx) = (self.body.as_mut().expect(IS_HERE), &self.ctx);
            let begun = catch_unwind(AssertUnwindSafe(|| {
                body.work().on_reset();
                body.begin(ctx.clone());
            }));
            if let Err(panic) = begun {
                return Poll::Ready(self.stop_body(WorkOutcome::Failed(panic_text(panic))));
            }
        }
        if self.has_waited {
            self.inner().register(cx.waker());
        }
        if self.inner().may_go_on() {
            let body = self.body.as_mut().expect(IS_HERE);
            match catch_unwind(AssertUnwindSafe(|| poll(&mut **body, &self.ctx, cx))) {
                Ok(Poll::Ready(outcome)) => return Poll::Ready(outcome),
                Ok(Poll::Pending) => self.suspend_again(),
                Err(panic) => {
                    let outcome = WorkOutcome::Failed(panic_text(panic));
                    return Poll::Ready(self.stop_body(outcome));
                }
            }
        }
        if !self.has_waited {
            // What has happened before this has woken no task, so it is looked at below.
            self.inner().register(cx.waker());
        }
        ready!(self.poll_overtime(cx));
        Poll::Ready(self.stop_body(WorkOutcome::Cancelled))
    }

    /// Ready when an attempt that was asked to stop has had its time to do so. An attempt that computes on
    /// the CPU pool takes as long as it takes.
    fn poll_overtime(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.inner().is_stopped() {
            return Poll::Pending;
        }
        if let Overtime::Unknown = self.overtime {
            self.overtime = match self.shared().grace(self.grant().work, self.inner()) {
                Some(grace) if !self.inner().is_on_pool() => {
                    Overtime::Limited(Box::pin(sleep(grace)))
                }
                _ => Overtime::Unlimited,
            };
        }
        match &mut self.overtime {
            Overtime::Limited(sleep) => sleep.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Drops what is left of the body's future, which may panic, too.
    fn stop_body(&mut self, outcome: WorkOutcome) -> WorkOutcome {
        let body = self.body.as_mut().expect(IS_HERE);
        match catch_unwind(AssertUnwindSafe(|| body.stop())) {
            Ok(()) => outcome,
            Err(panic) => WorkOutcome::Failed(panic_text(panic)),
        }
    }

    /// One of its waits is over and has gone on as far as it could, and another is not over: that one may be
    /// for a work that needs the slot.
    fn suspend_again(&self) {
        let inner = self.inner();
        if inner.has_resumed() && inner.only_waits() {
            self.shared().session(|session| {
                if inner.only_waits() {
                    let suspend = Input::Suspend(self.ctx.grant());
                    session.apply(suspend).expect("the attempt is under way");
                }
            });
        }
    }

    /// Ready when its children have ended. They are asked to stop unless the body succeeded.
    fn poll_children(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.inner().has_children() {
            return Poll::Ready(());
        }
        self.inner().register(cx.waker());
        if self.ctx.children().open() == 0 {
            return Poll::Ready(());
        }
        let grant = self.ctx.grant();
        let succeeded = matches!(self.stage, Stage::Returned(WorkOutcome::Success));
        self.shared().session(|session| {
            if !succeeded {
                session.apply(Input::StopChildren(grant.work)).expect("a work under way is known");
            }
            session.apply(Input::Join(grant)).expect("the attempt is under way");
            match session.state.engine.children(grant.work).open() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
    }

    /// The attempt waits for the first time: its runner polls no other body from now on.
    pub(crate) fn begin_wait(&mut self, runners: &mut Runners) {
        self.end_polling(runners);
        self.has_waited = true;
    }

    /// Calls the hook for success before the lock is taken, where no other end is to be expected.
    pub(crate) fn expect_success(&mut self) {
        let succeeded = matches!(self.stage, Stage::Returned(WorkOutcome::Success));
        let is_plain = !self.inner().has_children() && !self.inner().is_stopped();
        if succeeded && is_plain && self.called.is_none() {
            self.call(Hook::Success);
        }
    }

    /// Calls a hook of the work. If that panics, the attempt has failed.
    pub(crate) fn call(&mut self, hook: Hook) {
        self.called = Some(hook);
        let _entered = self.span.as_ref().map(|span| span.enter());
        let work = self.body.as_mut().expect(IS_HERE).work();
        let called = catch_unwind(AssertUnwindSafe(|| match hook {
            Hook::Success => work.on_success(),
            Hook::Failure => work.on_failure_raise(),
            Hook::Retry => work.on_failure_retry(),
            Hook::Abort => work.on_abort(),
            Hook::None => {}
        }));
        if let Err(panic) = called {
            self.stage = Stage::Returned(WorkOutcome::Failed(panic_text(panic)));
        }
    }

    /// Ends the attempt, unless a hook is due. A cancel may come between the hook and the end: then another
    /// hook is due.
    pub(crate) fn hand_in(&mut self, session: &mut Session<'_>) -> HandedIn {
        let Stage::Returned(outcome) = &self.stage else {
            unreachable!("an attempt is handed in after its body has returned")
        };
        let (grant, reported) = (self.ctx.grant(), reported(outcome));
        // An attempt whose time is up by now has not made it.
        session.advance();
        let ending = match session.state.engine.ending(grant, reported) {
            Ok(ending) if self.called == Some(Hook::of(ending)) => ending,
            Ok(ending) => return HandedIn::HookDue(Hook::of(ending)),
            Err(Rejected::ChildrenOpen { .. }) => return HandedIn::ChildrenOpen,
            // The attempt was ended by others.
            Err(_) => {
                self.close(session);
                return HandedIn::Over(None);
            }
        };
        let cause = cause::of(&self.ctx, &session.state, outcome, ending);
        self.close(session);
        session.stop(grant.work, self.body.take());
        if let Some(cause) = cause {
            session.note_cause(grant.work, cause);
        }
        // Only a work that is tried again loses its family.
        let family = match ending {
            Ending::Retry { .. } => session.state.engine.descendants(grant.work),
            _ => Vec::new(),
        };
        // What follows from this is done together with what follows from the next beginning.
        session.engine_alone(|engine, world| engine.end_as(world, grant, ending));
        if !family.is_empty() {
            session.follow();
            session.state.drop_family(&family, session.effects);
        }
        HandedIn::Over(Some(ending))
    }

    fn close(&mut self, session: &mut Session<'_>) {
        self.is_over = true;
        if let Some(error) = self.inner().take_error() {
            session.effects.drop_later(Box::new(error));
        }
        self.end_polling(&mut session.state.runners);
    }

    /// Its body is polled for the first time no longer.
    fn end_polling(&self, runners: &mut Runners) {
        if !self.has_waited {
            runners.end_polling(self.run);
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.ctx.shared()
    }

    fn inner(&self) -> &AttemptShared {
        &self.ctx.inner
    }

    /// Opens the span of the attempt, where spans are enabled. Takes the scheduler's lock.
    #[inline]
    pub(crate) fn open_span(&mut self) {
        let is_enabled = tracing::enabled!(tracing::Level::INFO);
        if is_enabled || self.span.is_some() {
            self.span = is_enabled.then(|| Box::new(self.new_span()));
        }
    }

    fn new_span(&self) -> Span {
        let WorkContext { id, attempt, .. } = self.ctx;
        tracing::info_span!("attempt", work = %self.shared().name(id.local()), %id, attempt)
    }

    /// Emits the event of a success inside the span of the attempt.
    pub(crate) fn emit_success(&self, grant: Grant) {
        let _entered = self.span.as_ref().map(|span| span.enter());
        emit_success(grant);
    }
}

impl Attempts {
    pub(crate) fn push(&mut self, attempt: Attempt) {
        match self.first {
            None => self.first = Some(attempt),
            Some(_) => self.others.push(attempt),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl IntoIterator for Attempts {
    type Item = Attempt;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Attempt>, std::vec::IntoIter<Attempt>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.others)
    }
}

impl Hook {
    fn of(ending: Ending) -> Self {
        match ending {
            Ending::Success => Self::Success,
            Ending::Failed => Self::Failure,
            Ending::Retry { .. } => Self::Retry,
            Ending::Cancelled => Self::Abort,
            _ => Self::None,
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        panic::drop_quietly(self.body.take());
        let grant = self.ctx.grant();
        self.shared().session(|session| {
            self.end_polling(&mut session.state.runners);
            // Without its body it cannot be retried, for any stop reason.
            if session.apply(Input::Cancel(grant.work)).is_ok() && !self.inner().leave_to_pool() {
                give_up(session, grant);
            }
        });
    }
}

/// Ends an attempt that was cancelled and of which nothing is left, perhaps but children: then it ends after
/// them.
pub(crate) fn give_up(session: &mut Session<'_>, grant: Grant) {
    let work = grant.work;
    if session.state.engine.children(work).open() > 0 {
        // Refused only if the attempt is over.
        let _ = session.apply(Input::Join(grant));
        session.state.known(work).extras_mut().abandoned = true;
    } else if session.state.engine.ending(grant, Outcome::Cancelled).is_ok() {
        session.stop(work, None);
        session.apply(gone(grant)).expect("the engine has foreseen this end");
    }
}

/// Polls the body. May also panic where an error is asked for its text.
fn poll(body: &mut dyn Body, ctx: &WorkContext, cx: &mut Context<'_>) -> Poll<WorkOutcome> {
    let returned = ready!(body.poll(cx));
    Poll::Ready(returned.unwrap_or_else(|error| error.into_outcome(ctx)))
}

/// Returns what to say of a work that panicked.
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    format!("the work panicked: {}", panic::into_message(payload))
}

fn reported(outcome: &WorkOutcome) -> Outcome {
    match outcome {
        WorkOutcome::Success => Outcome::Success,
        WorkOutcome::Retry { delay } => Outcome::Retry { delay: *delay },
        WorkOutcome::Failed(_) => Outcome::Failed,
        WorkOutcome::Cancelled => Outcome::Cancelled,
    }
}
