//! The works to run, and their files for each contender.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The dependencies between the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Independent,
    /// Each step after the one before.
    Chain,
}

/// A number of steps that run `true`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) shape: Shape,
    pub(crate) steps: usize,
    /// How many steps may run at a time.
    pub(crate) jobs: usize,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { shape, steps, jobs } = self;
        match shape {
            Shape::Independent if *steps == 1 => write!(f, "one step"),
            Shape::Independent => write!(f, "{steps} independent, {jobs} at a time"),
            Shape::Chain => write!(f, "chain of {steps}"),
        }
    }
}

impl Work {
    /// Returns the dependency of a step, if it has one.
    fn before(self, step: usize) -> Option<usize> {
        if self.shape == Shape::Chain { step.checked_sub(1) } else { None }
    }

    /// Writes `flow.toml`, `Makefile` and `build.ninja`.
    pub(crate) fn write(self, dir: &Path) {
        let (mut flow, mut make) = (format!("concurrency = {}\n", self.jobs), String::new());
        let mut ninja = "rule true\n command = true\n".to_owned();
        let names: Vec<_> = (0..self.steps).map(|step| format!("s{step}")).collect();
        let names = names.join(" ");
        let _ = writeln!(make, ".PHONY: all {names}\nall: {names}");
        for step in 0..self.steps {
            let before = self.before(step).map(|before| format!("s{before}"));
            let _ = writeln!(flow, "[step.s{step}]\nrun = 'true'");
            if let Some(before) = &before {
                let _ = writeln!(flow, "after = '{before}'");
            }
            let before = before.unwrap_or_default();
            let _ = writeln!(make, "s{step}: {before}\n\t@true");
            let _ = writeln!(ninja, "build s{step}: true {before}");
        }
        let _ = writeln!(ninja, "build all: phony {names}\ndefault all");
        for (name, text) in [("flow.toml", flow), ("Makefile", make), ("build.ninja", ninja)] {
            fs::write(dir.join(name), text).expect("it can be written");
        }
        let lines: String = (0..self.steps).map(|step| format!("{step}\n")).collect();
        fs::write(dir.join("lines"), lines).expect("it can be written");
    }
}
