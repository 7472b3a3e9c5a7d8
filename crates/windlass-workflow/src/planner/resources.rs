//! What steps share: resources of the run, semaphores of the machine.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use windlass_core::{SLOTS, Unprintable};

use super::amounts::amount;
use super::times::any_time;
use super::values::{check_env_name, is_identifier, scalar_text};
use crate::file::{File, ResourceEntry, ResourceTable, SemaphoreTable};
use crate::mistake::Mistake;
use crate::notes::Notes;
use crate::rate::{Rate, RateError};
use crate::resource::{Resource, ResourceKind, SHORTEST_HEARTBEAT_TIMEOUT, Semaphore};
use crate::written::{Key, Written};

pub(super) fn resources(file: &File, notes: &Notes) -> Vec<Resource> {
    let mut resources = Vec::new();
    for (key, entry, span) in file.resource.entries() {
        let name = key.as_str();
        if name == SLOTS {
            let message = format!("`{SLOTS}` cannot be the name of a resource");
            let help = "how many steps run at once is `concurrency`, at the top of the file";
            let mistake = Mistake::new(key.span.clone(), message, "not a free name");
            notes.mistake(mistake.help(help));
        }
        let kind = match entry {
            ResourceEntry::Quantity(quantity) => {
                amount(quantity, span, &format!("resource `{name}`"), notes)
                    .map(ResourceKind::Count)
            }
            ResourceEntry::Table(table) => TableReader { name, notes }.kind(table, span),
        };
        // One that cannot be read is kept, so that its users are not told it does not exist.
        let kind = kind.unwrap_or(ResourceKind::Count(windlass_core::Amount::MAX));
        resources.push(Resource { name: name.to_owned(), kind });
    }
    check_variables(file, &resources, notes);
    resources
}

/// No two resources tell their items in the same variable, unless both name it.
fn check_variables(file: &File, resources: &[Resource], notes: &Notes) {
    let mut seen: HashMap<String, &Resource> = HashMap::new();
    for (resource, (key, ..)) in resources.iter().zip(file.resource.entries()) {
        let Some(variable) = resource.variable() else { continue };
        let Some(other) = seen.insert(variable.clone(), resource) else { continue };
        if !variable.starts_with("WINDLASS_") {
            continue;
        }
        let message = format!(
            "the resources `{}` and `{}` would tell their items in one variable, `{variable}`",
            other.name, resource.name
        );
        let help = format!("name another one: {} = {{ items = […], env = \"…\" }}", key.as_str());
        let mistake = Mistake::new(key.span.clone(), message, "not told apart");
        notes.mistake(mistake.help(help));
    }
}

struct TableReader<'a> {
    name: &'a str,
    notes: &'a Notes,
}

impl TableReader<'_> {
    fn kind(&self, table: &ResourceTable, span: Range<usize>) -> Option<ResourceKind> {
        let (wrong, help) = match (table.items.is_given(), table.rate.is_given()) {
            (true, true) => {
                ("has both `items` and `rate`", "make two resources of it, and let steps use both")
            }
            (false, false) => (
                "has neither `items` nor `rate`",
                "write a number, or a table with `items` or `rate`",
            ),
            (false, true) if table.env.is_given() => (
                "has an `env`, and no items to tell a step about",
                "leave `env` out: it belongs to `items`",
            ),
            (true, false) if table.burst.is_given() => {
                ("has a `burst`, and no rate", "leave `burst` out: it belongs to `rate`")
            }
            (true, false) => return self.items(table),
            (false, true) => return self.rate(table),
        };
        let message = format!("resource `{}` {wrong}", self.name);
        self.notes.mistake(Mistake::new(span, message, "cannot be counted").help(help));
        None
    }

    fn items(&self, table: &ResourceTable) -> Option<ResourceKind> {
        let (list, span) = table.items.placed()?;
        let mut items: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for (scalar, span) in list.iter().filter_map(Written::placed) {
            let item = scalar_text(scalar);
            if !seen.insert(item.clone()) {
                let message = format!("resource `{}` has the item {item:?} twice", self.name);
                let mistake = Mistake::new(span, message, "it stands there already");
                self.notes.mistake(mistake.help("leave one of them out"));
            }
            items.push(item);
        }
        if list.is_empty() {
            let message = format!("resource `{}` has no items", self.name);
            let help = "list them, such as items = [\"0\", \"1\"]";
            self.notes.mistake(Mistake::new(span, message, "an empty list").help(help));
        }
        if let Some((name, span)) = table.env.placed() {
            self.check_env(name, span);
        }
        Some(ResourceKind::Items { items, env: table.env.value().cloned() })
    }

    fn check_env(&self, name: &str, span: Range<usize>) {
        let owner = format!("resource `{}`", self.name);
        if name.starts_with("WINDLASS_") || is_identifier(name) {
            return check_env_name(name, span, &owner, self.notes);
        }
        let message = format!("{owner}: {name:?} cannot be the name of an environment variable");
        let help = "use letters, digits and _, such as CUDA_VISIBLE_DEVICES";
        self.notes.mistake(Mistake::new(span, message, "not a name").help(help));
    }

    fn rate(&self, table: &ResourceTable) -> Option<ResourceKind> {
        let (text, span) = table.rate.placed()?;
        let rate = match text.parse::<Rate>() {
            Ok(rate) => rate,
            Err(error) => {
                let help = match &error {
                    RateError::UnknownUnit { .. } => "the units are s, min, h and d",
                    _ => "write how many in what time, such as \"100/min\"",
                };
                let message = format!("resource `{}`: {error}", self.name);
                self.notes.mistake(Mistake::new(span, message, "not a rate").help(help));
                return None;
            }
        };
        let burst = table.burst.placed().map(|(&burst, span)| self.burst(burst, span));
        Some(ResourceKind::Rate { rate, burst: burst.unwrap_or(rate.count) })
    }

    fn burst(&self, burst: i64, span: Range<usize>) -> u32 {
        let read = u32::try_from(burst).ok().filter(|&burst| burst > 0);
        if read.is_none() {
            let message =
                format!("resource `{}`: a burst of {burst} lets nothing start", self.name);
            let help = "write 1 or more";
            self.notes.mistake(Mistake::new(span, message, "not a number of starts").help(help));
        }
        read.unwrap_or(u32::MAX)
    }
}

