//! The steps themselves: defaults merged, names resolved, one for every combination of `each`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use windlass_core::{Amount, ResourceCost};

use super::amounts::amount;
use super::declared::{Declared, DeclaredStep};
use super::edges::{self, After, Places};
use super::resources::shared_name_mistake;
use super::texts::{Scope, Texts, Unknown};
use super::times::{any_time, some_time};
use super::values::{command, environment, names, script, shell};
use crate::file::{File, Names, Quantity, RetryTable, SemaphoreUse};
use crate::guard::Guard;
use crate::limits;
use crate::mistake::Mistake;
use crate::notes::Notes;
use crate::resource::{Resource, ResourceKind, Semaphore};
use crate::script::{Command, Shell};
use crate::size::size_text;
use crate::step::{Jitter, Retry, Slots, Step};
use crate::template::Template;
use crate::variable::Variable;
use crate::written::{Entries, Given, Key, Written};

/// What steps may refer to.
pub(super) struct Known<'a> {
    pub(super) resources: &'a [Resource],
    pub(super) semaphores: &'a [Semaphore],
    pub(super) guards: &'a [Guard],
}

/// All steps, in the order of the file, with the places of their edges.
pub(super) fn steps(
    file: &File,
    texts: &Texts<'_>,
    declared: &Declared<'_>,
    known: &Known<'_>,
) -> Vec<(Step, Places)> {
    let index = Index::new(known);
    let defaults = Defaults::new(file, texts, &index);
    let mut steps = Vec::with_capacity(declared.len());
    let mut edge_count = 0;
    for (place, step) in declared.steps.iter().enumerate() {
        let owner = format!("step `{}`", step.key.as_str());
        let scope = Scope::step(owner, place, &step.each);
        let reader = StepReader { step, scope, texts, index: &index, defaults: &defaults };
        let common = reader.step();
        let after = After::new(step, declared, &reader.scope, texts);
        for combination in &step.combinations {
            let (edges, places) = after.edges(combination);
            edge_count += edges.len();
            let each = step.each.iter().cloned().zip(combination.iter().cloned()).collect();
            let name = step.instance_name(combination);
            steps.push((Step { name, each, after: edges, ..common.clone() }, places));
        }
        if edge_count > limits::EDGES {
            texts.notes.mistake(edges::too_many(step));
            break;
        }
    }
    steps
}

/// Where each name is.
struct Index<'a> {
    resources: HashMap<&'a str, &'a Resource>,
    semaphores: HashMap<&'a str, (usize, &'a Semaphore)>,
    guards: HashMap<&'a str, usize>,
}

impl<'a> Index<'a> {
    fn new(known: &Known<'a>) -> Self {
        let semaphores = known.semaphores.iter().enumerate();
        let guards = known.guards.iter().enumerate();
        Self {
            resources: known.resources.iter().map(|r| (r.name.as_str(), r)).collect(),
            semaphores: semaphores.map(|(at, s)| (s.name.as_str(), (at, s))).collect(),
            guards: guards.map(|(at, guard)| (guard.name.as_str(), at)).collect(),
        }
    }

    /// What a table of amounts asks for, added to `cost`.
    fn uses(
        &self,
        written: &Given<Entries<Quantity>>,
        owner: &str,
        notes: &Notes,
        mut cost: ResourceCost,
    ) -> ResourceCost {
        for (key, quantity, span) in written.entries() {
            let name = key.as_str();
            let place = format!("{owner}: `use.{name}`");
            let Some(wanted) = amount(quantity, span.clone(), &place, notes) else { continue };
            let request = Request { owner, quantity, wanted };
            match self.resources.get(name) {
                None => notes.mistake(self.no_resource(&request, key, notes)),
                Some(resource) => {
                    if let Some(mistake) = request.never_fits(resource, span) {
                        notes.mistake(mistake);
                    }
                }
            }
            cost = cost.with(name, wanted);
        }
        cost
    }

