//! What steps may refer to by name: resources, semaphores, guards.

use std::collections::HashMap;
use std::ops::Range;

use windlass_core::{Amount, ResourceCost};

use super::amounts::amount;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::Quantity;
use crate::guard::Guard;
use crate::resource::{Resource, ResourceKind, Semaphore};
use crate::size::size_text;
use crate::spanned::{Entries, Field, Key};

/// What steps may refer to.
pub(super) struct Known<'a> {
    pub(super) resources: &'a [Resource],
    pub(super) semaphores: &'a [Semaphore],
    pub(super) guards: &'a [Guard],
}

/// Where each name is.
pub(super) struct Index<'a> {
    resources: HashMap<&'a str, &'a Resource>,
    pub(super) semaphores: HashMap<&'a str, (usize, &'a Semaphore)>,
    pub(super) guards: HashMap<&'a str, usize>,
}

impl<'a> Index<'a> {
    pub(super) fn new(known: &Known<'a>) -> Self {
        let semaphores = known.semaphores.iter().enumerate();
        let guards = known.guards.iter().enumerate();
        Self {
            resources: known.resources.iter().map(|r| (r.name.as_str(), r)).collect(),
            semaphores: semaphores.map(|(at, s)| (s.name.as_str(), (at, s))).collect(),
            guards: guards.map(|(at, guard)| (guard.name.as_str(), at)).collect(),
        }
    }

    /// What a table of amounts asks for, added to `cost`.
    pub(super) fn uses(
        &self,
        written: &Field<Entries<Quantity>>,
        owner: &str,
        diagnostics: &Diagnostics,
        mut cost: ResourceCost,
    ) -> ResourceCost {
        for (key, quantity, span) in written.entries() {
            let name = key.as_str();
            let place = format!("{owner}: `use.{name}`");
            let Some(wanted) = amount(quantity, span.clone(), &place, diagnostics) else {
                continue;
            };
            let usage = ResourceUse { owner, quantity, wanted };
            match self.resources.get(name) {
                None => diagnostics.error(self.no_resource(&usage, key, diagnostics)),
                Some(resource) => {
                    if let Some(mistake) = usage.never_fits(resource, span) {
                        diagnostics.error(mistake);
                    }
                }
            }
            cost = cost.with(name, wanted);
        }
        cost
    }

    fn no_resource(
        &self,
        usage: &ResourceUse<'_>,
        key: &Key,
        diagnostics: &Diagnostics,
    ) -> Diagnostic {
        let name = key.as_str();
        let message = format!("{} uses `{name}`, which is not declared", usage.owner);
        let help = diagnostics.suggest(name, self.resources.keys().copied());
        let help = help.unwrap_or_else(|| {
            let amount = usage.written();
            format!("say how much there is, under [resource]: {name} = {amount}, or more")
        });
        Diagnostic::new(key.span.clone(), message, "no such resource").help(help)
    }
}

/// What somebody asks for.
struct ResourceUse<'a> {
    owner: &'a str,
    quantity: &'a Quantity,
    wanted: Amount,
}

impl ResourceUse<'_> {
    /// As it could be written in the file.
    fn written(&self) -> String {
        match self.quantity {
            Quantity::Text(text) => format!("{text:?}"),
            _ => self.wanted.to_string(),
        }
    }

    /// An amount in the units of the usage.
    fn shown(&self, amount: Amount) -> String {
        match self.quantity {
            Quantity::Text(_) => size_text(amount),
            _ => amount.to_string(),
        }
    }

    fn never_fits(&self, resource: &Resource, span: Range<usize>) -> Option<Diagnostic> {
        let (owner, name) = (self.owner, &resource.name);
        let wanted = self.shown(self.wanted);
        let whole = self.wanted.steps().is_multiple_of(Amount::from(1).steps());
        if !whole && !matches!(resource.kind, ResourceKind::Count(_)) {
            let message = format!("{owner} uses {wanted} of `{name}`, which comes in whole pieces");
            let help = "write a whole number";
            return Some(Diagnostic::new(span, message, "not a whole number").help(help));
        }
        let most = resource.kind.most();
        if self.wanted <= most {
            return None;
        }
        let most = self.shown(most);
        let (message, help) = match &resource.kind {
            ResourceKind::Rate { rate, .. } => (
                format!("{owner} uses {wanted} of `{name}` at once, and its burst is {most}"),
                format!("raise it: {name} = {{ rate = \"{rate}\", burst = {wanted} }}"),
            ),
            _ => (
                format!("{owner} uses {wanted} of `{name}`, and there is only {most}"),
                "it could never start; use less, or raise the limit under [resource]".to_owned(),
            ),
        };
        Some(Diagnostic::new(span, message, "more than there is").help(help))
    }
}
