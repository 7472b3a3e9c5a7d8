//! A run: takes what fits, polls what is under way, reports what ended.
//!
//! The run owns its tasks and polls them when it is polled. The source's engine decides everything; the run
//! passes messages between the engine and the tasks. User code runs only while no lock is held.
//!
//! A task is polled as soon as it has started. Only one that is not over by then is put among those
//! under way, where it has a waker of its own; many tasks never need one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use tokio::time::Instant;
use windlass_core::{CostError, Grant, Outcome, Random, WorkId};

use super::running::{Event, Inner, Running, panicked};
use super::{Feed, OnError, TaskProgress, TaskProgressKind};
use crate::panic::into_message;
use crate::source::{Listener, Pulled, Queue, Started};
use crate::task::{ScheduledTask, TaskError, TaskResult};

type Told<I, O, E> = (Inner<I, O, E>, Event<I, O, E>);

pub(super) struct Run<I, O, E>
where
    I: Send + 'static,
    O: Send + 'static,
    E: Send + 'static,
{
    queue: Queue<ScheduledTask<I, O, E>>,
    feed: Option<Feed<I, O, E>>,
    listener: Listener<ScheduledTask<I, O, E>>,
    on_error: OnError,
    running: FuturesUnordered<Running<I, O, E>>,
    /// What has ended and was not reported yet.
    ended: Vec<Ended<I, O, E>>,
    /// What was told and not given out.
    told: VecDeque<TaskProgress<I, O, E>>,
    /// What was read ahead and not handed to the source.
    read: VecDeque<ScheduledTask<I, O, E>>,
    /// What has started and was not polled yet.
    started: VecDeque<Started<ScheduledTask<I, O, E>>>,
    /// How many have started since those under way were asked.
    launched: usize,
    random: Random,
    stage: Stage,
    /// How often something was told without listening to the source.
    unheard: u32,
}

/// So many ends are reported at once at most. Each report makes the engine look what fits. So many
/// start at most before those under way are asked.
const BATCH: usize = 32;

/// A task that has ended.
struct Ended<I, O, E> {
    grant: Grant,
    task: ScheduledTask<I, O, E>,
    end: End<O, E>,
}

/// How.
enum End<O, E> {
    Well(O),
    Badly(TaskError<E>),
    Again(Duration),
}

/// Tasks that always have something to tell must not keep others from starting.
const UNHEARD: u32 = 32;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Something may have changed in the source.
    Look,
    /// All that can start has.
    Wait,
    /// Something failed: nothing starts any more.
    Stopping,
    Over,
}

