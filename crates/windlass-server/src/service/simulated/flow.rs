//! Random workflows, and what their steps do.

use std::fmt::Write;

use super::machine::Machine;

/// A workflow of the simulation. It knows by itself what must hold of its steps.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// How many of its steps run at a time at most.
    pub(super) concurrency: Option<usize>,
    /// How many of its steps use the resource at a time at most.
    pub(super) resource: usize,
    priority: i64,
    hook: bool,
    pub(super) steps: Vec<FlowStep>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FlowStep {
    /// The steps that have to succeed before it starts.
    pub(super) after: Vec<usize>,
    pub(super) lock: Option<u64>,
    /// It holds one of the slots of the semaphore.
    pub(super) semaphore: bool,
    pub(super) uses: bool,
    pub(super) retries: u32,
    pub(super) fails: bool,
    pub(super) finally: bool,
    pub(super) when: bool,
    /// For how many nanoseconds its command runs.
    pub(super) nanos: u64,
}

/// How many slots the semaphore has that all workflows share.
pub(super) const SLOTS: usize = 2;

impl Flow {
    pub(super) fn random(machine: &Machine) -> Self {
        let steps = machine.within(1..7) as usize;
        let names = machine.one_in(2);
        Self {
            concurrency: machine.one_in(3).then(|| machine.within(1..4) as usize),
            resource: machine.within(1..3) as usize,
            priority: machine.within(0..3) as i64,
            hook: machine.one_in(4),
            steps: (0..steps).map(|place| FlowStep::random(machine, place, names)).collect(),
        }
    }

    /// A workflow whose steps do not depend on each other.
    pub(super) fn of(steps: Vec<FlowStep>) -> Self {
        Self { concurrency: None, resource: 1, priority: 0, hook: false, steps }
    }

    /// Returns its text as a file, under a name.
    pub(super) fn text(&self, name: &str) -> String {
        let mut text = format!("name = '{name}'\npriority = {}\n", self.priority);
        if let Some(most) = self.concurrency {
            writeln!(text, "concurrency = {most}").expect("a text can be written");
        }
        write!(text, "[resource]\nr = {}\n[semaphore.s]\ncapacity = {SLOTS}\n", self.resource)
            .expect("a text can be written");
        if self.is_alone() {
            // Then it is known how its steps end.
            text += "[defaults]\ncrash_limit = 1000\n";
        }
        if self.hook {
            text += "[on]\nfailure = 'true'\nsuccess = 'true'\n";
        }
        for (place, step) in self.steps.iter().enumerate() {
            step.write(place, &mut text);
        }
        text
    }

    /// Returns whether nothing outside the workflow can make a step of it fail.
    pub(super) fn is_alone(&self) -> bool {
        self.steps.iter().all(|step| step.lock.is_none() && !step.semaphore)
    }

    /// Returns whether each step succeeds if the workflow is left alone; none if it never starts.
    pub(super) fn outcomes(&self) -> Vec<Option<bool>> {
        let mut outcomes: Vec<Option<bool>> = Vec::new();
        for step in &self.steps {
            let starts = step.after.iter().all(|on| outcomes[*on] == Some(true));
            outcomes.push(starts.then_some(!step.fails));
        }
        outcomes
    }
}

impl FlowStep {
    /// A step whose command runs for so many seconds.
    pub(super) fn of(seconds: u64) -> Self {
        Self { nanos: seconds * 1_000_000_000, ..Self::default() }
    }

    fn random(machine: &Machine, place: usize, names: bool) -> Self {
        let after = (0..place).filter(|_| machine.one_in(3)).collect();
        let long = machine.one_in(8);
        Self {
            after,
            lock: (names && machine.one_in(3)).then(|| machine.within(0..2)),
            semaphore: names && machine.one_in(4),
            uses: machine.one_in(3),
            retries: if machine.one_in(3) { machine.within(1..3) as u32 } else { 0 },
            fails: machine.one_in(6),
            finally: machine.one_in(4),
            when: machine.one_in(6),
            nanos: machine.within(1..if long { 100_000 } else { 5_000 }) * 1_000_000,
        }
    }

    fn write(&self, place: usize, text: &mut String) {
        let after: Vec<_> = self.after.iter().map(|on| format!("'s{on}'")).collect();
        *text += &format!("[step.s{place}]\nrun = 'true'\nafter = [{}]\n", after.join(", "));
        if let Some(lock) = self.lock {
            *text += &format!("lock = 'l{lock}'\n");
        }
        if self.semaphore {
            *text += "semaphore = { s = 1 }\n";
        }
        if self.uses {
            *text += "use = { r = 1 }\n";
        }
        if self.retries > 0 {
            *text += &format!("retry = {{ count = {}, delay = '1s' }}\n", self.retries);
        }
        if self.finally {
            *text += "finally = 'true'\n";
        }
        if self.when {
            *text += "when = 'true'\n";
        }
    }
}
