//! The hooks of a run: commands for its end, and for guards that need a decision.
//!
//! A hook changes nothing about the run. It starts after the commit that it reports, and has a time
//! limit, so that none can keep a run from ending.

use std::collections::BTreeMap;
use std::path::PathBuf;

use windlass_workflow::Command;

use super::super::attempts::{Limits, LogSpec, Order, OrderId, StopMode};
use super::super::observer::Notice;
use super::context::RunContext;
use super::orders::{GRACE, LINGER};
use super::steps::joined;
use crate::command::CommandSpec;
use crate::ended::Ended;

/// The hooks of a run that are due or under way.
#[derive(Default)]
pub(super) struct Hooks {
    /// The hooks that start after the next commit.
    due: Vec<(&'static str, CommandSpec)>,
    /// The names of the hooks that run, by their numbers.
    running: BTreeMap<u32, &'static str>,
    /// The number of the last hook.
    last: u32,
}

impl Hooks {
    /// Has a hook start after the next commit; `about` are the variables that say why.
    pub(super) fn call(
        &mut self,
        run: &mut RunContext,
        name: &'static str,
        command: &Command,
        about: &[(&str, &str)],
    ) {
        match run.identity.resolve(&run.schedule, |all| all.hook(command, about)) {
            Ok(command) => self.due.push((name, command)),
            Err(unresolved) => run.observer.notice(Notice::Run(format!("{name}: {unresolved}"))),
        }
    }

    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the orders for the hooks that are due; they run from now on.
    pub(super) fn take_due_orders(&mut self, run: &RunContext) -> Vec<Order> {
        let due = std::mem::take(&mut self.due).into_iter();
        due.map(|(name, command)| self.order(run, name, command)).collect()
    }

    fn order(&mut self, run: &RunContext, name: &'static str, command: CommandSpec) -> Order {
        self.last += 1;
        self.running.insert(self.last, name);
        let plan = run.schedule.plan();
        Order {
            id: OrderId::Hook(self.last),
            command: Ok(command),
            tag: format!("{}-hook-{}", run.identity.tag(), self.last),
            log: Some(LogSpec::new(log(run, name), plan.log_limit)),
            output: None,
            limits: Limits { time: Some(plan.hooks.limit()), linger: LINGER, grace: GRACE },
            start_by: None,
        }
    }

    /// Goes on with a hook that an earlier scheduler has called. Only its number is known.
    pub(super) fn pick_up(&mut self, call: u32) {
        self.last = self.last.max(call);
        self.running.insert(call, "hook");
    }

    pub(super) fn stop(&self, run: &mut RunContext, mode: StopMode) {
        let stops = self.running.keys().map(|hook| (OrderId::Hook(*hook), mode));
        run.effects.stops.extend(stops);
    }

    /// Tells the user of a hook that has not succeeded.
    pub(super) fn on_ended(&mut self, run: &mut RunContext, hook: u32, ended: &Ended) {
        let Some(name) = self.running.remove(&hook) else { return };
        if let Some(why) = joined([ended.why(), ended.note()]) {
            let what = format!("{name}: {why}; its output: {}", log(run, name).display());
            run.observer.notice(Notice::Run(what));
        }
    }

    pub(super) fn on_lost(&mut self, run: &mut RunContext, hook: u32, why: &str) {
        if let Some(name) = self.running.remove(&hook) {
            run.observer.notice(Notice::Run(format!("{name}: {why}")));
        }
    }
}

/// Returns the log to which all calls of a hook add.
fn log(run: &RunContext, name: &str) -> PathBuf {
    run.identity.logs().join(format!("{name}.log"))
}
