//! The orders of a run's steps, with all variables that their processes are given.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use windlass_core::{Grant, Timestamp, WorkId};
use windlass_workflow::Step;

use super::super::attempts::{Limits, LogSpec, Order, OrderId};
use super::super::journal::{Start, terms};
use super::context::RunContext;
use super::items::Items;
use super::step_attempt::StepAttempt;
use crate::attempt::{FENCE_VARIABLE, OUTPUT_VARIABLE, RUN_VARIABLE, fence, finally_log, log_path};
use crate::command::{CommandSpec, ResolveError};
use crate::heartbeat::late_after;
use crate::outputs;

/// How long the processes of a step that does not say so may take to end once they were asked to.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long processes that outlive the one that started them may take to end by themselves.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// The variable with the time at which an attempt times out, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

/// Builds the orders of a run's steps.
#[derive(Clone, Copy)]
pub(super) struct OrderBuilder<'a> {
    pub(super) run: &'a RunContext,
    pub(super) items: &'a Items,
    pub(super) running: &'a BTreeMap<WorkId, StepAttempt>,
}

impl<'a> OrderBuilder<'a> {
    /// Builds the order for the command of an attempt.
    pub(super) fn command(self, grant: Grant) -> Order {
        let step = self.run.schedule.step(grant.work);
        let logs = self.run.identity.logs();
        let log = LogSpec::new(log_path(logs, grant, &step.name), step.execution.log_limit);
        let output = outputs::path(logs, grant, &step.name);
        let command = match self.start(grant).and_then(|start| start.broken.clone()) {
            Some(unresolved) => Err(unresolved),
            None => self.resolve(grant, &output),
        };
        let order = self.of_step(OrderId::Command(grant), grant, command, log);
        Order { output: Some(output), ..order }
    }

    /// Builds the order for the `finally` that follows an attempt.
    pub(super) fn finally(self, grant: Grant) -> Order {
        let RunContext { schedule, identity, .. } = self.run;
        let step = schedule.step(grant.work);
        let path = finally_log(&log_path(identity.logs(), grant, &step.name));
        let command = step.ending.finally.as_ref().expect("it has one");
        let command = identity.resolve(schedule, |all| all.finally(grant, command));
        let log = LogSpec::new(path, step.execution.log_limit);
        self.of_step(OrderId::Finally(grant), grant, command, log)
    }

    /// Builds an order for a process of a step, and adds the variables that say who it is.
    fn of_step(
        self,
        id: OrderId,
        grant: Grant,
        command: Result<CommandSpec, ResolveError>,
        log: LogSpec,
    ) -> Order {
        let RunContext { schedule, identity, .. } = self.run;
        let Step { name, ending, .. } = schedule.step(grant.work);
        let start = self.start(grant);
        let mut command = command.map_err(|unresolved| unresolved.to_string());
        if let Ok(command) = &mut command {
            let tokens = start.map(Start::tokens).unwrap_or_default();
            let about = [
                (RUN_VARIABLE, identity.id().to_owned()),
                ("WINDLASS_STEP", name.clone()),
                ("WINDLASS_ATTEMPT", grant.attempt.to_string()),
                (FENCE_VARIABLE, fence(&tokens)),
            ];
            command.env.extend(about.map(|(name, value)| (name.to_owned(), value)));
        }
        let (linger, grace) = (ending.linger.unwrap_or(LINGER), ending.grace.unwrap_or(GRACE));
        Order {
            id,
            command,
            tag: identity.attempt_tag(grant),
            log: Some(log),
            output: None,
            limits: Limits { time: None, linger, grace },
            start_by: start.filter(|start| !start.names.is_empty()).map(|_| self.start_by()),
        }
    }

    fn resolve(self, grant: Grant, output: &Path) -> Result<CommandSpec, ResolveError> {
        let RunContext { schedule, identity, .. } = self.run;
        let mut command = identity.resolve(schedule, |all| all.attempt(grant))?;
        command.env.extend(self.items.variables(grant.work, schedule.plan()));
        command.env.extend(self.start(grant).into_iter().flat_map(|start| start.items.clone()));
        command.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = schedule.until(grant.work) {
            command.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        Ok(command)
    }

    fn start(self, grant: Grant) -> Option<&'a Start> {
        self.running.get(&grant.work).map(|attempt| &attempt.start)
    }

    /// Returns until when the names of attempts that were decided on last are held for sure.
    fn start_by(self) -> Timestamp {
        let terms = terms(self.run.schedule.plan());
        self.run.decided.after(late_after(terms.heartbeat_timeout))
    }
}
