//! The course of one attempt: when it may go on, what becomes of it if its runner is gone, and what
//! to tell people who ask why it did not succeed.

use std::future::poll_fn;
use std::mem::Discriminant;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use windlass_core::{Ending, Grant, Input, Outcome, Phase, Timestamp, Why};

use super::poll;
use crate::context::{AttemptCell, WorkContext};
use crate::crew::{Crew, LastEnd};
use crate::shared::Shared;
use crate::state::State;
use crate::visit::Visit;
use crate::work::{Body, WorkOutcome};

/// Whether a runner takes another attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesOn {
    Yes,
    /// Others get along without it.
    Spared,
    /// Its run is over.
    Gone,
}

/// The course of an attempt, from its start to its end. Dropped before that, it reports that the
/// attempt is gone, and the body with it.
pub(super) struct Course {
    pub(super) ctx: WorkContext,
    /// The run that it belongs to.
    pub(super) run: u64,
    /// Since when its runner has it.
    pub(super) polled_at: Timestamp,
    /// How much of that was the visit in which it got it, if somebody wants to know.
    pub(super) visit: Option<Duration>,
    /// Of its runner.
    pub(super) last_end: LastEnd,
    /// The end for which the hook was called.
    pub(super) told: Option<Discriminant<Ending>>,
    /// Whether its body has waited, so that its runner is its own.
    pub(super) has_waited: bool,
    pub(super) is_over: bool,
}

