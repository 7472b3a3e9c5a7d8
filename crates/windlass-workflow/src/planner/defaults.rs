//! Plans `[defaults]`, and the keys that steps have in common with it.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::ResourceCost;

use super::amounts::log_limit;
use super::index::NameIndex;
use super::scope::NameScope;
use super::texts::{TextReader, UnknownName};
use super::times::{any_time, some_time};
use super::values::{environment, shell};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, RetryTable};
use crate::script::Shell;
use crate::spanned::{Field, Spanned};
use crate::step::{Jitter, Retry};
use crate::template::Template;
use crate::variable::Variable;

/// The default of `crash_limit`.
pub(crate) const CRASH_LIMIT: u32 = 5;

/// The settings of every step that does not have its own.
pub(super) struct Defaults {
    pub(super) uses: ResourceCost,
    pub(super) priority: i64,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Option<Duration>,
    pub(super) linger: Option<Duration>,
    pub(super) log_limit: u64,
    pub(super) retry: Retry,
    pub(super) crash_limit: u32,
    pub(super) env: BTreeMap<String, Template>,
    pub(super) dir: Option<Template>,
    pub(super) shell: Shell,
}

impl Defaults {
    /// Returns the defaults; `env` has the variables of `[env]`, which those of `[defaults]` replace.
    pub(super) fn new(
        file: &File,
        texts: &TextReader<'_>,
        index: &NameIndex<'_>,
        (mut env, plan_log_limit): (BTreeMap<String, Template>, u64),
    ) -> Self {
        let diagnostics = texts.diagnostics;
        let empty = Default::default();
        let table = file.defaults.value().unwrap_or(&empty);
        let scope = NameScope::steps("`defaults`".to_owned());
        environment(&table.env, &scope, texts, &mut env);
        Self {
            uses: index.uses(&table.uses, "`defaults`", diagnostics, ResourceCost::new()),
            priority: table.priority.value().copied().unwrap_or(0),
            timeout: some_time(&table.timeout, "`defaults.timeout`", diagnostics),
            grace: any_time(&table.grace, "`defaults.grace`", diagnostics),
            linger: any_time(&table.linger, "`defaults.linger`", diagnostics),
            log_limit: log_limit(&table.log_limit, "`defaults.log_limit`", diagnostics)
                .unwrap_or(plan_log_limit),
            retry: retry(&table.retry, "`defaults`", diagnostics).unwrap_or_default(),
            crash_limit: crash_limit(&table.crash_limit, "`defaults`", diagnostics)
                .unwrap_or(CRASH_LIMIT),
            env,
            dir: dir(&table.dir, &scope, texts),
            shell: shell(&table.shell, "`defaults`", diagnostics).unwrap_or_default(),
        }
    }
}

/// Returns the variables of `[env]`.
pub(super) fn env(file: &File, texts: &TextReader<'_>) -> BTreeMap<String, Template> {
    let mut env = BTreeMap::new();
    environment(&file.env, &NameScope::steps("`env`".to_owned()), texts, &mut env);
    env
}

/// Returns the directory in a field.
pub(super) fn dir(
    field: &Field<String>,
    scope: &NameScope<'_>,
    texts: &TextReader<'_>,
) -> Option<Template> {
    let (text, span) = field.with_span()?;
    if text.is_empty() {
        let message = format!("{} has an empty `dir`", scope.owner);
        let help = "leave `dir` out to run beside the workflow file";
        texts.diagnostics.error(Diagnostic::new(span.clone(), message, "no directory").help(help));
    }
    let dir = texts.template(text, &span, scope, UnknownName::Reject);
    if dir.variables().any(|variable| *variable == Variable::Workspace) {
        let message = format!("{}: `dir` depends on `{{workspace}}`, which is `dir`", scope.owner);
        let help = "a path in `dir` is already relative to the directory of the workflow file";
        texts.diagnostics.error(Diagnostic::new(span, message, "refers to itself").help(help));
    }
    Some(dir)
}

/// Returns the retries in a field.
pub(super) fn retry(
    field: &Field<RetryTable>,
    owner: &str,
    diagnostics: &Diagnostics,
) -> Option<Retry> {
    let (table, span) = field.with_span()?;
    if !table.count.is_present() {
        let message = format!("{owner}: its `retry` has no `count`");
        let help = "say how often to try again: retry = { count = 3 }";
        diagnostics.error(Diagnostic::new(span, message, "incomplete").help(help));
    }
    let never = Retry::default();
    let delay = any_time(&table.delay, &format!("{owner}: `retry.delay`"), diagnostics);
    let delay = delay.unwrap_or(never.delay);
    let max_delay =
        some_time(&table.max_delay, &format!("{owner}: `retry.max_delay`"), diagnostics);
    if let (Some(longest), Some((_, span))) = (max_delay, table.max_delay.with_span())
        && longest < delay
    {
        let message = format!("{owner}: `retry.max_delay` is shorter than the delay, {delay:?}");
        let help = "make it at least as long, or set a shorter `delay`";
        diagnostics.error(Diagnostic::new(span, message, "too short").help(help));
    }
    Some(Retry {
        count: table.count.value().copied().unwrap_or(0),
        backoff: table.backoff.value().copied().unwrap_or_default(),
        delay,
        max_delay,
        jitter: if table.jitter.value() == Some(&true) { Jitter::Full } else { Jitter::None },
        on_exit: table.on_exit.value().map(|codes| exit_codes(codes, owner, diagnostics)),
    })
}

/// Returns the `crash_limit` in a field.
pub(super) fn crash_limit(
    field: &Field<i64>,
    owner: &str,
    diagnostics: &Diagnostics,
) -> Option<u32> {
    let (&number, span) = field.with_span()?;
    let limit = u32::try_from(number).ok().filter(|limit| *limit > 0);
    if limit.is_none() {
        let message = format!("{owner}: `crash_limit` is {number}");
        let help = format!("write a whole number from 1 to {}", u32::MAX);
        diagnostics.error(Diagnostic::new(span, message, "out of range").help(help));
    }
    limit
}

fn exit_codes(codes: &[Spanned<i64>], owner: &str, diagnostics: &Diagnostics) -> Vec<i32> {
    let mut all = Vec::new();
    for (&code, span) in codes.iter().filter_map(Spanned::with_span) {
        match i32::try_from(code).ok().filter(|code| (1..=255).contains(code)) {
            Some(code) => all.push(code),
            None => {
                let message = format!("{owner}: `retry.on_exit` has {code}");
                let help = "a failed command exits with a code from 1 to 255";
                diagnostics.error(Diagnostic::new(span, message, "no such exit code").help(help));
            }
        }
    }
    all
}
