//! A run: starts tasks that fit, polls them, reports their ends.
//!
//! The run owns its tasks and polls them when it is polled. The source's engine decides everything; the run
//! passes messages between the engine and the tasks. User code runs only while no lock is held.
//!
//! A task is polled as soon as it has started. Only a task that is pending then is put among the running ones,
//! where it has a waker of its own; many tasks never need one.

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

use super::running::{RunningTask, TaskEvent, TaskRun, panicked};
use super::{Feed, OnError, TaskProgress, TaskProgressKind};
use crate::panic::into_message;
use crate::source::{Listener, Pulled, Queue, Started};
use crate::task::{ScheduledTask, TaskError, TaskResult};

type Polled<I, O, E> = (TaskRun<I, O, E>, TaskEvent<I, O, E>);

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
    running: FuturesUnordered<RunningTask<I, O, E>>,
    /// Tasks that have ended and were not reported yet.
    ended: Vec<EndedTask<I, O, E>>,
    /// Values and results that the stream has yet to yield.
    results: VecDeque<TaskProgress<I, O, E>>,
    /// Tasks that were read ahead and not added to the source.
    read: VecDeque<ScheduledTask<I, O, E>>,
    /// Tasks that have started and were not polled yet.
    started: VecDeque<Started<ScheduledTask<I, O, E>>>,
    /// How many have started since the running tasks were polled.
    launched: usize,
    random: Random,
    stage: RunStage,
    /// How many events there were since the source was polled.
    unpolled: u32,
}

/// How many ends are reported at once at most, as each report has the engine search; and how many tasks start
/// at most before the running ones are polled.
const BATCH: usize = 32;

/// A task that has ended.
struct EndedTask<I, O, E> {
    grant: Grant,
    task: ScheduledTask<I, O, E>,
    end: TaskEnd<O, E>,
}

/// How.
enum TaskEnd<O, E> {
    Well(O),
    Badly(TaskError<E>),
    Again(Duration),
}

