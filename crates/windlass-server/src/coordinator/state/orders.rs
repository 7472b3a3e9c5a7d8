//! The orders of a run, with everything that their processes are told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::{Grant, Name, Phase, Timestamp, WorkId};
use windlass_workflow::Step;

use super::super::attempts::{Limits, LogSpec, Order, OrderId};
use super::super::identity::RunIdentity;
use super::super::journal::{Start, terms};
use super::condition::CheckStart;
use super::items::Items;
use super::step_attempt::{Stage, StepAttempt, StepAttempts};
use super::{PAUSED, RunState, Stop};
use crate::attempt::{FENCE_VARIABLE, RUN_VARIABLE, fence, log_path};
use crate::command::{CommandSpec, ResolveError};
use crate::heartbeat::late_after;
use crate::outputs;
use crate::schedule::Schedule;

/// How long the processes of a step that does not say so may take to end once they were asked to.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long processes that outlive the one that started them may take to end by themselves.
const LINGER: Duration = Duration::from_secs(2);
/// The variable that tells an attempt where to write its outputs.
const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable that tells an attempt until when it has time, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

impl RunState {
    /// Returns whether an attempt follows one of the works in `ended`, whose ends may be lost with the
    /// power. One that does not need not wait for the disk: no process survives a loss of power.
    pub(in super::super) fn follows(&self, start: &Start, ended: &BTreeSet<WorkId>) -> bool {
        let mut before = self.schedule.engine().dependencies(start.grant.work);
        before.any(|on| ended.contains(&on.work))
    }

    /// Begins an attempt that the journal knows, and returns the order for its command.
    pub(in super::super) fn begin_attempt(&mut self, start: Start) -> Order {
        let grant = start.grant;
        let step = self.schedule.step(grant.work);
        if step.finally.is_some() {
            self.steps.owe_finally(grant.work);
        }
        self.items.take(grant.work, self.schedule.plan(), step);
        self.steps.insert(StepAttempt::new(start, self.schedule.now()));
        self.orders().command(grant)
    }

    /// Returns the orders that are due after a commit: what follows the end of steps, and hooks.
    pub(in super::super) fn take_due_orders(&mut self) -> Vec<Order> {
        let mut works = self.steps.take_due_finally();
        let interrupted = matches!(self.end.stop, Some(Stop::Signal(_)));
        for work in self.steps.uncleaned() {
            let over = self.schedule.engine().phase(work).is_some_and(is_over);
            if over || interrupted {
                let start = Start::plain(self.latest(work));
                let mut attempt = StepAttempt::new(start, self.schedule.now());
                attempt.stage = Stage::CleanUp;
                self.steps.insert(attempt);
                works.push(work);
            }
        }
        let finally = |work| self.orders().finally(self.latest(work));
        let mut orders: Vec<_> = works.into_iter().map(finally).collect();
        for (number, name, command) in self.hooks.take_due() {
            orders.push(self.orders().hook(number, name, command));
        }
        orders
    }

    /// Orders again what was not started in time, or has it end, if it has lost a name.
    pub(super) fn on_late(&mut self, id: OrderId, lost: Option<Name>) {
        let mut order = match id {
            OrderId::Command(grant) => self.orders().command(grant),
            OrderId::Finally(grant) => self.orders().finally(grant),
            OrderId::Check { .. } | OrderId::Hook(_) => unreachable!("they hold no names"),
        };
        if let Some(name) = lost {
            order.command = Err(ResolveError::Lost { name, how: PAUSED });
        }
        self.effects.orders.push(order);
    }

    pub(super) fn orders(&self) -> OrderBuilder<'_> {
        let Self { schedule, identity, steps, items, decided, .. } = self;
        OrderBuilder { schedule, identity, steps, items, decided: *decided }
    }
}

/// Builds the orders of a run.
#[derive(Clone, Copy)]
pub(super) struct OrderBuilder<'a> {
    schedule: &'a Schedule,
    identity: &'a RunIdentity,
    steps: &'a StepAttempts,
    items: &'a Items,
    /// When it was decided what starts.
    decided: Timestamp,
}

