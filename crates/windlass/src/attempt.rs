//! One attempt of one work, from the first poll of its body to the report of its end.

use std::any::Any;
use std::future::poll_fn;
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::Instrument;
use windlass_core::{Begun, Ending, Grant, Input, Outcome, Rejected, Timestamp};

use crate::context::{AttemptCell, WorkContext};
use crate::crew::LastEnd;
use crate::panic;
use crate::report::emit_success;
use crate::shared::{Shared, Succeeded};
use crate::state::Mode;
use crate::stint::{Ended, Stint};
use crate::visit::Visit;
use crate::work::{Body, WorkOutcome};

mod course;

pub(crate) use course::give_up;
use course::{Course, GoesOn};

/// An attempt that is to begin. Dropped before it is over, it reports that it is gone, once its body
/// is. Its runner goes on to the next one in its place.
pub(crate) struct Attempt {
    /// Until it is handed in.
    body: Option<Body>,
    course: Course,
    /// What its runner was given ahead, if it ever was.
    stint: Option<Arc<Stint>>,
    /// How many works of it are left, unless it was settled.
    left: usize,
    /// Whether it is on, unless it was settled.
    in_stint: bool,
    /// What the state had of the attempt before it; the next one may have the same.
    spare: Option<Arc<AttemptCell>>,
}

/// What a runner does after an attempt.
pub(crate) struct Next {
    /// Whether it has another one.
    pub(crate) again: bool,
    /// Whether others were woken who may stand behind it on the same thread.
    pub(crate) others_first: bool,
    /// Whether no other runner has a body that has not waited.
    pub(crate) is_alone: bool,
    /// Whether somebody wants to know how long the visit took.
    measures_visit: bool,
}

impl Next {
    /// Its run is over.
    const NONE: Self =
        Self { again: false, others_first: false, is_alone: false, measures_visit: false };
    /// The state need not know of it yet.
    const IN_STINT: Self =
        Self { again: true, others_first: false, is_alone: false, measures_visit: false };
}

impl Attempt {
    pub(crate) fn new(ctx: WorkContext, body: Body, polled_at: Timestamp, run: u64) -> Self {
        let course = Course {
            ctx,
            run,
            polled_at,
            visit: None,
            last_end: LastEnd::default(),
            told: None,
            has_waited: false,
            is_over: false,
        };
        Self { body: Some(body), course, stint: None, left: 0, in_stint: false, spare: None }
    }

    /// It has a runner from now on; until then it was on the shelf, and no body took that long.
    pub(crate) fn take_up(&mut self, now: Timestamp) {
        self.course.polled_at = now;
    }

    /// Since when its runner has it.
    pub(crate) fn polled_at(&self) -> Timestamp {
        self.course.polled_at
    }

    /// The visit in which its runner got it is over.
    fn leave_visit(&mut self, now: Timestamp) {
        self.course.visit = Some(now.since(self.course.polled_at));
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
        let grant = self.course.ctx.grant();
        let mut outcome = self.run_body().await;
        if outcome == WorkOutcome::Success && self.course.is_untroubled() {
            match self.call_hook(Ending::Success) {
                Ok(()) => {
                    if self.goes_on_in_stint(shared) {
                        emit_success(grant);
                        return (self, Next::IN_STINT);
                    }
                    let Succeeded { mut attempt, next } = shared.succeed(self);
                    if let Some(next) = next {
                        if next.measures_visit {
                            attempt.leave_visit(shared.now());
                        }
                        emit_success(grant);
                        return (attempt, next);
                    }
                    self = attempt;
                }
                Err(panic) => outcome = WorkOutcome::Failed(panic_text(panic)),
            }
        }
        let next = self.finish_otherwise(shared, outcome).await;
        (self, next)
    }

