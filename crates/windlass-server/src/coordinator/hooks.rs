//! The hooks of a run: commands that tell others of its end, and of guards that need a person.
//!
//! A hook changes nothing about the run. It starts after the commit that it reports, and has a time
//! limit, so that none can keep a run from ending.

use std::collections::BTreeMap;
use std::time::Instant;

use windlass_workflow::Command;

use super::ending::{GRACE, LINGER, cannot_end, joined};
use super::starting::no_log;
use super::telling::Notice;
use super::{Coordinator, RunError};
use crate::command::CommandSpec;
use crate::ended::Ended;
use crate::log_file::LogFile;
use crate::own_logs;
use crate::processes::{Job, Leave, Prepared, Traces};
use crate::tree;

/// The hooks of a run that are due or under way.
#[derive(Default)]
pub(super) struct Hooks {
    /// Those that start after the next commit.
    due: Vec<(&'static str, CommandSpec)>,
    /// Those that run, by their numbers.
    running: BTreeMap<u32, RunningHook>,
    /// How many there were.
    called: u32,
}

struct RunningHook {
    name: &'static str,
    /// When it is asked to end; none once it was.
    end_at: Option<Instant>,
    /// It had no time left.
    late: bool,
}

impl Hooks {
    /// Whether a hook starts after the next commit.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether a hook runs.
    pub(super) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// When the time of the first hook is over.
    pub(super) fn end_at(&self) -> Option<Instant> {
        self.running.values().filter_map(|hook| hook.end_at).min()
    }
}

impl Coordinator {
    /// Has a hook run after the next commit.
    pub(super) fn call_hook(
        &mut self,
        name: &'static str,
        command: &Command,
        about: &[(&str, &str)],
    ) {
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        match self.leader.orders(&self.schedule, &written).hook(command, about) {
            Ok(order) => self.hooks.due.push((name, order)),
            Err(unready) => self.notices.push(Notice::Said(format!("{name}: {unready}"))),
        }
    }

    /// Starts the hooks that are due.
    pub(super) fn start_hooks(&mut self) -> Result<(), RunError> {
        let mut due = std::mem::take(&mut self.hooks.due).into_iter();
        due.try_for_each(|(name, order)| self.start_hook(name, order))
    }

    fn start_hook(&mut self, name: &'static str, mut order: CommandSpec) -> Result<(), RunError> {
        self.hooks.called += 1;
        let number = self.hooks.called;
        let (path, limit) = (self.logs.join(format!("{name}.log")), self.schedule.plan().log_limit);
        let log = LogFile::of_call(path, limit, number);
        // That there is one tells that there was a process.
        log.create().map_err(no_log)?;
        let mark = format!("{}-hook-{number}", self.leader.mark());
        let marks = tree::marks_with(&format!("{} {mark}", self.leader.mark()));
        order.env.push((tree::MARKS.to_owned(), marks));
        order.env.push((own_logs::LOG_VARIABLE.to_owned(), own_logs::with(log.path())));
        let leave = Leave { linger: LINGER, grace: GRACE };
        let traces = Traces { mark, output: None, leave };
        let prepared = Prepared::new(Job::Hook(number), order, traces, log);
        match self.start_with_room(prepared) {
            Ok(()) => {
                let end_at = Instant::now().checked_add(self.schedule.plan().hooks.limit());
                self.hooks.running.insert(number, RunningHook { name, end_at, late: false });
            }
            Err(not) => {
                let error = not.error;
                self.notices.push(Notice::Said(format!("{name} cannot be started: {error}")));
            }
        }
        Ok(())
    }

    /// Asks the hooks that run to end.
    pub(super) fn end_hooks(&mut self) -> Result<(), RunError> {
        for number in self.hooks.running.keys().copied().collect::<Vec<_>>() {
            self.ask_hook_to_end(number)?;
        }
        Ok(())
    }

    /// Asks the hooks to end whose time is over.
    pub(super) fn end_late_hooks(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        let late = self.hooks.running.iter_mut();
        let late = late.filter(|(_, hook)| hook.end_at.is_some_and(|at| at <= now));
        let late = late.map(|(number, hook)| {
            hook.late = true;
            *number
        });
        late.collect::<Vec<_>>().into_iter().try_for_each(|number| self.ask_hook_to_end(number))
    }

    /// Asks a hook to end, or has it end before it has begun.
    fn ask_hook_to_end(&mut self, number: u32) -> Result<(), RunError> {
        if let Some(hook) = self.hooks.running.get_mut(&number) {
            hook.end_at = None;
        }
        self.end_waiting(Job::Hook(number));
        self.processes.ask_to_end(Job::Hook(number), GRACE).map_err(cannot_end)
    }

    pub(super) fn hook_ended(&mut self, hook: u32, ended: &Ended) {
        let Some(RunningHook { name, late, .. }) = self.hooks.running.remove(&hook) else { return };
        let late =
            late.then(|| format!("timed out after {:?}", self.schedule.plan().hooks.limit()));
        if let Some(why) = joined([late.or(ended.why()), ended.note()]) {
            let log = self.logs.join(format!("{name}.log"));
            let what = format!("{name}: {why}; its output: {}", log.display());
            self.notices.push(Notice::Said(what));
        }
    }
}
