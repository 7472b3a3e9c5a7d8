//! Selects some steps of a plan together with everything they depend on.

use std::collections::BTreeSet;

use thiserror::Error;
use windlass_core::{nearest, some_of};

use crate::plan::Plan;

/// How many steps an error lists.
const MAX_LISTED: usize = 10;

/// The plan has no step of this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the workflow has no step {name:?}{}", hint(.nearest, .known))]
pub struct NoSuchStep {
    /// The name that the caller gave.
    pub name: String,
    /// The step whose name is most similar.
    pub nearest: Option<String>,
    /// The names of all steps in the file.
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
    /// Returns the plan with only the named steps and their dependencies, direct and indirect; the
    /// whole plan if `names` is empty. `test` names every step of an `each`, `test[linux]` one of them.
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
            let found = self.indices_of(name.as_ref());
            if found.is_empty() {
                return Err(self.no_such_step(name.as_ref()));
            }
            wanted.extend(found);
        }
        let kept = self.with_dependencies(wanted);
        let new_index = indices_among(&kept, self.steps.len());
        let mut old_indices = 0..;
        self.steps.retain_mut(|step| {
            step.after.iter_mut().for_each(|edge| edge.step = new_index[edge.step]);
            old_indices.next().is_some_and(|index| kept.contains(&index))
        });
        Ok(self)
    }

    /// Returns the indices of the steps that a name refers to.
    fn indices_of(&self, name: &str) -> Vec<usize> {
        let matches = |index: &usize| {
            let step = &self.steps[*index];
            step.name == name || step.declared == name
        };
        (0..self.steps.len()).filter(matches).collect()
    }

    /// Returns the error for a name that is no step, with the most similar one.
    #[must_use]
    pub fn no_such_step(&self, name: &str) -> NoSuchStep {
        let known = self.steps.iter().flat_map(|step| [step.declared.as_str(), step.name.as_str()]);
        // A caller that needs one step of an `each` may have given the name for all of them.
        let known = known.filter(|known| *known != name);
        // For `build[linux]` where there is `build[linux,debug]`: one instance shows the form.
        let declared = name.split('[').next();
        let one = || self.steps.iter().find(|step| Some(step.declared.as_str()) == declared);
        let nearest = nearest(name, known).or_else(|| one().map(|step| step.name.as_str()));
        let mut seen = BTreeSet::new();
        let known = self.steps.iter().map(|step| &step.declared).filter(|name| seen.insert(*name));
        let known = known.cloned().collect();
        NoSuchStep { name: name.to_owned(), nearest: nearest.map(str::to_owned), known }
    }

    fn with_dependencies(&self, wanted: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut unvisited: Vec<_> = wanted.iter().copied().collect();
        let mut kept = wanted;
        while let Some(index) = unvisited.pop() {
            let sources = self.steps[index].after.iter().map(|edge| edge.step);
            unvisited.extend(sources.filter(|&source| kept.insert(source)));
        }
        kept
    }
}

/// Returns, for each of `all` indices, the number of kept indices before it.
fn indices_among(kept: &BTreeSet<usize>, all: usize) -> Vec<usize> {
    let mut before = 0;
    let count = |index| {
        let here = before;
        before += usize::from(kept.contains(&index));
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
        let after = |index: usize| {
            let edges = plan.steps[index].after.iter();
            edges.map(|edge| plan.steps[edge.step].name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let shown = plan.steps.iter().enumerate();
        Ok(shown.map(|(index, step)| format!("{}: {}", step.name, after(index))).collect())
    }

    #[test]
    fn selected_steps_come_with_all_their_dependencies() {
        assert_eq!(only(&["lint"]), Ok(vec!["lint: ".to_owned()]));
        let both = ["build[a]: ", "build[b]: ", "test[b]: build[a] build[b]"];
        assert_eq!(only(&["test[b]"]).expect("it is there"), both);
        assert_eq!(only(&["build"]).expect("it is there").len(), 2);
        assert_eq!(only(&["report"]), only(&[]), "it needs everything");
    }

    #[test]
    fn an_unknown_step_is_rejected_with_the_nearest() {
        let error = only(&["lint", "tets"]).expect_err("there is none");
        assert_eq!(error.to_string(), "the workflow has no step \"tets\"; did you mean \"test\"?");
        assert_eq!(only(&["zzzzz"]).expect_err("there is none").nearest, None);
        let other = only(&["test[windows,release]"]).expect_err("there is none");
        assert_eq!(other.nearest.as_deref(), Some("test[a]"));
    }
}