    /// Everything but an attempt that ends well and has nobody to wait for.
    async fn finish_otherwise(&mut self, shared: &Arc<Shared>, mut outcome: WorkOutcome) -> Next {
        let grant = self.course.ctx.grant();
        loop {
            self.course.wait_for_children(&outcome).await;
            match self.hand_in(shared, &outcome) {
                Answer::Over(next) => return next,
                Answer::Succeeded(next) => {
                    emit_success(grant);
                    return next;
                }
                Answer::ChildrenOpen => {}
                Answer::Hook(kind) => {
                    if let Err(panic) = self.call_hook(kind) {
                        outcome = WorkOutcome::Failed(panic_text(panic));
                    }
                }
            }
        }
    }

    /// Polls the body until it returns, or has been asked to stop and does not.
    async fn run_body(&mut self) -> WorkOutcome {
        let Self { body, course, .. } = self;
        let (body, ctx) = (body.as_mut().expect(IS_HERE), &course.ctx);
        let begun = catch_unwind(AssertUnwindSafe(|| {
            body.view_mut().on_reset();
            body.begin(ctx.clone());
        }));
        if let Err(panic) = begun {
            return WorkOutcome::Failed(panic_text(panic));
        }
        let polled = poll_fn(|cx| Poll::Ready(poll_caught(body, ctx, cx))).await;
        let ended = match polled {
            Ok(Poll::Ready(outcome)) => return outcome,
            Ok(Poll::Pending) => course.go_on(body).await,
            Err(panic) => Err(panic),
        };
        // Dropping what is left of the body may panic, too.
        let stopped = catch_unwind(AssertUnwindSafe(|| body.stop()));
        let outcome = ended.and_then(|outcome| stopped.map(|()| outcome));
        outcome.unwrap_or_else(|panic| WorkOutcome::Failed(panic_text(panic)))
    }

    fn call_hook(&mut self, kind: Ending) -> std::thread::Result<()> {
        self.course.told = Some(discriminant(&kind));
        let body = self.body.as_mut().expect(IS_HERE).view_mut();
        catch_unwind(AssertUnwindSafe(|| match kind {
            Ending::Success => body.on_success(),
            Ending::Failed => body.on_failure_raise(),
            Ending::Retry { .. } => body.on_failure_retry(),
            Ending::Cancelled => body.on_abort(),
            _ => {}
        }))
    }

    /// Whether the attempt, which went well, has another one after it that the state need not know of
    /// yet. Not if somebody else has something of it.
    fn goes_on_in_stint(&mut self, shared: &Shared) -> bool {
        let cell = &self.course.ctx.cell;
        let Some(stint) = self.stint.as_ref().filter(|_| self.left > 0 && cell.is_quiet()) else {
            return false;
        };
        let now = shared.now();
        let took = now.since(self.course.polled_at);
        let Some(next) = stint.go_on(&mut self.body, took, || cell.begin(now)) else {
            return false;
        };
        self.left -= 1;
        self.course.go_on_to(next, now);
        true
    }

    /// The attempt went well, as its body has been told. None if something came between the two, or
    /// there is more to it.
    pub(crate) fn succeed(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) -> Option<Next> {
        visit.settle_unless(self.stint.as_ref());
        let goes_on = self.course.goes_on(&visit.state.crew);
        if self.in_stint && self.reports_stint(visit, ended_at) {
            let next = if goes_on == GoesOn::Yes { visit.begin_next() } else { None };
            return Some(self.go_on(visit, goes_on, next));
        }
        let grant = self.course.ctx.grant();
        let begun = visit.engine_alone(|engine, world| match goes_on {
            GoesOn::Yes => engine.succeed_and_begin_next(world, grant),
            _ => engine.succeed(world, grant).then_some(None),
        });
        let begun = begun.inspect(|_| self.stop(visit, ended_at));
        visit.follow();
        let next = match begun? {
            Some(Begun::Started(grant)) => Some(grant),
            Some(Begun::Resumed(_)) => visit.begin_next(),
            None => None,
        };
        self.course.close(&mut visit.state.crew, ended_at);
        Some(self.go_on(visit, goes_on, next))
    }