pub(super) fn semaphores(file: &File, notes: &Notes) -> Vec<Semaphore> {
    let mut semaphores = Vec::new();
    for (key, table, span) in file.semaphore.entries() {
        let name = key.as_str();
        check_shared_name(key, notes);
        if !table.capacity.is_given() {
            let message = format!("semaphore `{name}` has no `capacity`");
            let help = "say how many slots there are: capacity = 4";
            notes.mistake(Mistake::new(span, message, "not complete").help(help));
        }
        let capacity = table.capacity.placed().map(|(&number, span)| {
            let capacity = u32::try_from(number).ok().filter(|&capacity| capacity > 0);
            if capacity.is_none() {
                let message = format!("semaphore `{name}` has a capacity of {number}");
                let help = "write 1 or more";
                notes.mistake(Mistake::new(span, message, "not a number of slots").help(help));
            }
            capacity.unwrap_or(u32::MAX)
        });
        semaphores.push(Semaphore {
            name: name.to_owned(),
            capacity: capacity.unwrap_or(u32::MAX),
            heartbeat_timeout: heartbeat_timeout(name, table, notes),
        });
    }
    semaphores
}

fn heartbeat_timeout(name: &str, table: &SemaphoreTable, notes: &Notes) -> Option<Duration> {
    let written = &table.heartbeat_timeout;
    let timeout = any_time(written, &format!("semaphore `{name}`: `heartbeat_timeout`"), notes)?;
    let (text, span) = written.placed()?;
    if timeout < SHORTEST_HEARTBEAT_TIMEOUT {
        let message = format!("semaphore `{name}`: a `heartbeat_timeout` of {text} is too short");
        let help = format!("write \"{SHORTEST_HEARTBEAT_TIMEOUT:?}\" or more");
        notes.mistake(Mistake::new(span, message, "nobody could keep it").help(help));
    }
    Some(timeout)
}

/// The words that `windlass lock` and `windlass sem` read as what to do.
const VERBS: [&str; 4] = ["acquire", "release", "heartbeat", "check"];

/// The longest name that the machine shares, in bytes.
const LONGEST_NAME: usize = 1024;

/// A name that the machine shares can be given on the command line too.
pub(super) fn shared_name_mistake(name: &str, span: Range<usize>, what: &str) -> Option<Mistake> {
    if name.trim().is_empty() {
        let message = format!("a {what} has an empty name");
        let help = "give it a name that says what it protects, such as \"deploy\"";
        return Some(Mistake::new(span, message, "no name").help(help));
    }
    let unfit = |why: &str, help: &str| {
        let message = format!("the name of a {what} {why}");
        Some(Mistake::new(span.clone(), message, "not a name").help(help))
    };
    if let Some(found) = Unprintable::first_in(name) {
        let why = format!("has the unprintable character {found} in it");
        return unfit(&why, "keep to what can be read on one line");
    }
    if name.len() > LONGEST_NAME {
        return unfit(&format!("is longer than {LONGEST_NAME} bytes"), "a shorter one will do");
    }
    VERBS.contains(&name).then(|| {
        let message = format!("`{name}` cannot be the name of a {what}");
        let verb = if what == "lock" { "lock" } else { "sem" };
        let help = format!("`windlass {verb} {name}` is a command of its own; use another name");
        Mistake::new(span, message, "not a free name").help(help)
    })
}

fn check_shared_name(key: &Key, notes: &Notes) {
    let mistake = shared_name_mistake(key.as_str(), key.span.clone(), "semaphore");
    if let Some(mistake) = mistake {
        notes.mistake(mistake);
    }
}
