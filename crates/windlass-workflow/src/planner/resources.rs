//! Plans resources and semaphores, and checks the names of semaphores and locks.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use windlass_core::{SLOTS, Unprintable, WORKER};

use super::amounts::amount;
use super::times::any_time;
use super::values::{check_env_name, is_identifier, scalar_text, too_large};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, ResourceEntry, ResourceTable, SemaphoreTable};
use crate::rate::{StartRate, StartRateError};
use crate::resource::{Resource, ResourceKind, SHARED, SHORTEST_HEARTBEAT_TIMEOUT, SemaphoreSpec};
use crate::spanned::{Key, Spanned};

pub(super) fn resources(file: &File, diagnostics: &Diagnostics) -> Vec<Resource> {
    let mut resources = Vec::new();
    for (key, entry, span) in file.resource.entries() {
        let name = key.as_str();
        if name.starts_with(SHARED) {
            let message = format!("`{name}` cannot be the name of a resource");
            let help = format!(
                "names that begin with `{SHARED}` are limits of the store, which `windlass limits` sets; \
                 steps use them as they are"
            );
            let error = Diagnostic::new(key.span.clone(), message, "invalid name");
            diagnostics.error(error.help(help));
        }
        if name.starts_with(WORKER) {
            let message = format!("`{name}` cannot be the name of a resource");
            let help = format!(
                "names that begin with `{WORKER}` are resources of workers, which `windlass worker --resource` \
                 sets; steps use them as they are"
            );
            let error = Diagnostic::new(key.span.clone(), message, "invalid name");
            diagnostics.error(error.help(help));
        }
        if name == SLOTS {
            let message = format!("`{SLOTS}` cannot be the name of a resource");
            let help = "how many steps run at once is `concurrency`, at the top of the file";
            let error = Diagnostic::new(key.span.clone(), message, "invalid name");
            diagnostics.error(error.help(help));
        }
        let kind = match entry {
            ResourceEntry::Quantity(quantity) => {
                amount(quantity, span, &format!("resource `{name}`"), diagnostics)
                    .map(ResourceKind::Count)
            }
            ResourceEntry::Table(table) => ResourceReader { name, diagnostics }.kind(table, span),
        };
        // A resource with an error is kept, so that steps that use it have no further error.
        let kind = kind.unwrap_or(ResourceKind::Count(windlass_core::Amount::MAX));
        resources.push(Resource { name: name.to_owned(), kind });
    }
    check_variables(file, &resources, diagnostics);
    resources
}

/// Checks that no two resources have the same default variable for their items.
fn check_variables(file: &File, resources: &[Resource], diagnostics: &Diagnostics) {
    let mut seen: HashMap<String, &Resource> = HashMap::new();
    for (resource, (key, ..)) in resources.iter().zip(file.resource.entries()) {
        let Some(variable) = resource.variable() else { continue };
        let Some(other) = seen.insert(variable.clone(), resource) else { continue };
        if !variable.starts_with("WINDLASS_") {
            continue;
        }
        let message = format!(
            "the resources `{}` and `{}` would both use the variable `{variable}` for their items",
            other.name, resource.name
        );
        let help = format!("set another one: {} = {{ items = […], env = \"…\" }}", key.as_str());
        let error = Diagnostic::new(key.span.clone(), message, "same variable");
        diagnostics.error(error.help(help));
    }
}

struct ResourceReader<'a> {
    name: &'a str,
    diagnostics: &'a Diagnostics,
}