impl<I, O, E> Run<I, O, E>
where
    I: Send + 'static,
    O: Send + 'static,
    E: Send + 'static,
{
    pub(super) fn new(
        queue: Queue<ScheduledTask<I, O, E>>,
        feed: Option<Feed<I, O, E>>,
        on_error: OnError,
    ) -> Self {
        Self {
            listener: Listener::new(&queue),
            queue,
            feed,
            on_error,
            running: FuturesUnordered::new(),
            ended: Vec::new(),
            told: VecDeque::new(),
            read: VecDeque::new(),
            started: VecDeque::new(),
            launched: 0,
            random: Random::new(0),
            stage: Stage::Look,
            unheard: 0,
        }
    }

    /// Reads ahead as far as that goes, and starts everything that fits.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        let Some(feed) = &mut self.feed else { return self.start_what_fits() };
        let waiting = self.queue.len();
        // Where everything fits, what has started comes first: it may make room for the next.
        if waiting == 0 && !self.started.is_empty() {
            return;
        }
        let missing = feed.look_ahead.saturating_sub(waiting);
        let mut ended = false;
        while self.read.len() < missing
            && let Poll::Ready(next) = feed.tasks.poll_next_unpin(context)
        {
            let Some(task) = next else {
                ended = true;
                break;
            };
            self.read.push_back(task);
        }
        if !self.read.is_empty() {
            self.stage = Stage::Look;
        }
        self.start_what_fits();
        if ended && self.stage != Stage::Stopping {
            self.queue.close();
            self.feed = None;
        }
    }

    /// Starts everything that fits, also of what was just read; what can never fit has failed.
    fn start_what_fits(&mut self) {
        while self.stage == Stage::Look {
            self.stage = Stage::Wait;
            let (new, started) = (&mut self.read, &mut self.started);
            let impossible = self.queue.start_what_fits(new, |task| task.priority, started);
            for (work, task, error) in impossible {
                if self.stage != Stage::Stopping {
                    self.stage = Stage::Look;
                    self.give_up(work, &task, error);
                }
            }
        }
    }

    /// Polls those that have started, until there is something to tell or to report, or those under
    /// way are to be asked.
    fn launch(&mut self, context: &mut Context<'_>) {
        while self.launched < BATCH || self.running.is_empty() {
            let Some(started) = self.started.pop_front() else { return };
            self.launched += 1;
            let mut inner = Inner::start(started);
            match inner.poll(context) {
                Poll::Ready(event) => self.hear_in_turn((inner, event), context),
                Poll::Pending => self.running.push(Running::of(inner)),
            }
            if !self.told.is_empty() || self.ended.len() >= BATCH {
                return;
            }
        }
    }

    fn give_up(&mut self, work: WorkId, task: &ScheduledTask<I, O, E>, error: CostError) {
        let error = self.queue.impossible(error).into();
        self.fail(work, task, error);
    }

    fn hear(&mut self, inner: Inner<I, O, E>, event: Event<I, O, E>) {
        match event {
            Event::Value(value) => {
                let kind = TaskProgressKind::Intermediate(value);
                self.tell(inner.grant.work, &inner.task.key, kind);
                self.running.push(Running::of(inner));
            }
            Event::Ended(result) => {
                let Inner { grant, task, .. } = inner;
                let end = self.end(&task, grant, result);
                self.ended.push(Ended { grant, task, end });
            }
            Event::Stopped => self.queue.report_stopped(inner.grant),
        }
    }

    /// Whether that is the end, or it is to be tried again. A panic is a mistake in the task, and
    /// would only repeat itself.
    fn end(
        &mut self,
        task: &ScheduledTask<I, O, E>,
        grant: Grant,
        result: TaskResult<O, E>,
    ) -> End<O, E> {
        let error = match result {
            Ok(value) => return End::Well(value),
            Err(error) => error,
        };
        match task.policy().filter(|policy| grant.attempt <= policy.retries()) {
            Some(policy) if matches!(error, TaskError::Failed(_)) => {
                End::Again(policy.delay(grant.attempt, &mut self.random))
            }
            _ => End::Badly(error),
        }
    }

    /// Reports what has ended, starts what can start by that, and tells.
    fn settle(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        let stops = self.on_error == OnError::Stop
            && ended.iter().any(|ended| matches!(ended.end, End::Badly(_)));
        let wanted = !stops && self.stage != Stage::Stopping;
        let news = ended.iter().map(Ended::news);
        let started = wanted.then_some(&mut self.started);
        let aborted = self.queue.report_runs(news, started);
        if !aborted.is_empty() {
            ended.retain(|ended| !aborted.contains(&ended.grant.work));
            self.look_again();
        }
        for Ended { grant, task, end } in ended.drain(..) {
            match end {
                End::Well(value) => self.succeed(grant.work, task, value),
                End::Badly(error) => self.fail(grant.work, &task, error),
                End::Again(_) => {}
            }
        }
        self.ended = ended;
    }

    fn succeed(&mut self, work: WorkId, task: ScheduledTask<I, O, E>, value: O) {
        let hook = task.complete_hook();
        let hook = hook.map(|hook| catch_unwind(AssertUnwindSafe(|| hook(&task.key, &value))));
        if let Some(Err(panic)) = hook {
            return self.fail(work, &task, panicked(panic));
        }
        let kind = TaskProgressKind::Final(value);
        let task_id = self.queue.issuer().id(work);
        self.told.push_back(TaskProgress { key: task.key, task_id, kind });
    }

    fn fail(&mut self, work: WorkId, task: &ScheduledTask<I, O, E>, error: TaskError<E>) {
        if let Some(hook) = task.error_hook() {
            // The error is what matters; that its hook panics changes nothing about it.
            let told = catch_unwind(AssertUnwindSafe(|| hook(&task.key, &error)));
            _ = told.map_err(into_message);
        }
        self.tell(work, &task.key, TaskProgressKind::Error(error));
        if self.on_error == OnError::Stop {
            self.stop();
        }
    }

    fn tell(&mut self, work: WorkId, key: &Arc<str>, kind: TaskProgressKind<I, O, E>) {
        let task_id = self.queue.issuer().id(work);
        self.told.push_back(TaskProgress { key: Arc::clone(key), task_id, kind });
    }

    /// Cancels everything. What is under way ends when it has told what it had sent.
    fn stop(&mut self) {
        self.stage = Stage::Stopping;
        self.feed = None;
        let unpolled = std::mem::take(&mut self.started);
        self.queue.cancel_everything(unpolled.iter().map(|started| started.grant));
        self.running.iter_mut().for_each(Running::stop);
    }

    /// Stops the tasks that a caller has aborted.
    fn stop_aborted(&mut self) {
        let Self { queue, running, started, .. } = self;
        let polled = |work| running.iter().any(|r| r.grant().is_some_and(|g| g.work == work));
        let unpolled = |work| started.iter().any(|started| started.grant.work == work);
        let aborted = queue.take_stops(|work| polled(work) || unpolled(work));
        let (gone, kept) =
            started.drain(..).partition(|started| aborted.contains(&started.grant.work));
        *started = kept;
        let gone: VecDeque<Started<_>> = gone;
        let stopped: Vec<_> = gone.into_iter().map(|started| started.grant).collect();
        stopped.into_iter().for_each(|grant| queue.report_stopped(grant));
        let stopped = |running: &Running<I, O, E>| {
            running.grant().is_some_and(|grant| aborted.contains(&grant.work))
        };
        running.iter_mut().filter(|running| stopped(running)).for_each(Running::stop);
    }

    /// Nothing is under way that could tell anything now.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.running.is_empty();
        match self.queue.outlook() {
            Pulled::Ended if over => self.stage = Stage::Over,
            _ if over && self.stage == Stage::Stopping => self.stage = Stage::Over,
            outlook => {
                let due = if let Pulled::Nothing { due } = outlook { due } else { None };
                futures::ready!(self.poll_ear(context, due));
            }
        }
        Poll::Ready(())
    }

    fn poll_ear(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        self.unheard = 0;
        futures::ready!(self.listener.poll(context, due));
        self.stop_aborted();
        self.look_again();
        Poll::Ready(())
    }

    /// Something may have changed in the source, unless nothing starts any more.
    fn look_again(&mut self) {
        if self.stage == Stage::Wait {
            self.stage = Stage::Look;
        }
    }

    /// One of those under way has told something. Now and then the source is listened to as well.
    fn hear_in_turn(&mut self, told: Told<I, O, E>, context: &mut Context<'_>) {
        let (inner, event) = told;
        self.hear(inner, event);
        self.listen_in_turn(context);
    }

    fn listen_in_turn(&mut self, context: &mut Context<'_>) {
        self.unheard += 1;
        if self.unheard >= UNHEARD {
            let _ = self.poll_ear(context, None);
        }
    }
}

