//! What a plan may ask for and the runner cannot do yet.
//!
//! Such a plan is refused before anything runs: a key that has no effect would be worse than none.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use windlass_workflow::{Plan, ResourceKind, Step};

/// The keys of a workflow that cannot be run yet, each with the steps that use it; the list of
/// steps is empty for a key of the whole workflow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Unsupported {
    /// The keys, by name in order; never empty.
    pub keys: BTreeMap<&'static str, Vec<String>>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this workflow uses what cannot be run yet; nothing was started")?;
        for (key, steps) in &self.keys {
            match steps.as_slice() {
                [] => write!(f, "\n  {key}")?,
                steps => write!(f, "\n  {key}: {}", first_few(steps))?,
            }
        }
        Ok(())
    }
}

fn first_few(steps: &[String]) -> String {
    let shown: Vec<_> = steps.iter().take(5).map(String::as_str).collect();
    let more = steps.len().saturating_sub(5);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// Refuses a plan that uses keys which the runner cannot carry out yet.
///
/// ```
/// let text = "[on]\nsuccess = 'true'\n[step.a]\nrun = 'true'\nfinally = 'true'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let refused = windlass_server::unsupported(&plan).unwrap_err();
/// assert_eq!(refused.keys["finally"], ["a"]);
/// assert!(refused.keys["on.success"].is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn unsupported(plan: &Plan) -> Result<(), Unsupported> {
    let mut keys: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for key in of_workflow(plan) {
        keys.entry(key).or_default();
    }
    for step in &plan.steps {
        for key in of_step(step) {
            keys.entry(key).or_default().push(step.name.clone());
        }
    }
    if keys.is_empty() { Ok(()) } else { Err(Unsupported { keys }) }
}

fn of_workflow(plan: &Plan) -> Vec<&'static str> {
    let kind = |wanted: fn(&ResourceKind) -> bool| {
        plan.resources.iter().any(|resource| wanted(&resource.kind))
    };
    let used = [
        (plan.hooks.success.is_some(), "on.success"),
        (plan.hooks.failure.is_some(), "on.failure"),
        (plan.hooks.escalate.is_some(), "on.escalate"),
        (kind(|kind| matches!(kind, ResourceKind::Items { .. })), "resource items"),
    ];
    names(&used)
}

fn of_step(step: &Step) -> Vec<&'static str> {
    let used = [
        (step.when.is_some(), "when"),
        (!step.guards.is_empty(), "guard"),
        (!step.ensures.is_empty(), "ensure"),
        (step.finally.is_some(), "finally"),
    ];
    names(&used)
}

fn names(used: &[(bool, &'static str)]) -> Vec<&'static str> {
    used.iter().filter(|(used, _)| *used).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<&'static str> {
        let workflow = windlass_workflow::parse("flow.toml", text).expect("nothing is wrong");
        let plan = workflow.bind([]).expect("it has no parameters");
        unsupported(&plan)
            .err()
            .map(|refused| refused.keys.into_keys().collect())
            .unwrap_or_default()
    }

    fn check(step: &str, rest: &str, expected: &[&str]) {
        let text = format!("[step.z]\nrun = 'true'\n[step.a]\nrun = 'true'\n{step}\n{rest}");
        assert_eq!(keys(&text), expected, "{text}");
    }

    #[test]
    fn what_the_runner_can_do_is_let_through() {
        check("after = ['z']\nlock = 'x'\npriority = 1", "", &[]);
        check("after = ['z']\nenv = { A = '{z.key}' }", "", &[]);
        check("after = { z = 'done' }", "", &[]);
        check("after = { z = 'failed' }", "", &[]);
        check("use = { r = 1 }", "[resource]\nr = { rate = '1/s' }", &[]);
        check("retry = { count = 1, backoff = 'linear', delay = '1s', max_delay = '5s' }", "", &[]);
        check("env = { A = '{run}' }\ndir = 'x'\nshell = 'bash'\neach = { n = [1] }", "", &[]);
        check("use = { m = '1G' }", "[resource]\nm = '2G'", &[]);
        check("timeout = '1s'\ngrace = '1s'\nretry = { count = 1, jitter = true }", "", &[]);
        check("semaphore = 's'", "[semaphore.s]\ncapacity = 1", &[]);
        assert!(keys("deadline = '1h'\non_failure = 'stop'\n[step.a]\nrun = 'true'").is_empty());
    }

    #[test]
    fn every_key_that_would_have_no_effect_is_named() {
        check("when = 'true'", "", &["when"]);
        check("finally = 'true'", "", &["finally"]);
        check("guard = 'g'", "[guard.g]\ncondition = 'true'", &["guard"]);
        check("ensure = 'g'", "[guard.g]\ncondition = 'true'", &["ensure"]);
        check("use = { i = 1 }", "[resource]\ni = { items = ['0'] }", &["resource items"]);
        check("", "[on]\nsuccess = 'a'\nfailure = 'b'", &["on.failure", "on.success"]);
    }

    #[test]
    fn many_steps_are_not_all_listed() {
        let text = "[step.a]\nrun = 'true'\nfinally = 'true'\neach = { n = [1, 2, 3, 4, 5, 6, 7] }";
        let workflow = windlass_workflow::parse("flow.toml", text).expect("nothing is wrong");
        let plan = workflow.bind([]).expect("it has no parameters");
        let said = unsupported(&plan).expect_err("it has an end of its own").to_string();
        assert!(said.ends_with("\n  finally: a[1], a[2], a[3], a[4], a[5] and 2 more"), "{said}");
    }
}