/// Tasks that always have an event must not keep others from starting.
const MAX_UNPOLLED: u32 = 32;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunStage {
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
            results: VecDeque::new(),
            read: VecDeque::new(),
            started: VecDeque::new(),
            launched: 0,
            random: Random::new(0),
            stage: RunStage::Look,
            unpolled: 0,
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
            self.stage = RunStage::Look;
        }
        self.start_what_fits();
        if ended && self.stage != RunStage::Stopping {
            self.queue.close();
            self.feed = None;
        }
    }

    /// Starts everything that fits, also of what was just read; what can never fit has failed.
    fn start_what_fits(&mut self) {
        while self.stage == RunStage::Look {
            self.stage = RunStage::Wait;
            let (new, started) = (&mut self.read, &mut self.started);
            let impossible = self.queue.start_what_fits(new, |task| task.priority, started);
            for (work, task, error) in impossible {
                if self.stage != RunStage::Stopping {
                    self.stage = RunStage::Look;
                    self.give_up(work, &task, error);
                }
            }
        }
    }

    /// Polls tasks that have started, until there is something to yield or to report, or the running tasks
    /// are due.
    fn launch(&mut self, context: &mut Context<'_>) {
        while self.launched < BATCH || self.running.is_empty() {
            let Some(started) = self.started.pop_front() else { return };
            self.launched += 1;
            let mut inner = TaskRun::start(started);
            match inner.poll(context) {
                Poll::Ready(event) => self.handle_in_turn((inner, event), context),
                Poll::Pending => self.running.push(RunningTask::of(inner)),
            }
            if !self.results.is_empty() || self.ended.len() >= BATCH {
                return;
            }
        }
    }

    fn give_up(&mut self, work: WorkId, task: &ScheduledTask<I, O, E>, error: CostError) {
        let error = self.queue.impossible(error).into();
        self.fail(work, task, error);
    }

    fn handle(&mut self, inner: TaskRun<I, O, E>, event: TaskEvent<I, O, E>) {
        match event {
            TaskEvent::Value(value) => {
                let kind = TaskProgressKind::Intermediate(value);
                self.push_result(inner.grant.work, &inner.task.key, kind);
                self.running.push(RunningTask::of(inner));
            }
            TaskEvent::Ended(result) => {
                let TaskRun { grant, task, .. } = inner;
                let end = self.end(&task, grant, result);
                self.ended.push(EndedTask { grant, task, end });
            }
            TaskEvent::Stopped => self.queue.report_stopped(inner.grant),
        }
    }

    /// Returns whether the task ends or is retried. A panic is a bug of the task, so it is not retried.
    fn end(
        &mut self,
        task: &ScheduledTask<I, O, E>,
        grant: Grant,
        result: TaskResult<O, E>,
    ) -> TaskEnd<O, E> {
        let error = match result {
            Ok(value) => return TaskEnd::Well(value),
            Err(error) => error,
        };
        match task.policy().filter(|policy| grant.attempt <= policy.retries()) {
            Some(policy) if matches!(error, TaskError::Failed(_)) => {
                TaskEnd::Again(policy.delay(grant.attempt, &mut self.random))
            }
            _ => TaskEnd::Badly(error),
        }
    }

    /// Reports the tasks that have ended, starts what fits then, and yields their results.
    fn settle(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        let stops = self.on_error == OnError::Stop
            && ended.iter().any(|ended| matches!(ended.end, TaskEnd::Badly(_)));
        let wanted = !stops && self.stage != RunStage::Stopping;
        let reports = ended.iter().map(EndedTask::report);
        let started = wanted.then_some(&mut self.started);
        let aborted = self.queue.report_runs(reports, started);
        if !aborted.is_empty() {
            ended.retain(|ended| !aborted.contains(&ended.grant.work));
            self.look_again();
        }
        for EndedTask { grant, task, end } in ended.drain(..) {
            match end {
                TaskEnd::Well(value) => self.succeed(grant.work, task, value),
                TaskEnd::Badly(error) => self.fail(grant.work, &task, error),
                TaskEnd::Again(_) => {}
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
        self.results.push_back(TaskProgress { key: task.key, task_id, kind });
    }

    fn fail(&mut self, work: WorkId, task: &ScheduledTask<I, O, E>, error: TaskError<E>) {
        if let Some(hook) = task.error_hook() {
            // A panic of the hook does not replace the error.
            let called = catch_unwind(AssertUnwindSafe(|| hook(&task.key, &error)));
            _ = called.map_err(into_message);
        }
        self.push_result(work, &task.key, TaskProgressKind::Error(error));
        if self.on_error == OnError::Stop {
            self.stop();
        }
    }

    fn push_result(&mut self, work: WorkId, key: &Arc<str>, kind: TaskProgressKind<I, O, E>) {
        let task_id = self.queue.issuer().id(work);
        self.results.push_back(TaskProgress { key: Arc::clone(key), task_id, kind });
    }

    /// Cancels everything. A running task ends after the values that it had sent.
    fn stop(&mut self) {
        self.stage = RunStage::Stopping;
        self.feed = None;
        let unpolled = std::mem::take(&mut self.started);
        self.queue.cancel_everything(unpolled.iter().map(|started| started.grant));
        self.running.iter_mut().for_each(RunningTask::stop);
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
        let stopped = |running: &RunningTask<I, O, E>| {
            running.grant().is_some_and(|grant| aborted.contains(&grant.work))
        };
        running.iter_mut().filter(|running| stopped(running)).for_each(RunningTask::stop);
    }

    /// No task has an event now.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.running.is_empty();
        match self.queue.outlook() {
            Pulled::Ended if over => self.stage = RunStage::Over,
            _ if over && self.stage == RunStage::Stopping => self.stage = RunStage::Over,
            outlook => {
                let due = if let Pulled::Nothing { due } = outlook { due } else { None };
                futures::ready!(self.poll_source(context, due));
            }
        }
        Poll::Ready(())
    }

    fn poll_source(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        self.unpolled = 0;
        futures::ready!(self.listener.poll(context, due));
        self.stop_aborted();
        self.look_again();
        Poll::Ready(())
    }

    /// Something may have changed in the source, unless nothing starts any more.
    fn look_again(&mut self) {
        if self.stage == RunStage::Wait {
            self.stage = RunStage::Look;
        }
    }

    /// Handles an event of a running task. Now and then, the source is polled as well.
    fn handle_in_turn(&mut self, polled: Polled<I, O, E>, context: &mut Context<'_>) {
        let (inner, event) = polled;
        self.handle(inner, event);
        self.poll_source_in_turn(context);
    }

    fn poll_source_in_turn(&mut self, context: &mut Context<'_>) {
        self.unpolled += 1;
        if self.unpolled >= MAX_UNPOLLED {
            let _ = self.poll_source(context, None);
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
            if unreported >= BATCH || unreported > 0 && !run.results.is_empty() {
                run.settle();
            }
            if let Some(result) = run.results.pop_front() {
                return Poll::Ready(Some(result));
            }
            if run.stage == RunStage::Over {
                return Poll::Ready(None);
            }
            run.read_ahead(context);
            run.launch(context);
            if !run.results.is_empty() || run.ended.len() >= BATCH {
                continue;
            }
            match run.running.poll_next_unpin(context) {
                Poll::Ready(Some(polled)) => {
                    run.launched = run.launched.saturating_sub(1);
                    run.handle_in_turn(polled, context);
                }
                _ if !run.started.is_empty() => run.launched = 0,
                Poll::Ready(None) | Poll::Pending if !run.ended.is_empty() => run.settle(),
                Poll::Ready(None) | Poll::Pending => futures::ready!(run.poll_idle(context)),
            }
        }
    }
}

impl<I, O, E> EndedTask<I, O, E> {
    /// Returns the report for the source. A task that will be retried goes back to it.
    fn report(&self) -> (Grant, Option<ScheduledTask<I, O, E>>, Outcome) {
        match self.end {
            TaskEnd::Well(_) => (self.grant, None, Outcome::Success),
            TaskEnd::Badly(_) => (self.grant, None, Outcome::Failed),
            TaskEnd::Again(delay) => {
                (self.grant, Some(self.task.clone()), Outcome::Retry { delay })
            }
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
    /// Drops the bodies first, then releases what they held. A closure that still runs releases when it
    /// returns.
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
        if self.stage != RunStage::Over || !ended.is_empty() {
            self.queue.cancel_everything(ended);
        }
    }
}
