//! The resources, semaphores and guards of a file, by name.
//!
//! Checks what a step uses against what there is.

use std::collections::HashMap;
use std::ops::Range;

use windlass_core::{Amount, ResourceCost, SLOTS, WORKER};

use super::amounts::amount;
use super::resources::limit_error;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::Quantity;
use crate::guard::Guard;
use crate::resource::{Resource, ResourceKind, SHARED, SemaphoreSpec};
use crate::size::format_size;
use crate::spanned::{Entries, Field, Key};

pub(super) struct NameIndex<'a> {
    resources: HashMap<&'a str, &'a Resource>,
    /// Each semaphore with its index in the plan.
    pub(super) semaphores: HashMap<&'a str, (usize, &'a SemaphoreSpec)>,
    /// The index of each guard in the plan.
    pub(super) guards: HashMap<&'a str, usize>,
}

impl<'a> NameIndex<'a> {
    pub(super) fn new(
        resources: &'a [Resource],
        semaphores: &'a [SemaphoreSpec],
        guards: &'a [Guard],
    ) -> Self {
        let semaphores = semaphores.iter().enumerate();
        let guards = guards.iter().enumerate();
        Self {
            resources: resources.iter().map(|r| (r.name.as_str(), r)).collect(),
            semaphores: semaphores.map(|(index, s)| (s.name.as_str(), (index, s))).collect(),
            guards: guards.map(|(index, guard)| (guard.name.as_str(), index)).collect(),
        }
    }

    /// Returns `cost` with the amounts of a `use` table added or replaced.
    pub(super) fn uses(
        &self,
        field: &Field<Entries<Quantity>>,
        owner: &str,
        diagnostics: &Diagnostics,
        mut cost: ResourceCost,
    ) -> ResourceCost {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for (key, quantity, span) in field.entries() {
            let name = key.as_str();
            let subject = format!("{owner}: `use.{name}`");
            let Some(amount) = amount(quantity, span.clone(), &subject, diagnostics) else {
                continue;
            };
            let usage = ResourceUse { owner, quantity, amount };
            let limit = name.strip_prefix(SHARED);
            let counted = self.resources.get(name).map(|resource| resource.counted_as());
            let counted = counted.unwrap_or_else(|| name.to_owned());
            if let Some(other) = seen.insert(counted.clone(), name) {
                let message = format!("{owner} uses one limit twice: as `{other}` and as `{name}`");
                let error = Diagnostic::new(key.span.clone(), message, "the same limit");
                diagnostics.error(error.help("leave one of them out"));
            }
            match self.resources.get(name) {
                None if name.starts_with(WORKER) => {
                    worker_resource_error(name, &usage, key.span.clone())
                        .into_iter()
                        .for_each(|error| diagnostics.error(error));
                }
                None if limit.is_some() => {
                    limit_error(limit.unwrap_or_default(), key.span.clone())
                        .into_iter()
                        .for_each(|error| diagnostics.error(error));
                }
                None => diagnostics.error(self.unknown_resource(&usage, key, diagnostics)),
                Some(resource) => {
                    if let Some(error) = usage.never_fits(resource, span) {
                        diagnostics.error(error);
                    }
                }
            }
            cost = cost.with(counted, amount);
        }
        cost
    }

    fn unknown_resource(
        &self,
        usage: &ResourceUse<'_>,
        key: &Key,
        diagnostics: &Diagnostics,
    ) -> Diagnostic {
        let name = key.as_str();
        let message = format!("{} uses `{name}`, which is not declared", usage.owner);
        let help = diagnostics.suggest(name, self.resources.keys().copied());
        let help = help.unwrap_or_else(|| {
            let amount = usage.in_toml();
            format!("say how much there is, under [resource]: {name} = {amount}, or more")
        });
        Diagnostic::new(key.span.clone(), message, "no such resource").help(help)
    }
}

/// Returns the error for a name that no resource of a worker can have.
fn worker_resource_error(
    name: &str,
    usage: &ResourceUse<'_>,
    span: Range<usize>,
) -> Option<Diagnostic> {
    let own = name.strip_prefix(WORKER).unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let (message, help) = if own == SLOTS {
        let help =
            "each step takes one slot of its worker, and a worker's --slots says how many it has";
        (format!("{} uses `{name}`", usage.owner), help)
    } else if own.starts_with(char::is_alphanumeric) && own.chars().all(plain) {
        return None;
    } else {
        let help = "use letters, digits, dots, dashes and underscores, such as \"worker.gpu\"";
        (format!("`{name}` cannot be a resource of a worker"), help)
    };
    Some(Diagnostic::new(span, message, "invalid name").help(help))
}

/// The amount of one resource that a step uses.
struct ResourceUse<'a> {
    owner: &'a str,
    quantity: &'a Quantity,
    amount: Amount,
}

impl ResourceUse<'_> {
    /// Returns the amount as TOML.
    fn in_toml(&self) -> String {
        match self.quantity {
            Quantity::Text(text) => format!("{text:?}"),
            _ => self.amount.to_string(),
        }
    }

    /// Formats an amount as a size if the file writes this one as a size.
    fn formatted(&self, amount: Amount) -> String {
        match self.quantity {
            Quantity::Text(_) => format_size(amount),
            _ => amount.to_string(),
        }
    }

    fn never_fits(&self, resource: &Resource, span: Range<usize>) -> Option<Diagnostic> {
        let (owner, name) = (self.owner, &resource.name);
        let amount = self.formatted(self.amount);
        if matches!(resource.kind, ResourceKind::Shared { .. }) {
            return None;
        }
        let whole = self.amount.steps().is_multiple_of(Amount::from(1).steps());
        if !whole && !matches!(resource.kind, ResourceKind::Count(_)) {
            let message =
                format!("{owner} uses {amount} of `{name}`, which is counted in whole numbers");
            let help = "write a whole number";
            return Some(Diagnostic::new(span, message, "not a whole number").help(help));
        }
        let capacity = resource.kind.capacity();
        if self.amount <= capacity {
            return None;
        }
        let capacity = self.formatted(capacity);
        let (message, help) = match &resource.kind {
            ResourceKind::Rate { rate, .. } => (
                format!("{owner} uses {amount} of `{name}` at once, but its burst is {capacity}"),
                format!("raise it: {name} = {{ rate = \"{rate}\", burst = {amount} }}"),
            ),
            _ => (
                format!("{owner} uses {amount} of `{name}`, which has {capacity}"),
                "it could never start; use less, or raise the limit under [resource]".to_owned(),
            ),
        };
        Some(Diagnostic::new(span, message, "too much").help(help))
    }
}
