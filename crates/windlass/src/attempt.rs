//! One attempt of one work, from the first poll of its body to the report of its end.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures::FutureExt;
use tracing::Instrument;
use windlass_core::{
    Begun, Ending, Grant, Input, Outcome, Phase, Rejected, Timestamp, Why, WorkId,
};

use crate::context::{AttemptCell, WorkContext};
use crate::crew::{Crew, LastEnd};
use crate::shared::{Shared, Succeeded, Visit};
use crate::state::{Mode, State};
use crate::work::{Work, WorkOutcome};

/// An attempt that is to begin. Dropped before it is over, it reports that it is gone, once its body
/// is. Its runner goes on to the next one in its place.
pub(crate) struct Attempt {
    /// Until it is handed in.
    body: Option<Box<dyn Work>>,
    course: Course,
}

/// What a runner does after an attempt.
pub(crate) struct Next {
    /// Whether it has another one.
    pub(crate) again: bool,
    /// Whether others were woken who may stand behind it on the same thread.
    pub(crate) others_first: bool,
}

impl Attempt {
    pub(crate) fn new(
        ctx: WorkContext,
        body: Box<dyn Work>,
        polled_at: Timestamp,
        run: u64,
    ) -> Self {
        let course = Course {
            ctx,
            run,
            polled_at,
            last_end: LastEnd::default(),
            told: None,
            has_waited: false,
            is_over: false,
        };
        Self { body: Some(body), course }
    }

    /// Its runner is there from now on; until then it was on its way, and no body took that long.
    pub(crate) fn arrive(&mut self, now: Timestamp) {
        self.course.polled_at = now;
    }