impl ResourceReader<'_> {
    fn kind(&self, table: &ResourceTable, span: Range<usize>) -> Option<ResourceKind> {
        if let Some((limit, span)) = table.shared.with_span() {
            return self.shared(table, limit, span);
        }
        let (wrong, help) = match (table.items.is_present(), table.rate.is_present()) {
            (true, true) => {
                ("has both `items` and `rate`", "make two resources of it, and let steps use both")
            }
            (false, false) => (
                "has neither `items` nor `rate` nor `shared`",
                "write a number, or a table with `items`, `rate` or `shared`",
            ),
            (false, true) if table.env.is_present() => (
                "has an `env`, and no items to tell a step about",
                "leave `env` out: it belongs to `items`",
            ),
            (true, false) if table.burst.is_present() => {
                ("has a `burst`, and no rate", "leave `burst` out: it belongs to `rate`")
            }
            (true, false) => return self.items(table),
            (false, true) => return self.rate(table),
        };
        let message = format!("resource `{}` {wrong}", self.name);
        self.diagnostics.error(Diagnostic::new(span, message, "cannot be counted").help(help));
        None
    }

    /// Reads a name for a limit of the store.
    fn shared(
        &self,
        table: &ResourceTable,
        limit: &str,
        span: Range<usize>,
    ) -> Option<ResourceKind> {
        let others = [table.items.is_present(), table.env.is_present(), table.rate.is_present()];
        if others.contains(&true) || table.burst.is_present() {
            let message =
                format!("resource `{}` is a limit of the store, and has its own", self.name);
            let help = "leave everything but `shared` out: the amount and the items are those that \
                        `windlass limits` sets";
            self.diagnostics.error(Diagnostic::new(span, message, "said twice").help(help));
            return None;
        }
        if let Some(error) = limit_error(limit, span) {
            self.diagnostics.error(error);
        }
        Some(ResourceKind::Shared { limit: limit.to_owned() })
    }

    fn items(&self, table: &ResourceTable) -> Option<ResourceKind> {
        let (list, span) = table.items.with_span()?;
        let mut items: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for (scalar, span) in list.iter().filter_map(Spanned::with_span) {
            let item = scalar_text(scalar);
            if !seen.insert(item.clone()) {
                let message = format!("resource `{}` has the item {item:?} twice", self.name);
                let error = Diagnostic::new(span, message, "already in the list");
                self.diagnostics.error(error.help("remove one of them"));
            }
            items.push(item);
        }
        if list.is_empty() {
            let message = format!("resource `{}` has no items", self.name);
            let help = "list them, such as items = [\"0\", \"1\"]";
            self.diagnostics.error(Diagnostic::new(span, message, "an empty list").help(help));
        }
        if let Some((name, span)) = table.env.with_span() {
            self.check_env(name, span);
        }
        Some(ResourceKind::Items { items, env: table.env.value().cloned() })
    }

    fn check_env(&self, name: &str, span: Range<usize>) {
        let owner = format!("resource `{}`", self.name);
        if name.starts_with("WINDLASS_") || is_identifier(name) {
            return check_env_name(name, span, &owner, self.diagnostics);
        }
        let message = format!("{owner}: {name:?} cannot be the name of an environment variable");
        let help = "use letters, digits and _, such as CUDA_VISIBLE_DEVICES";
        self.diagnostics.error(Diagnostic::new(span, message, "invalid name").help(help));
    }

    fn rate(&self, table: &ResourceTable) -> Option<ResourceKind> {
        let (text, span) = table.rate.with_span()?;
        let rate = match text.parse::<StartRate>() {
            Ok(rate) => rate,
            Err(error) => {
                let help = match &error {
                    StartRateError::UnknownUnit { .. } => "the units are s, min, h and d",
                    _ => "write how many in what time, such as \"100/min\"",
                };
                let message = format!("resource `{}`: {error}", self.name);
                self.diagnostics.error(Diagnostic::new(span, message, "not a rate").help(help));
                return None;
            }
        };
        let burst = table.burst.with_span().map(|(&burst, span)| self.burst(burst, span));
        Some(ResourceKind::Rate { rate, burst: burst.unwrap_or(rate.count) })
    }

    fn burst(&self, burst: i64, span: Range<usize>) -> u32 {
        let read = u32::try_from(burst).ok().filter(|&burst| burst > 0);
        if read.is_none() && burst > 0 {
            let subject = format!("resource `{}`: `burst`", self.name);
            self.diagnostics.error(too_large(burst, &subject, span));
        } else if read.is_none() {
            let message =
                format!("resource `{}`: a burst of {burst} lets nothing start", self.name);
            let help = "write 1 or more";
            let error = Diagnostic::new(span, message, "not a number of starts");
            self.diagnostics.error(error.help(help));
        }
        read.unwrap_or(u32::MAX)
    }
}

