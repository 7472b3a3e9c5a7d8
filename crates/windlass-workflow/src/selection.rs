//! Some steps of a plan, and what they need.

use std::collections::BTreeSet;

use thiserror::Error;
use windlass_core::{nearest, some_of};

use crate::plan::Plan;

/// How many steps are told to somebody who asked for one that there is not.
const MAX_LISTED: usize = 10;

/// A step was asked for that the plan does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the workflow has no step {name:?}{}", hint(.nearest, .known))]
pub struct NoSuchStep {
    /// What was asked for.
    pub name: String,
    /// The step that is called most like it.
    pub nearest: Option<String>,
    /// The steps that there are, as they are called in the file.
    pub known: Vec<String>,
}

fn hint(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name:?}?"),
        None => {
            format!("; its steps are {}", some_of(known.iter().map(String::as_str), MAX_LISTED))
        }
    }
}

impl Plan {
    /// The same plan with only the named steps and everything that they follow; all of it if none
    /// are named. A step is named as it is called in the file, which means all that it became, or as
    /// one of those.
    ///
    /// ```
    /// let text = "[step.a]\nrun = 'true'\n[step.b]\nrun = 'true'\n[step.c]\nafter = ['b']\nrun = 'true'";
    /// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?.only(&["c"])?;
    /// let names: Vec<_> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    /// assert_eq!(names, ["b", "c"]);
    /// assert_eq!(plan.steps[1].after[0].step, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self, NoSuchStep> {
        if names.is_empty() {
            return Ok(self);
        }
        let mut wanted = BTreeSet::new();
        for name in names {
            let found = self.steps_called(name.as_ref());
            if found.is_empty() {
                return Err(self.no_such_step(name.as_ref()));
            }
            wanted.extend(found);
        }
        let kept = self.with_all_before(wanted);
        let places = places_among(&kept, self.steps.len());
        let mut old = 0..;
        self.steps.retain_mut(|step| {
            step.after.iter_mut().for_each(|edge| edge.step = places[edge.step]);
            old.next().is_some_and(|place| kept.contains(&place))
        });
        Ok(self)
    }

    /// The places of the steps that a name stands for.
    fn steps_called(&self, name: &str) -> Vec<usize> {
        let called = |place: &usize| {
            let step = &self.steps[*place];
            step.name == name || step.declared == name
        };
        (0..self.steps.len()).filter(called).collect()
    }

    /// Says that there is no such step, and which one may be meant.
    #[must_use]
    pub fn no_such_step(&self, name: &str) -> NoSuchStep {
        let known = self.steps.iter().flat_map(|step| [step.declared.as_str(), step.name.as_str()]);
        // Where one step has to be named, the name for all of them is not it.
        let known = known.filter(|known| *known != name);
        // `build[linux]` of a `build[linux,debug]`: one of them shows how all are written.
        let declared = name.split('[').next();
        let one = || self.steps.iter().find(|step| Some(step.declared.as_str()) == declared);
        let nearest = nearest(name, known).or_else(|| one().map(|step| step.name.as_str()));
        let mut seen = BTreeSet::new();
        let known = self.steps.iter().map(|step| &step.declared).filter(|name| seen.insert(*name));
        let known = known.cloned().collect();
        NoSuchStep { name: name.to_owned(), nearest: nearest.map(str::to_owned), known }
    }

    fn with_all_before(&self, wanted: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut open: Vec<_> = wanted.iter().copied().collect();
        let mut kept = wanted;
        while let Some(place) = open.pop() {
            let before = self.steps[place].after.iter().map(|edge| edge.step);
            open.extend(before.filter(|&step| kept.insert(step)));
        }
        kept
    }
}

/// How many of those that are kept come before each place.
fn places_among(kept: &BTreeSet<usize>, all: usize) -> Vec<usize> {
    let mut before = 0;
    let count = |place| {
        let here = before;
        before += usize::from(kept.contains(&place));
        here
    };
    (0..all).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[step.build]\nrun = 'true'\neach = { os = ['a', 'b'] }\n\
        [step.test]\nafter = ['build']\nrun = 'true'\neach = { os = ['a', 'b'] }\n\
        [step.lint]\nrun = 'true'\n\
        [step.report]\nafter = { test = 'done', lint = 'failed' }\nrun = 'true'";

    fn only(names: &[&str]) -> Result<Vec<String>, NoSuchStep> {
        let workflow = crate::parse("flow.toml", TEXT).expect("nothing is wrong");
        let plan = workflow.bind([]).expect("it has no parameters").only(names)?;
        let after = |place: usize| {
            let edges = plan.steps[place].after.iter();
            edges.map(|edge| plan.steps[edge.step].name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let shown = plan.steps.iter().enumerate();
        Ok(shown.map(|(place, step)| format!("{}: {}", step.name, after(place))).collect())
    }

    #[test]
    fn chosen_steps_come_with_all_that_they_follow() {
        assert_eq!(only(&["lint"]), Ok(vec!["lint: ".to_owned()]));
        let both = ["build[a]: ", "build[b]: ", "test[b]: build[a] build[b]"];
        assert_eq!(only(&["test[b]"]).expect("it is there"), both);
        assert_eq!(only(&["build"]).expect("it is there").len(), 2);
        assert_eq!(only(&["report"]), only(&[]), "it needs everything");
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_nearest() {
        let error = only(&["lint", "tets"]).expect_err("there is none");
        assert_eq!(error.to_string(), "the workflow has no step \"tets\"; did you mean \"test\"?");
        assert_eq!(only(&["zzzzz"]).expect_err("there is none").nearest, None);
        let other = only(&["test[windows,release]"]).expect_err("there is none");
        assert_eq!(other.nearest.as_deref(), Some("test[a]"));
    }
}