    /// Runs the attempt and reports its end; what its runner does next.
    pub(crate) async fn run(self: Box<Self>, shared: &Arc<Shared>) -> (Box<Self>, Next) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return self.finish(shared).await;
        }
        let WorkContext { id, attempt, .. } = self.course.ctx;
        let name = shared.name(id);
        let span = tracing::info_span!("attempt", work = %name, %id, attempt);
        self.finish(shared).instrument(span).await
    }

    async fn finish(mut self: Box<Self>, shared: &Arc<Shared>) -> (Box<Self>, Next) {
        let mut outcome = self.run_body().await;
        if outcome == WorkOutcome::Success && self.course.is_untroubled() {
            match self.call_hook(Ending::Success) {
                Ok(()) => {
                    let Succeeded { attempt, next } = shared.succeed(self);
                    if let Some(next) = next {
                        tracing::debug!(?outcome, "attempt over");
                        return (attempt, next);
                    }
                    self = attempt;
                }
                Err(panic) => outcome = WorkOutcome::Failed(panic_text(&*panic)),
            }
        }
        let next = self.finish_otherwise(shared, outcome).await;
        (self, next)
    }

    /// Everything but an attempt that ends well and has nobody to wait for.
    async fn finish_otherwise(&mut self, shared: &Arc<Shared>, mut outcome: WorkOutcome) -> Next {
        loop {
            self.course.wait_for_children(&outcome).await;
            match self.hand_in(shared, &outcome) {
                Answer::Over(next) => {
                    tracing::debug!(?outcome, "attempt over");
                    return next;
                }
                Answer::ChildrenOpen => {}
                Answer::Hook(kind) => {
                    if let Err(panic) = self.call_hook(kind) {
                        outcome = WorkOutcome::Failed(panic_text(&*panic));
                    }
                }
            }
        }
    }

    /// Polls the body until it returns, or has been asked to stop and does not.
    async fn run_body(&mut self) -> WorkOutcome {
        let Self { body, course } = self;
        let (body, ctx) = (body.as_deref_mut().expect(IS_HERE), course.ctx.clone());
        let made = catch_unwind(AssertUnwindSafe(|| {
            body.on_reset();
            body.run(ctx)
        }));
        let mut run = match made {
            Ok(run) => run,
            Err(panic) => return WorkOutcome::Failed(panic_text(&*panic)),
        };
        let polled = poll_fn(|cx| Poll::Ready(poll_caught(run.as_mut(), cx))).await;
        let ended = match polled {
            Ok(Poll::Ready(outcome)) => Ok(outcome),
            Ok(Poll::Pending) => course.go_on(&mut run).await,
            Err(panic) => Err(panic),
        };
        // Dropping what is left of the body may panic, too.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(run)));
        let outcome = ended.and_then(|outcome| dropped.map(|()| outcome));
        outcome.unwrap_or_else(|panic| WorkOutcome::Failed(panic_text(&*panic)))
    }

    fn call_hook(&mut self, kind: Ending) -> std::thread::Result<()> {
        self.course.told = Some(discriminant(&kind));
        let body = self.body.as_deref_mut().expect(IS_HERE);
        catch_unwind(AssertUnwindSafe(|| match kind {
            Ending::Success => body.on_success(),
            Ending::Failed => body.on_failure_raise(),
            Ending::Retry { .. } => body.on_failure_retry(),
            Ending::Cancelled => body.on_abort(),
            _ => {}
        }))
    }

    /// The attempt went well, as its body has been told. None if something came between the two, or
    /// there is more to it.
    pub(crate) fn succeed(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) -> Option<Next> {
        let grant = self.course.ctx.grant();
        let goes_on = self.course.goes_on(&visit.state.crew);
        let (begun, transitions) = visit.engine_alone(|engine, world| match goes_on {
            GoesOn::Yes => engine.succeed_and_begin_next(world, grant),
            _ => engine.succeed(world, grant).then_some(None),
        });
        let begun = begun.inspect(|_| self.stop(visit, ended_at));
        visit.follow(transitions);
        let next = match begun? {
            Some(Begun::Started(grant)) => Some(grant),
            Some(Begun::Resumed(_)) => visit.begin_next(),
            None => None,
        };
        self.course.close(&mut visit.state.crew, ended_at);
        Some(self.go_on(visit, goes_on, next))
    }

    /// Hands the body in.
    fn stop(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) {
        let work = self.course.ctx.id;
        // Those are the entry's and ours; under the lock nobody can be given another.
        if Arc::strong_count(&self.course.ctx.cell) == 2
            && visit.state.mode != Mode::Closed
            && let Some(body) = self.body.take()
        {
            visit.stop_alone(work, body, ended_at);
        } else {
            visit.stop(work, self.body.take(), ended_at);
        }
    }

    /// A cancel that comes between a hook and the end changes the end, and another hook is due. With
    /// the end the runner takes the next attempt.
    fn hand_in(&mut self, shared: &Arc<Shared>, outcome: &WorkOutcome) -> Answer {
        let grant = self.course.ctx.grant();
        let reported = reported(outcome);
        if self.course.told.is_none()
            && let Ok(kind) = shared.look().engine.ending(grant, reported)
        {
            return Answer::Hook(kind);
        }
        shared.visit(|visit| {
            let ended_at = visit.now();
            // An attempt whose time is up by now has not made it.
            visit.apply(Input::Tick).expect("time passes");
            let kind = match visit.state.engine.ending(grant, reported) {
                Ok(kind) => kind,
                Err(Rejected::ChildrenOpen { .. }) => return Answer::ChildrenOpen,
                Err(_) => return Answer::Over(self.go_on_to_the_next(visit, ended_at)),
            };
            if self.course.told != Some(discriminant(&kind)) {
                return Answer::Hook(kind);
            }
            let error = self.course.error(&visit.state, outcome, kind);
            self.stop(visit, ended_at);
            self.course.end(visit, Input::Finished { grant, outcome: reported }, error);
            Answer::Over(self.go_on_to_the_next(visit, ended_at))
        })
    }

    /// The attempt is over, and its runner is free for the next one.
    fn go_on_to_the_next(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) -> Next {
        let goes_on = self.course.goes_on(&visit.state.crew);
        self.course.close(&mut visit.state.crew, ended_at);
        let next = if goes_on == GoesOn::Yes { visit.begin_next() } else { None };
        self.go_on(visit, goes_on, next)
    }

    /// Takes the next one. If there is a thread for one more, and that is of use, it is handed over.
    fn go_on(&mut self, visit: &mut Visit<'_>, goes_on: GoesOn, next: Option<Grant>) -> Next {
        if goes_on == GoesOn::Gone {
            return Next { again: false, others_first: false };
        }
        let course = &mut self.course;
        course.last_end = visit.state.crew.last_end();
        let again = next.is_some();
        if let Some(grant) = next {
            self.body = Some(course.begin(visit, grant));
        }
        let handed_over = again && visit.state.crew.wants_help() && {
            let other = visit.next_attempt(course.shared());
            other.map(|other| course.shared().hand_over(other)).is_some()
        };
        let needs_the_run = visit.needs_the_run();
        let others_first = handed_over || visit.after.has_resumed || needs_the_run;
        visit.nothing_new_but(needs_the_run);
        if (again || goes_on == GoesOn::Spared) && visit.state.engine.in_line() > 0 {
            visit.look_in();
        }
        Next { again, others_first }
    }
}

