//! The hooks of a run: commands that tell users of its end, and of guards that need a decision.
//!
//! A hook changes nothing about the run. It starts after the commit that it reports, and has a time
//! limit, so that none can keep a run from ending.

use std::collections::BTreeMap;

use crate::command::CommandSpec;

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
    /// Has a hook start after the next commit.
    pub(super) fn queue(&mut self, name: &'static str, command: CommandSpec) {
        self.due.push((name, command));
    }

    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the hooks that are due; they run from now on.
    pub(super) fn take_due(&mut self) -> Vec<(u32, &'static str, CommandSpec)> {
        let mut started = Vec::new();
        for (name, command) in std::mem::take(&mut self.due) {
            self.last += 1;
            self.running.insert(self.last, name);
            started.push((self.last, name, command));
        }
        started
    }

    pub(super) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) fn running(&self) -> impl Iterator<Item = u32> {
        self.running.keys().copied()
    }

    /// Notes the end of a hook, and returns its name.
    pub(super) fn end(&mut self, hook: u32) -> Option<&'static str> {
        self.running.remove(&hook)
    }
}