/// Returns the error for a name that no limit of a store can have.
pub(super) fn limit_error(name: &str, span: Range<usize>) -> Option<Diagnostic> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let (message, help) = if name == SLOTS {
        let help = "how many steps a worker executes at a time is its --slots";
        (format!("`{SLOTS}` cannot be the name of a limit"), help.to_owned())
    } else if let Some(rest) = name.strip_prefix(SHARED) {
        let help = format!("leave the prefix out: \"{rest}\"");
        (format!("`{name}` cannot be the name of a limit"), help)
    } else if name.starts_with(char::is_alphanumeric) && name.chars().all(plain) {
        return None;
    } else {
        let help = "use letters, digits, dots, dashes and underscores, such as \"gpu\"";
        (format!("{name:?} cannot be the name of a limit"), help.to_owned())
    };
    Some(Diagnostic::new(span, message, "invalid name").help(help))
}

pub(super) fn semaphores(file: &File, diagnostics: &Diagnostics) -> Vec<SemaphoreSpec> {
    let mut semaphores = Vec::new();
    for (key, table, span) in file.semaphore.entries() {
        let name = key.as_str();
        check_shared_name(key, diagnostics);
        if !table.capacity.is_present() {
            let message = format!("semaphore `{name}` has no `capacity`");
            let help = "say how many slots there are: capacity = 4";
            diagnostics.error(Diagnostic::new(span, message, "incomplete").help(help));
        }
        let capacity = table.capacity.with_span().map(|(&number, span)| {
            let capacity = u32::try_from(number).ok().filter(|&capacity| capacity > 0);
            if capacity.is_none() && number > 0 {
                let subject = format!("semaphore `{name}`: `capacity`");
                diagnostics.error(too_large(number, &subject, span));
            } else if capacity.is_none() {
                let message = format!("semaphore `{name}` has a capacity of {number}");
                let help = "write 1 or more";
                diagnostics
                    .error(Diagnostic::new(span, message, "not a number of slots").help(help));
            }
            capacity.unwrap_or(u32::MAX)
        });
        semaphores.push(SemaphoreSpec {
            name: name.to_owned(),
            capacity: capacity.unwrap_or(u32::MAX),
            heartbeat_timeout: heartbeat_timeout(name, table, diagnostics),
        });
    }
    semaphores
}

fn heartbeat_timeout(
    name: &str,
    table: &SemaphoreTable,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let field = &table.heartbeat_timeout;
    let timeout =
        any_time(field, &format!("semaphore `{name}`: `heartbeat_timeout`"), diagnostics)?;
    let (text, span) = field.with_span()?;
    if timeout < SHORTEST_HEARTBEAT_TIMEOUT {
        let message = format!("semaphore `{name}`: a `heartbeat_timeout` of {text} is too short");
        let help = format!("write \"{SHORTEST_HEARTBEAT_TIMEOUT:?}\" or more");
        diagnostics.error(Diagnostic::new(span, message, "too short").help(help));
    }
    Some(timeout)
}

/// The subcommands of `windlass lock` and `windlass sem`.
const VERBS: [&str; 4] = ["acquire", "release", "heartbeat", "check"];

/// The maximum length of the name of a lock or semaphore, in bytes.
const LONGEST_NAME: usize = 1024;

/// Returns the error for a name that a lock or semaphore cannot have: users also write these names on the
/// command line.
pub(super) fn shared_name_error(name: &str, span: Range<usize>, what: &str) -> Option<Diagnostic> {
    if name.trim().is_empty() {
        let message = format!("a {what} has an empty name");
        let help = "give it a name that says what it protects, such as \"deploy\"";
        return Some(Diagnostic::new(span, message, "no name").help(help));
    }
    let unfit = |why: &str, help: &str| {
        let message = format!("the name of a {what} {why}");
        Some(Diagnostic::new(span.clone(), message, "invalid name").help(help))
    };
    if let Some(found) = Unprintable::first_in(name) {
        let why = format!("has the unprintable character {found} in it");
        return unfit(&why, "use printable characters only");
    }
    if name.len() > LONGEST_NAME {
        return unfit(&format!("is longer than {LONGEST_NAME} bytes"), "a shorter one will do");
    }
    VERBS.contains(&name).then(|| {
        let message = format!("`{name}` cannot be the name of a {what}");
        let verb = if what == "lock" { "lock" } else { "sem" };
        let help = format!("`windlass {verb} {name}` is a command of its own; use another name");
        Diagnostic::new(span, message, "invalid name").help(help)
    })
}

fn check_shared_name(key: &Key, diagnostics: &Diagnostics) {
    let error = shared_name_error(key.as_str(), key.span.clone(), "semaphore");
    if let Some(error) = error {
        diagnostics.error(error);
    }
}