    fn no_resource(&self, request: &Request<'_>, key: &Key, notes: &Notes) -> Mistake {
        let name = key.as_str();
        let message = format!("{} uses `{name}`, which is not declared", request.owner);
        let help = notes.suggest(name, self.resources.keys().copied());
        let help = help.unwrap_or_else(|| {
            let amount = request.written();
            format!("say how much there is, under [resource]: {name} = {amount}, or more")
        });
        Mistake::new(key.span.clone(), message, "no such resource").help(help)
    }
}

/// What somebody asks for.
struct Request<'a> {
    owner: &'a str,
    quantity: &'a Quantity,
    wanted: Amount,
}

impl Request<'_> {
    /// As it could be written in the file.
    fn written(&self) -> String {
        match self.quantity {
            Quantity::Text(text) => format!("{text:?}"),
            _ => self.wanted.to_string(),
        }
    }

    /// An amount in the units of the request.
    fn shown(&self, amount: Amount) -> String {
        match self.quantity {
            Quantity::Text(_) => size_text(amount),
            _ => amount.to_string(),
        }
    }

    fn never_fits(&self, resource: &Resource, span: Range<usize>) -> Option<Mistake> {
        let (owner, name) = (self.owner, &resource.name);
        let wanted = self.shown(self.wanted);
        let whole = self.wanted.steps().is_multiple_of(Amount::from(1).steps());
        if !whole && !matches!(resource.kind, ResourceKind::Count(_)) {
            let message = format!("{owner} uses {wanted} of `{name}`, which comes in whole pieces");
            let help = "write a whole number";
            return Some(Mistake::new(span, message, "not a whole number").help(help));
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
        Some(Mistake::new(span, message, "more than there is").help(help))
    }
}

/// What every step has unless it says otherwise.
struct Defaults {
    uses: ResourceCost,
    priority: i64,
    timeout: Option<Duration>,
    grace: Option<Duration>,
    retry: Retry,
    env: BTreeMap<String, Template>,
    dir: Option<Template>,
    shell: Shell,
}

impl Defaults {
    fn new(file: &File, texts: &Texts<'_>, index: &Index<'_>) -> Self {
        let notes = texts.notes;
        let mut env = BTreeMap::new();
        environment(&file.env, &Scope::steps("`env`".to_owned()), texts, &mut env);
        let empty = Default::default();
        let table = file.defaults.value().unwrap_or(&empty);
        let scope = Scope::steps("`defaults`".to_owned());
        environment(&table.env, &scope, texts, &mut env);
        Self {
            uses: index.uses(&table.uses, "`defaults`", notes, ResourceCost::new()),
            priority: table.priority.value().copied().unwrap_or(0),
            timeout: some_time(&table.timeout, "`defaults.timeout`", notes),
            grace: any_time(&table.grace, "`defaults.grace`", notes),
            retry: retry(&table.retry, "`defaults`", notes).unwrap_or_default(),
            env,
            dir: dir(&table.dir, &scope, texts),
            shell: shell(&table.shell, "`defaults`", notes).unwrap_or_default(),
        }
    }
}

fn dir(written: &Given<String>, scope: &Scope<'_>, texts: &Texts<'_>) -> Option<Template> {
    let (text, span) = written.placed()?;
    if text.is_empty() {
        let message = format!("{} has an empty `dir`", scope.owner);
        let help = "leave `dir` out to run beside the workflow file";
        texts.notes.mistake(Mistake::new(span.clone(), message, "no directory").help(help));
    }
    let dir = texts.template(text, &span, scope, Unknown::Refuse);
    if dir.variables().any(|variable| *variable == Variable::Workspace) {
        let message = format!("{}: `dir` depends on `{{workspace}}`, which is `dir`", scope.owner);
        let help = "paths in `dir` begin at the directory of the workflow file by themselves";
        texts.notes.mistake(Mistake::new(span, message, "goes in a circle").help(help));
    }
    Some(dir)
}