    /// Reports everything that has ended in a stint, with this attempt. False if the state knows of it
    /// already.
    fn reports_stint(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) -> bool {
        let Some(stint) = &self.stint else { return false };
        visit.state.stints.end();
        let mut books = stint.books();
        let Some((grant, is_known)) = books.close() else { return false };
        visit.hand_back(&mut books);
        let body = if is_known { None } else { self.body.take() };
        let Some(body) = body else { return false };
        let took = ended_at.since(self.course.polled_at);
        books.ended.push(Ended { grant, body, took });
        self.spare = visit.put_down(&mut books.ended);
        // Those are ours and the one that was the entry's.
        if self.spare.as_ref().is_some_and(|cell| Arc::strong_count(cell) > 2) {
            visit.after.release(self.spare.take());
        }
        self.course.is_over = true;
        visit.state.crew.polling -= 1;
        true
    }

    /// Hands the body in.
    fn stop(&mut self, visit: &mut Visit<'_>, ended_at: Timestamp) {
        let work = self.course.ctx.id;
        // Those are the entry's and ours; under the lock nobody can be given another.
        if Arc::strong_count(&self.course.ctx.cell) == 2
            && visit.state.mode != Mode::Closed
            && let Some(body) = self.body.take()
        {
            self.spare = visit.stop_alone(work, body, ended_at);
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
            self.course.end(visit, reported, kind, error);
            let next = self.go_on_to_the_next(visit, ended_at);
            if kind == Ending::Success { Answer::Succeeded(next) } else { Answer::Over(next) }
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
            return Next::NONE;
        }
        let course = &mut self.course;
        let waited_long = course.has_waited && visit.now().since(course.polled_at) >= LONG;
        course.last_end = visit.state.crew.last_end();
        let again = next.is_some();
        self.left = 0;
        if let Some(grant) = next {
            self.body = Some(course.begin(visit, grant, self.spare.take()));
            let ahead = visit.state.crew.ahead();
            if ahead > 0 {
                let stint = self.stint.get_or_insert_default();
                self.left = visit.begin_stint(stint, grant, ahead);
            }
        }
        self.in_stint = self.left > 0;
        let handed_over = again && visit.state.crew.wants_help() && {
            let other = visit.next_attempt(course.shared());
            other.map(|other| course.shared().hand_over(other)).is_some()
        };
        let needs_the_run = visit.needs_the_run();
        visit.nothing_new_but(needs_the_run);
        let is_left = visit.state.engine.in_line() > 0 || self.in_stint;
        let is_busy = again || goes_on == GoesOn::Spared;
        let wakes_the_run = needs_the_run || is_busy && is_left && visit.look_in();
        let others_first = handed_over || visit.after.has_resumed || wakes_the_run || waited_long;
        let is_alone = visit.state.crew.polling <= 1;
        let measures_visit = again && visit.state.crew.measures_visit();
        Next { again, others_first, is_alone, measures_visit }
    }
}

/// A body that has waited for so long may have been woken by the thread that sees to timers and sockets, and
/// runs there: before one that may never yield, another thread has to take that over.
const LONG: Duration = Duration::from_micros(50);

const IS_HERE: &str = "a body is handed in at the end";

fn poll_caught(
    body: &mut Body,
    ctx: &WorkContext,
    cx: &mut Context<'_>,
) -> std::thread::Result<Poll<WorkOutcome>> {
    catch_unwind(AssertUnwindSafe(|| poll(body, ctx, cx)))
}

/// Polls the body; may panic also where an error is asked for its text.
fn poll(body: &mut Body, ctx: &WorkContext, cx: &mut Context<'_>) -> Poll<WorkOutcome> {
    let returned = body.poll(cx);
    returned.map(|returned| returned.unwrap_or_else(|error| error.into_outcome(ctx)))
}

/// What is left to do before an attempt is over.
enum Answer {
    Over(Next),
    Succeeded(Next),
    /// A child came after all: somebody else has the context, too.
    ChildrenOpen,
    /// The hook has yet to hear of this end.
    Hook(Ending),
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