impl OrderBuilder<'_> {
    /// Builds the order for the command of an attempt.
    pub(super) fn command(self, grant: Grant) -> Order {
        let step = self.schedule.step(grant.work);
        let logs = self.identity.logs();
        let log = LogSpec { path: log_path(logs, grant, &step.name), limit: step.log_limit };
        let output = outputs::path(logs, grant, &step.name);
        let broken = self.steps.get(grant.work).and_then(|attempt| attempt.start.broken.clone());
        let command = match broken {
            Some(unresolved) => Err(unresolved),
            None => self.resolve(grant, &output),
        };
        let order = self.of_step(OrderId::Command(grant), grant, command, log);
        Order { output: Some(output), ..order }
    }

    /// Builds the order for the `finally` of a step.
    pub(super) fn finally(self, grant: Grant) -> Order {
        let step = self.schedule.step(grant.work);
        let path = log_path(self.identity.logs(), grant, &step.name).with_extension("finally.log");
        let command = step.finally.as_ref().expect("it has one");
        let command = self.identity.resolve(self.schedule, |all| all.finally(grant, command));
        let log = LogSpec { path, limit: step.log_limit };
        self.of_step(OrderId::Finally(grant), grant, command, log)
    }

    /// Builds the order for a check of a condition.
    pub(super) fn check(self, check: CheckStart) -> Order {
        let CheckStart { work, round, command, limit } = check;
        Order {
            id: OrderId::Check { work, round },
            command: Ok(command),
            tag: format!("{}-check-{round}", self.identity.tag()),
            log: None,
            output: None,
            limits: Limits { time: Some(limit), linger: LINGER, grace: GRACE },
            start_by: None,
        }
    }

    /// Builds the order for a hook.
    fn hook(self, number: u32, name: &str, command: CommandSpec) -> Order {
        let plan = self.schedule.plan();
        let path = hook_log(self.identity, name);
        Order {
            id: OrderId::Hook(number),
            command: Ok(command),
            tag: format!("{}-hook-{number}", self.identity.tag()),
            log: Some(LogSpec { path, limit: plan.log_limit }),
            output: None,
            limits: Limits { time: Some(plan.hooks.limit()), linger: LINGER, grace: GRACE },
            start_by: None,
        }
    }

    /// Builds an order for a process of a step, and adds the variables that say who it is.
    fn of_step(
        self,
        id: OrderId,
        grant: Grant,
        mut command: Result<CommandSpec, ResolveError>,
        log: LogSpec,
    ) -> Order {
        let Step { name, linger, grace, .. } = self.schedule.step(grant.work);
        let start = self.steps.get(grant.work).map(|attempt| &attempt.start);
        if let Ok(command) = &mut command {
            let tokens = start.map(Start::tokens).unwrap_or_default();
            let about = [
                (RUN_VARIABLE, self.identity.id().to_owned()),
                ("WINDLASS_STEP", name.clone()),
                ("WINDLASS_ATTEMPT", grant.attempt.to_string()),
                (FENCE_VARIABLE, fence(&tokens)),
            ];
            command.env.extend(about.map(|(name, value)| (name.to_owned(), value)));
        }
        let (linger, grace) = (linger.unwrap_or(LINGER), grace.unwrap_or(GRACE));
        Order {
            id,
            command,
            tag: self.identity.attempt_tag(grant),
            log: Some(log),
            output: None,
            limits: Limits { time: None, linger, grace },
            start_by: start.filter(|start| !start.names.is_empty()).map(|_| self.start_by()),
        }
    }

    fn resolve(self, grant: Grant, output: &Path) -> Result<CommandSpec, ResolveError> {
        let mut command = self.identity.resolve(self.schedule, |all| all.attempt(grant))?;
        command.env.extend(self.items.variables(grant.work, self.schedule.plan()));
        command.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = self.schedule.until(grant.work) {
            command.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        Ok(command)
    }

    /// Returns until when the names of attempts that were decided on last are held for sure.
    fn start_by(self) -> Timestamp {
        let terms = terms(self.schedule.plan());
        self.decided.after(late_after(terms.heartbeat_timeout))
    }
}

/// Returns the log to which all calls of a hook add.
pub(super) fn hook_log(identity: &RunIdentity, name: &str) -> PathBuf {
    identity.logs().join(format!("{name}.log"))
}

fn is_over(phase: Phase) -> bool {
    phase.state().is_terminal()
}