fn retry(written: &Given<RetryTable>, owner: &str, notes: &Notes) -> Option<Retry> {
    let (table, span) = written.placed()?;
    if !table.count.is_given() {
        let message = format!("{owner}: its `retry` has no `count`");
        let help = "say how often to try again: retry = { count = 3 }";
        notes.mistake(Mistake::new(span, message, "not complete").help(help));
    }
    let never = Retry::default();
    let delay = any_time(&table.delay, &format!("{owner}: `retry.delay`"), notes);
    let delay = delay.unwrap_or(never.delay);
    let max_delay = some_time(&table.max_delay, &format!("{owner}: `retry.max_delay`"), notes);
    if let (Some(longest), Some((_, span))) = (max_delay, table.max_delay.placed())
        && longest < delay
    {
        let message = format!("{owner}: `retry.max_delay` is shorter than the delay, {delay:?}");
        let help = "make it at least as long, or set a shorter `delay`";
        notes.mistake(Mistake::new(span, message, "too short").help(help));
    }
    Some(Retry {
        count: table.count.value().copied().unwrap_or(0),
        backoff: table.backoff.value().copied().unwrap_or_default(),
        delay,
        max_delay,
        jitter: if table.jitter.value() == Some(&true) { Jitter::Full } else { Jitter::None },
        on_exit: table.on_exit.value().map(|codes| exit_codes(codes, owner, notes)),
    })
}

fn exit_codes(codes: &[Written<i64>], owner: &str, notes: &Notes) -> Vec<i32> {
    let mut all = Vec::new();
    for (&code, span) in codes.iter().filter_map(Written::placed) {
        match i32::try_from(code).ok().filter(|code| (1..=255).contains(code)) {
            Some(code) => all.push(code),
            None => {
                let message = format!("{owner}: `retry.on_exit` has {code}");
                let help = "a failed command exits with a code from 1 to 255";
                notes.mistake(Mistake::new(span, message, "no such exit code").help(help));
            }
        }
    }
    all
}

/// Reads what all the steps that one declared step stands for have in common.
struct StepReader<'a> {
    step: &'a DeclaredStep<'a>,
    scope: Scope<'a>,
    texts: &'a Texts<'a>,
    index: &'a Index<'a>,
    defaults: &'a Defaults,
}

