//! Bodies that follow their scenario, each step when the director allows it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use windlass::{Cancelled, Work, WorkContext, WorkOutcome};
use windlass_sim::scenario::{End, WorkPlan};

/// A work that follows its scenario.
pub(super) struct Scripted {
    pub(super) plan: WorkPlan,
    pub(super) place: usize,
    pub(super) stage: Arc<Stage>,
}

#[windlass::async_trait]
impl Work for Scripted {
    fn name(&self) -> &str {
        &self.plan.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        self.stage.enter(self.place, &ctx);
        // After it was asked to stop, a body counts as stopped with any outcome.
        let _ = self.take_time(&ctx).await;
        match self.plan.body.end(ctx.attempt) {
            End::Ok => WorkOutcome::Success,
            End::Fail => WorkOutcome::Failed("as the scenario says".to_owned()),
            End::Retry(delay) => WorkOutcome::Retry { delay },
            End::Stopped => WorkOutcome::Cancelled,
            End::Lost => panic!("a body cannot be lost without its run"),
        }
    }
}

impl Scripted {
    async fn take_time(&self, ctx: &WorkContext) -> Result<(), Cancelled> {
        let (stage, start) = (&self.stage, Instant::now());
        let Some(wait) = self.plan.body.waits else {
            stage.turn(start + self.plan.body.takes).await;
            return Ok(());
        };
        stage.turn(start + wait.from).await;
        let over = async {
            tokio::select! {
                () = stage.turn(start + wait.to) => {}
                () = ctx.woken() => {}
            }
        };
        ctx.suspend(over).await?;
        stage.turn(Instant::now() + self.plan.body.takes.saturating_sub(wait.from)).await;
        Ok(())
    }
}

/// The tasks that wait for a turn, and what the director needs of the bodies.
#[derive(Default)]
pub(super) struct Stage {
    inner: Mutex<Inner>,
    /// Notified when a task wants a turn.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Inner {
    /// By time; within one instant, in the order of the requests.
    turns: BTreeMap<(Instant, usize), oneshot::Sender<()>>,
    asked: usize,
    /// The latest attempt of each work, by place.
    contexts: BTreeMap<usize, WorkContext>,
    gates: BTreeMap<usize, oneshot::Sender<Never>>,
}

/// A gate will never open.
#[derive(Debug)]
struct Never;

impl Stage {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, place: usize, ctx: &WorkContext) {
        self.inner().contexts.insert(place, ctx.clone());
    }

    /// The context of the latest attempt of a work.
    pub(super) fn context(&self, place: usize) -> WorkContext {
        self.inner().contexts.get(&place).expect("it has begun").clone()
    }

    /// Ready at this time, in turn with all other tasks.
    async fn turn(&self, at: Instant) {
        let (tell, told) = oneshot::channel();
        {
            let mut inner = self.inner();
            let place = (at, inner.asked);
            inner.asked += 1;
            inner.turns.insert(place, tell);
        }
        self.changed.notify_one();
        told.await.expect("every task has a turn");
    }

    pub(super) fn next_turn(&self) -> Option<Instant> {
        self.inner().turns.keys().next().map(|(at, _)| *at)
    }

    /// Lets the next task that is due continue. Returns whether there was one; dropped tasks do not
    pub(super) fn give_a_turn(&self) -> bool {
        loop {
            let mut inner = self.inner();
            let Some(first) = inner.turns.first_entry() else { return false };
            if first.key().0 > Instant::now() {
                return false;
            }
            if first.remove().send(()).is_ok() {
                return true;
            }
        }
    }

    /// A gate that opens only by hand, or is rejected.
    pub(super) fn gate(&self, place: usize) -> impl Future<Output = ()> + Send + use<> {
        let (tell, told) = oneshot::channel();
        self.inner().gates.insert(place, tell);
        async move { panic!("it is opened from outside or not at all: {:?}", told.await) }
    }

    pub(super) fn reject(&self, place: usize) -> bool {
        let gate = self.inner().gates.remove(&place);
        gate.is_some_and(|gate| gate.send(Never).is_ok())
    }
}
