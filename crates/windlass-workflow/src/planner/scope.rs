//! Scopes: whose text a text is, and which names are known in it.

use std::collections::BTreeSet;

use crate::variable::Variable;

pub(super) struct NameScope<'a> {
    /// The owner of the text for messages, such as step `deploy`.
    pub(super) owner: String,
    pub(super) kind: ScopeKind<'a>,
}

pub(super) enum ScopeKind<'a> {
    /// The text of one declared step.
    Step { declared: usize, each: &'a [String] },
    /// The text of a guard, which several steps may share.
    Guard { each: &'a BTreeSet<String> },
    /// A text of every step, in `[env]` or `[defaults]`.
    Steps,
    /// The text of a hook, which belongs to no step.
    Run,
}

impl<'a> NameScope<'a> {
    pub(super) fn step(owner: String, declared: usize, each: &'a [String]) -> Self {
        Self { owner, kind: ScopeKind::Step { declared, each } }
    }

    pub(super) fn guard(owner: String, each: &'a BTreeSet<String>) -> Self {
        Self { owner, kind: ScopeKind::Guard { each } }
    }

    pub(super) fn steps(owner: String) -> Self {
        Self { owner, kind: ScopeKind::Steps }
    }

    pub(super) fn run(owner: String) -> Self {
        Self { owner, kind: ScopeKind::Run }
    }

    pub(super) fn has_each(&self, name: &str) -> bool {
        match &self.kind {
            ScopeKind::Step { each, .. } => each.iter().any(|known| known == name),
            ScopeKind::Guard { each } => each.contains(name),
            ScopeKind::Steps | ScopeKind::Run => false,
        }
    }

    pub(super) fn each_names(&self) -> Vec<&str> {
        match &self.kind {
            ScopeKind::Step { each, .. } => each.iter().map(String::as_str).collect(),
            ScopeKind::Guard { each } => each.iter().map(String::as_str).collect(),
            ScopeKind::Steps | ScopeKind::Run => Vec::new(),
        }
    }

    /// Returns the built-in variable of this name, if this scope has it.
    pub(super) fn built_in(&self, name: &str) -> Option<Variable> {
        let of_a_step = matches!(name, "step" | "attempt");
        let known = !of_a_step || !matches!(self.kind, ScopeKind::Run);
        Variable::built_in(name).filter(|_| known)
    }
}