impl StepReader<'_> {
    fn step(&self) -> Step {
        let Self { texts, scope, defaults, .. } = self;
        let (table, owner, notes) = (self.step.table, &scope.owner, texts.notes);
        let mut env = defaults.env.clone();
        environment(&table.env, scope, texts, &mut env);
        let shell = shell(&table.shell, owner, notes).unwrap_or_else(|| defaults.shell.clone());
        let aside = if shell.is_posix() { shell.clone() } else { Shell::default() };
        let when = table.when.placed();
        let time = |key: &str| format!("{owner}: `{key}`");
        Step {
            name: String::new(),
            declared: self.step.key.as_str().to_owned(),
            each: Vec::new(),
            run: self.run(&shell),
            after: Vec::new(),
            when: when.and_then(|(text, span)| script(text, span, scope, &aside, texts)),
            uses: self.index.uses(&table.uses, owner, notes, defaults.uses.clone()),
            locks: self.locks(),
            semaphores: self.semaphores(),
            guards: self.guards(&table.guard),
            ensures: self.guards(&table.ensure),
            priority: table.priority.value().copied().unwrap_or(defaults.priority),
            timeout: some_time(&table.timeout, &time("timeout"), notes).or(defaults.timeout),
            grace: any_time(&table.grace, &time("grace"), notes).or(defaults.grace),
            retry: retry(&table.retry, owner, notes).unwrap_or_else(|| defaults.retry.clone()),
            finally: command(&table.finally, scope, &aside, texts),
            env,
            dir: dir(&table.dir, scope, texts).or_else(|| defaults.dir.clone()),
        }
    }

    fn run(&self, shell: &Shell) -> Command {
        let table = self.step.table;
        if !table.run.is_given() {
            let message = format!("{} has no `run`", self.scope.owner);
            let help = "say what it runs: run = \"make all\"";
            let span = self.step.key.span.clone();
            self.texts.notes.mistake(Mistake::new(span, message, "not complete").help(help));
        }
        let run = command(&table.run, &self.scope, shell, self.texts);
        run.unwrap_or_else(|| Command::List(Vec::new()))
    }

    fn locks(&self) -> Vec<Template> {
        let mut locks: Vec<Template> = Vec::new();
        for (name, span) in names(&self.step.table.lock) {
            let owner = &self.scope.owner;
            if let Some(mistake) = shared_name_mistake(name, span.clone(), "lock") {
                self.texts.notes.mistake(mistake);
            }
            let lock = self.texts.template(name, &span, &self.scope, Unknown::Refuse);
            if locks.contains(&lock) {
                let message = format!("{owner} takes the lock `{name}` twice");
                let mistake = Mistake::new(span, message, "named above already");
                self.texts.notes.mistake(mistake.help("name it once"));
                continue;
            }
            locks.push(lock);
        }
        locks
    }

    fn semaphores(&self) -> Vec<Slots> {
        let mut all: Vec<Slots> = Vec::new();
        for (name, weight, place, span) in semaphore_uses(&self.step.table.semaphore) {
            let slots = self.slots(name, weight, place.clone(), span);
            let Some(slots) = slots else { continue };
            if all.iter().any(|known| known.semaphore == slots.semaphore) {
                let message = format!("{} names the semaphore `{name}` twice", self.scope.owner);
                let help = format!("say how many slots: semaphore = {{ {name} = 2 }}");
                let mistake = Mistake::new(place, message, "named above already");
                self.texts.notes.mistake(mistake.help(help));
                continue;
            }
            all.push(slots);
        }
        all
    }

    fn slots(
        &self,
        name: &str,
        weight: i64,
        place: Range<usize>,
        span: Range<usize>,
    ) -> Option<Slots> {
        let (owner, notes) = (&self.scope.owner, self.texts.notes);
        let Some(&(semaphore, declared)) = self.index.semaphores.get(name) else {
            let message = format!("{owner} uses the semaphore `{name}`, which is not declared");
            let help = notes.suggest(name, self.index.semaphores.keys().copied());
            let help = help.unwrap_or_else(|| {
                format!("declare it: [semaphore.{name}], and below: capacity = 4")
            });
            notes.mistake(Mistake::new(place, message, "no such semaphore").help(help));
            return None;
        };
        let capacity = declared.capacity;
        let fits = u32::try_from(weight).ok().filter(|weight| (1..=capacity).contains(weight));
        if fits.is_none() {
            let message = format!("{owner} takes {weight} slots of `{name}`, which has {capacity}");
            let help = format!("take from 1 to {capacity}");
            notes.mistake(Mistake::new(span, message, "could never be had").help(help));
        }
        fits.map(|weight| Slots { semaphore, weight })
    }

    fn guards(&self, written: &Given<Names>) -> Vec<usize> {
        let (owner, notes) = (&self.scope.owner, self.texts.notes);
        let mut all = Vec::new();
        for (name, span) in names(written) {
            let Some(&place) = self.index.guards.get(name) else {
                let message = format!("{owner} waits for the guard `{name}`, which does not exist");
                let help = notes.suggest(name, self.index.guards.keys().copied());
                let help = help.unwrap_or_else(|| {
                    format!("declare it: [guard.{name}], and below: condition = \"test -f ready\"")
                });
                notes.mistake(Mistake::new(span, message, "no such guard").help(help));
                continue;
            };
            if all.contains(&place) {
                let message = format!("{owner} names the guard `{name}` twice");
                let mistake = Mistake::new(span, message, "named above already");
                notes.mistake(mistake.help("name it once"));
                continue;
            }
            all.push(place);
        }
        all
    }
}

/// Each semaphore with the slots asked for, the place of its name and that of the number.
fn semaphore_uses(written: &Given<SemaphoreUse>) -> Vec<(&str, i64, Range<usize>, Range<usize>)> {
    match written.placed() {
        None => Vec::new(),
        Some((SemaphoreUse::One(name), span)) => vec![(name, 1, span.clone(), span)],
        Some((SemaphoreUse::List(list), _)) => {
            let names = list.iter().filter_map(Written::placed);
            names.map(|(name, span)| (name.as_str(), 1, span.clone(), span)).collect()
        }
        Some((SemaphoreUse::Table(table), _)) => {
            let entries = table.iter();
            entries
                .map(|(key, &weight, span)| (key.as_str(), weight, key.span.clone(), span))
                .collect()
        }
    }
}