impl Course {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        self.ctx.shared()
    }

    /// Whether nobody has asked it to stop, and it has nobody to wait for.
    pub(super) fn is_untroubled(&self) -> bool {
        let cell = &self.ctx.cell;
        // Acquire, with the release in `as_parent`.
        !cell.has_children.load(Ordering::Acquire) && !cell.is_stopped()
    }

    pub(super) fn goes_on(&self, crew: &Crew) -> GoesOn {
        match crew {
            _ if self.run != crew.run => GoesOn::Gone,
            _ if crew.can_spare(self.last_end, usize::from(!self.has_waited)) => GoesOn::Spared,
            _ => GoesOn::Yes,
        }
    }

    /// Another attempt begins in the place of one that is over, of which the state had `spare`.
    pub(super) fn begin(
        &mut self,
        visit: &mut Visit<'_>,
        grant: Grant,
        spare: Option<Arc<AttemptCell>>,
    ) -> Body {
        let spare = spare.filter(|cell| !self.has_waited && cell.is_quiet());
        let cell = spare.unwrap_or_else(|| {
            self.ctx.cell = Arc::new(AttemptCell::new(Arc::clone(self.shared())));
            Arc::clone(&self.ctx.cell)
        });
        (self.ctx.id, self.ctx.attempt) = (grant.work, grant.attempt);
        self.polled_at = visit.now();
        (self.told, self.visit, self.has_waited, self.is_over) = (None, None, false, false);
        visit.start(grant, cell)
    }

    /// The same in a stint: the state need not know yet.
    pub(super) fn go_on_to(&mut self, grant: Grant, now: Timestamp) {
        (self.ctx.id, self.ctx.attempt) = (grant.work, grant.attempt);
        self.polled_at = now;
        self.told = None;
    }

    /// Polls a body that has waited once, until it returns or has been asked to stop and does not.
    pub(super) async fn go_on(&mut self, body: &mut Body) -> std::thread::Result<WorkOutcome> {
        self.wait();
        self.suspend_again();
        let ctx = self.ctx.clone();
        let paced = AssertUnwindSafe(self.paced(body)).catch_unwind();
        // Not Tokio's `select!`: that polls nothing where the task has used up its turn, and then the
        // body, which may have been put off for the same reason, would not be polled the next time.
        match select(pin!(paced), pin!(overstayed(&ctx))).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => Ok(WorkOutcome::Cancelled),
        }
    }

    /// Polls the body only while its work may go on, from the next time on that it is woken.
    async fn paced(&self, body: &mut Body) -> WorkOutcome {
        let cell = &self.ctx.cell;
        let mut was_just_polled = true;
        poll_fn(|cx| {
            // It has polled the body itself, so the body has seen to it that it is woken.
            if std::mem::take(&mut was_just_polled) {
                return Poll::Pending;
            }
            // Registered before asking: whoever lets it go on in between wakes this task.
            cell.runner.register(cx.waker());
            let polled = if cell.may_go_on() { poll(body, &self.ctx, cx) } else { Poll::Pending };
            if polled.is_pending() {
                self.suspend_again();
            }
            polled
        })
        .await
    }

    /// An attempt ends after its children, which are asked to stop unless it went well.
    pub(super) async fn wait_for_children(&mut self, outcome: &WorkOutcome) {
        let ctx = self.ctx.clone();
        // Acquire, with the release in `as_parent`.
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

    /// Reports the end of the attempt, which was foreseen as `ending`.
    pub(super) fn end(
        &mut self,
        visit: &mut Visit<'_>,
        outcome: Outcome,
        ending: Ending,
        error: Option<String>,
    ) {
        let work = self.ctx.id;
        if error.is_some() {
            visit.state.entry(work).rare_mut().last_error = error;
        }
        // Only a work that is tried again loses its family.
        let family = match ending {
            Ending::Retry { .. } => visit.state.engine.descendants(work),
            _ => Vec::new(),
        };
        let finished = Input::Finished { grant: self.ctx.grant(), outcome };
        visit.apply(finished).expect("it was foreseen just now");
        visit.state.drop_forgotten(&family, &mut visit.after);
    }

    /// The attempt is over.
    pub(super) fn close(&mut self, crew: &mut Crew, ended_at: Timestamp) {
        self.is_over = true;
        if !self.has_waited {
            crew.polling -= 1;
            if let Some(visit) = self.visit {
                crew.note_visit(visit);
            }
            crew.note_end(ended_at.since(self.polled_at));
        }
    }

    /// What to tell people who ask why it did not succeed.
    pub(super) fn error(
        &self,
        state: &State,
        outcome: &WorkOutcome,
        kind: Ending,
    ) -> Option<String> {
        if !matches!(kind, Ending::Failed | Ending::Retry { .. }) {
            return None;
        }
        let why = match state.engine.phase(self.ctx.id) {
            Some(Phase::Cancelling { why, .. }) => Some(why),
            _ => None,
        };
        let entry = state.entries.get(self.ctx.id);
        let retries = state.engine.retries(self.ctx.id).unwrap_or(0);
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
            (None, _) => {
                let failed = entry.and_then(|entry| entry.rare()?.failed_child.clone());
                let failed = failed.unwrap_or_else(|| "a child of it did not succeed".to_owned());
                (failed, retries == 0)
            }
        };
        Some(match kind {
            Ending::Failed if !final_anyway => {
                format!("{text}; no retries left after attempt {}", self.ctx.attempt)
            }
            _ => text,
        })
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let grant = self.ctx.grant();
        self.shared().visit(|visit| {
            visit.state.crew.polling -= usize::from(!self.has_waited);
            // Without its body it cannot be tried again, whatever it was asked to stop for.
            if visit.apply(Input::Cancel(grant.work)).is_ok() && !self.ctx.cell.leave_to_pool() {
                give_up(visit, grant);
            }
        });
    }
}

/// Nothing is left of an attempt that was cancelled but perhaps children, and it ends after them.
pub(crate) fn give_up(visit: &mut Visit<'_>, grant: Grant) {
    let work = grant.work;
    if visit.state.engine.children(work).open() > 0 {
        // Refused only if the attempt is over.
        let _ = visit.apply(Input::Join(grant));
        visit.state.entry(work).rare_mut().abandoned = true;
    } else if visit.state.engine.ending(grant, Outcome::Cancelled).is_ok() {
        visit.stop(work, None, visit.now());
        visit.apply(State::gone(grant)).expect("it was foreseen just now");
    }
}

/// Ready when an attempt that was asked to stop has had its time to do so. One that computes takes as long as
/// it takes.
async fn overstayed(ctx: &WorkContext) {
    ctx.cell.token().cancelled().await;
    match ctx.shared().grace(ctx.id) {
        Some(grace) if !ctx.cell.is_on_pool() => tokio::time::sleep(grace).await,
        _ => std::future::pending().await,
    }
}