/// Whether a runner takes another attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoesOn {
    Yes,
    /// Others get along without it.
    Spared,
    /// Its run is over.
    Gone,
}

const IS_HERE: &str = "a body is handed in at the end";

fn poll_caught<F: Future + ?Sized>(
    run: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> std::thread::Result<Poll<F::Output>> {
    catch_unwind(AssertUnwindSafe(|| run.poll(cx)))
}

/// A body under way.
type Run<'a> = Pin<Box<dyn Future<Output = WorkOutcome> + Send + 'a>>;

/// What is left to do before an attempt is over.
enum Answer {
    Over(Next),
    /// A child came after all: somebody else has the context, too.
    ChildrenOpen,
    /// The hook has yet to hear of this end.
    Hook(Ending),
}

/// The course of an attempt, from its start to its end. Dropped before that, it reports that the
/// attempt is gone, and the body with it.
struct Course {
    ctx: WorkContext,
    /// The run that it belongs to.
    run: u64,
    /// Since when its runner has it.
    polled_at: Timestamp,
    /// Of its runner.
    last_end: LastEnd,
    /// The end for which the hook was called.
    told: Option<Discriminant<Ending>>,
    /// Whether its body has waited, so that its runner is its own.
    has_waited: bool,
    is_over: bool,
}

impl Course {
    fn shared(&self) -> &Arc<Shared> {
        self.ctx.shared()
    }

    /// Whether nobody has asked it to stop, and it has nobody to wait for.
    fn is_untroubled(&self) -> bool {
        let cell = &self.ctx.cell;
        // Acquire, with the release in `add_child`.
        !cell.has_children.load(Ordering::Acquire) && !cell.is_stopped()
    }

    fn goes_on(&self, crew: &Crew) -> GoesOn {
        match crew {
            _ if self.run != crew.run => GoesOn::Gone,
            _ if crew.can_spare(self.last_end, usize::from(!self.has_waited)) => GoesOn::Spared,
            _ => GoesOn::Yes,
        }
    }

    /// Another attempt begins in the place of one that is over.
    fn begin(&mut self, visit: &mut Visit<'_>, grant: Grant) -> Box<dyn Work> {
        if self.has_waited || !AttemptCell::is_as_new(&mut self.ctx.cell) {
            self.ctx.cell = Arc::new(AttemptCell::new(Arc::clone(self.shared())));
        }
        (self.ctx.id, self.ctx.attempt) = (grant.work, grant.attempt);
        self.polled_at = visit.now();
        (self.told, self.has_waited, self.is_over) = (None, false, false);
        visit.start(grant, Arc::clone(&self.ctx.cell))
    }

    /// Polls a body that has waited once, until it returns or has been asked to stop and does not.
    async fn go_on(&mut self, run: &mut Run<'_>) -> std::thread::Result<WorkOutcome> {
        self.wait();
        self.suspend_again();
        let ctx = self.ctx.clone();
        let paced = AssertUnwindSafe(self.paced(run)).catch_unwind();
        tokio::select! {
            biased;
            outcome = paced => outcome,
            () = overstayed(&ctx) => Ok(WorkOutcome::Cancelled),
        }
    }

    /// Polls the body only while its work may go on, from the next time on that it is woken.
    async fn paced(&self, run: &mut Run<'_>) -> WorkOutcome {
        let cell = &self.ctx.cell;
        let mut was_just_polled = true;
        poll_fn(|cx| {
            // It has polled the body itself, so the body has seen to it that it is woken.
            if std::mem::take(&mut was_just_polled) {
                return Poll::Pending;
            }
            // Registered before asking: whoever lets it go on in between wakes this task.
            cell.runner.register(cx.waker());
            let polled = if cell.may_go_on() { run.as_mut().poll(cx) } else { Poll::Pending };
            if polled.is_pending() {
                self.suspend_again();
            }
            polled
        })
        .await
    }

    /// An attempt ends after its children, which are asked to stop unless it went well.
    async fn wait_for_children(&mut self, outcome: &WorkOutcome) {
        let ctx = self.ctx.clone();
        // Acquire, with the release in `add_child`.
        if !ctx.cell.has_children.load(Ordering::Acquire) || ctx.children().open() == 0 {
            return;
        }
        ctx.shared().visit(|visit| {
            if *outcome != WorkOutcome::Success {
                visit.apply(Input::StopChildren(ctx.id)).expect("a work under way is known");
            }
            visit.apply(Input::Join(ctx.grant())).expect("the attempt is under way");
        });
        self.wait();
        ctx.children_ended().await;
    }

    /// The body waits: from the first time on, another runner takes what comes next.
    fn wait(&mut self) {
        if std::mem::replace(&mut self.has_waited, true) {
            return;
        }
        self.shared().visit(|visit| {
            visit.state.crew.polling -= 1;
            if self.run == visit.state.crew.run {
                // Handed over before the run can be dropped: whoever drops it looks for it.
                let next = visit.next_attempt(self.shared());
                next.into_iter().for_each(|next| self.shared().hand_over(next));
                visit.nothing_new();
            }
        });
    }

    /// One of its waits is over and has gone on as far as it could, and another one is not: that one
    /// may be for somebody who needs the slot.
    fn suspend_again(&self) {
        let cell = &self.ctx.cell;
        if cell.has_resumed() && cell.only_waits() {
            self.shared().visit(|visit| {
                if cell.only_waits() {
                    let suspend = Input::Suspend(self.ctx.grant());
                    visit.apply(suspend).expect("the attempt is under way");
                }
            });
        }
    }

    fn end(&mut self, visit: &mut Visit<'_>, finished: Input, error: Option<String>) {
        let work = self.ctx.id;
        if error.is_some() {
            visit.state.entry(work).rare_mut().last_error = error;
        }
        let family = if self.ctx.cell.has_children.load(Ordering::Acquire) {
            visit.state.engine.descendants(work)
        } else {
            Vec::new()
        };
        visit.apply(finished).expect("it was foreseen just now");
        visit.state.drop_forgotten(&family, &mut visit.after);
    }

    /// The attempt is over.
    fn close(&mut self, crew: &mut Crew, ended_at: Timestamp) {
        self.is_over = true;
        if !self.has_waited {
            crew.polling -= 1;
            crew.note_end(ended_at.since(self.polled_at));
        }
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
        let retries = entry.map_or(0, |entry| entry.retries);
        let timeout = entry.and_then(|entry| entry.rare()?.timeout);
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
            let why = child.last_error().map_or("for no known reason", String::as_str);
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

impl Drop for Course {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let grant = self.ctx.grant();
        let work = grant.work;
        self.shared().visit(|visit| {
            visit.state.crew.polling -= usize::from(!self.has_waited);
            // Without its body it cannot be tried again, whatever it was asked to stop for.
            if visit.apply(Input::Cancel(work)).is_err() {
                return;
            }
            if visit.state.engine.children(work).open() > 0 {
                // Refused only if the attempt is over.
                let _ = visit.apply(Input::Join(grant));
                visit.state.entry(work).rare_mut().abandoned = true;
            } else if visit.state.engine.ending(grant, Outcome::Cancelled).is_ok() {
                visit.stop(work, None, visit.now());
                visit.apply(State::gone(grant)).expect("it was foreseen just now");
            }
        });
    }
}

/// Ready when an attempt that was asked to stop has had its time to do so.
async fn overstayed(ctx: &WorkContext) {
    ctx.cell.token().cancelled().await;
    match ctx.shared().grace(ctx.id) {
        Some(grace) => tokio::time::sleep(grace).await,
        None => std::future::pending().await,
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the work panicked: {}", text.unwrap_or("no message"))
}