impl<I, O, E> Stream for Run<I, O, E>
where
    I: Send + 'static,
    O: Send + 'static,
    E: Send + 'static,
{
    type Item = TaskProgress<I, O, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let run = &mut *self;
        loop {
            let unreported = run.ended.len();
            if unreported >= BATCH || unreported > 0 && !run.told.is_empty() {
                run.settle();
            }
            if let Some(told) = run.told.pop_front() {
                return Poll::Ready(Some(told));
            }
            if run.stage == Stage::Over {
                return Poll::Ready(None);
            }
            run.read_ahead(context);
            run.launch(context);
            if !run.told.is_empty() || run.ended.len() >= BATCH {
                continue;
            }
            match run.running.poll_next_unpin(context) {
                Poll::Ready(Some(told)) => {
                    run.launched = run.launched.saturating_sub(1);
                    run.hear_in_turn(told, context);
                }
                _ if !run.started.is_empty() => run.launched = 0,
                Poll::Ready(None) | Poll::Pending if !run.ended.is_empty() => run.settle(),
                Poll::Ready(None) | Poll::Pending => futures::ready!(run.poll_idle(context)),
            }
        }
    }
}

impl<I, O, E> Ended<I, O, E> {
    /// What the source is told. One that is tried again comes back to it.
    fn news(&self) -> (Grant, Option<ScheduledTask<I, O, E>>, Outcome) {
        match self.end {
            End::Well(_) => (self.grant, None, Outcome::Success),
            End::Badly(_) => (self.grant, None, Outcome::Failed),
            End::Again(delay) => (self.grant, Some(self.task.clone()), Outcome::Retry { delay }),
        }
    }
}

impl<I, O, E> Unpin for Run<I, O, E>
where
    I: Send + 'static,
    O: Send + 'static,
    E: Send + 'static,
{
}

impl<I, O, E> Drop for Run<I, O, E>
where
    I: Send + 'static,
    O: Send + 'static,
    E: Send + 'static,
{
    /// Bodies go first, then what they had is given back. What still computes gives back when it has
    /// ended.
    fn drop(&mut self) {
        let running = std::mem::take(&mut self.running);
        let unstarted = std::mem::take(&mut self.started);
        let mut ended: Vec<_> = unstarted.iter().map(|started| started.grant).collect();
        drop(unstarted);
        ended.extend(self.ended.drain(..).map(|ended| ended.grant));
        for running in running {
            let queue = self.queue.clone();
            ended.extend(running.abandon(move |grant| queue.report_stopped(grant)));
        }
        if self.stage != Stage::Over || !ended.is_empty() {
            self.queue.cancel_everything(ended);
        }
    }
}
