//! `windlass show`: one run, its steps, its timeline and its critical path.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::{CriticalPath, RunState, RunView, StepState, StepView};

use crate::arguments::{Form, ShowArguments, StepTarget};
use crate::exit::Exit;
use crate::look::{RunJson, StepJson, ending, not_taken, run_ink, step_ink, took};
use crate::output::{json, print};
use crate::state;
use crate::style::{Letters, Style, plain};
use crate::table::{Cell, Table};
use crate::times::{Times, between, span};

mod svg;
mod timeline;

/// The number of steps up to which all are shown.
const ALL: usize = 50;
/// The number of steps that are named at each end of a long critical path.
const ENDS: usize = 4;
/// The shortest time at guards that is shown.
const TOLD_MS: i64 = 100;

/// Why the picture cannot be written.
#[derive(Debug, ThisError)]
#[error("cannot write the picture to {path}: {source}")]
pub(crate) struct PictureError {
    path: String,
    source: std::io::Error,
}

pub(crate) fn show(
    state: Option<&Path>,
    arguments: &ShowArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let StepTarget { run, step } = &arguments.target;
    let view = RunView::find(&mut state::look(state)?, run)?;
    let only = step.as_deref().map(|step| view.places(step)).transpose()?;
    let path = CriticalPath::of(&view);
    if let Some(file) = &arguments.svg {
        let written = fs::write(file, svg::draw(&view, &path));
        written.map_err(|source| PictureError { path: file.display().to_string(), source })?;
    }
    match form {
        Form::Json => print(&lines(&view, &path, only.as_deref())),
        Form::Text => {
            let style = Style::of_stdout();
            let page = Page { view: &view, path: &path, style: &style, times: &Times::now() };
            print(&match &only {
                Some(places) => page.of_steps(places),
                None => page.text(arguments.all),
            });
        }
    }
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct PathJson<'a> {
    run: &'a str,
    steps: Vec<&'a str>,
    ms: i64,
    guarded_ms: i64,
}

fn lines(view: &RunView, path: &CriticalPath, only: Option<&[usize]>) -> String {
    let mut lines = RunJson::of(view).line();
    let line = |step: &StepView| StepJson::of(view, step).line();
    if let Some(places) = only {
        lines.extend(places.iter().map(|place| line(&view.steps[*place])));
        return lines;
    }
    lines.extend(view.steps.iter().map(line));
    let steps = path.steps.iter().map(|place| view.steps[*place].name.as_str()).collect();
    let (run, ms, guarded_ms) = (view.run.id.as_str(), path.total_ms, path.guarded_ms);
    lines + &json("critical_path", &PathJson { run, steps, ms, guarded_ms })
}

/// A run on a page of text.
struct Page<'a> {
    view: &'a RunView,
    path: &'a CriticalPath,
    style: &'a Style,
    times: &'a Times,
}

impl Page<'_> {
    fn text(&self, all: bool) -> String {
        let (shown, hidden) = self.chosen(all);
        let mut text = self.header();
        text.push('\n');
        text += &self.table(&shown);
        if !hidden.is_empty() {
            text += &self.style.dim(&rest(&hidden));
            text.push('\n');
        }
        text + &self.timeline(&shown) + &self.critical_path()
    }

    /// Returns the page of these steps only.
    fn of_steps(&self, places: &[usize]) -> String {
        let steps: Vec<_> = places.iter().map(|place| &self.view.steps[*place]).collect();
        format!("{}\n{}{}", self.header(), self.table(&steps), self.timeline(&steps))
    }

    fn timeline(&self, steps: &[&StepView]) -> String {
        let begun: Vec<_> =
            steps.iter().copied().filter(|step| !step.attempts.is_empty()).collect();
        match begun.is_empty() {
            true => String::new(),
            false => format!("\n{}", timeline::draw(self.view, &begun, self.style)),
        }
    }

    fn header(&self) -> String {
        let Self { view, style, times, .. } = self;
        let state = run_ink(view.state)
            .map_or(view.state.word().to_owned(), |ink| style.paint(ink, view.state.word()));
        let mut text =
            format!("run {}: {} {state}\n", style.bold(&view.run.id), plain(&view.workflow));
        let mut line = |name: &str, value: String| {
            text += &format!("  {}  {value}\n", style.dim(&format!("{name:<6}")));
        };
        line("file", plain(&view.run.file));
        line("dir", plain(&view.run.dir.display().to_string()));
        for (name, value) in &view.run.params {
            line("param", plain(&format!("{name}={value}")));
        }
        if !view.run.steps.is_empty() {
            line("only", plain(&view.run.steps.join(", ")));
        }
        line("began", times.exactly(view.created_ms));
        let (name, value) = self.end();
        line(name, value);
        text
    }

    fn end(&self) -> (&'static str, String) {
        let Self { view, times, .. } = self;
        match view.state {
            RunState::Ended(end) => {
                let took = span(between(view.created_ms, end.at_ms));
                ("ended", format!("{}, after {took}", times.exactly(end.at_ms)))
            }
            RunState::Interrupted => ("next", format!("windlass resume {}", view.run.id)),
            RunState::Paused { .. } => ("next", format!("windlass unpause {}", view.run.id)),
            RunState::Queued { scheduler: Some(pid) } => ("next", not_taken(pid)),
            RunState::Queued { .. } => {
                ("next", "no scheduler is running; start one with: windlass serve".to_owned())
            }
            _ => ("so far", span(times.since(view.created_ms))),
        }
    }

    /// Returns the steps to show and those to count. Of many steps, the active, failed and slow ones are
    /// shown.
    fn chosen(&self, all: bool) -> (Vec<&StepView>, Vec<&StepView>) {
        let steps = &self.view.steps;
        if all || steps.len() <= ALL {
            return (steps.iter().collect(), Vec::new());
        }
        let critical: BTreeSet<_> = self.path.steps.iter().copied().collect();
        let notable = |place: usize, step: &StepView| {
            let plain = matches!(
                step.state,
                StepState::Waiting | StepState::Success | StepState::Skipped | StepState::Blocked
            );
            !plain || step.attempts.len() > 1 || critical.contains(&place)
        };
        let (shown, hidden): (Vec<_>, Vec<_>) =
            steps.iter().enumerate().partition(|(place, step)| notable(*place, step));
        let bare = |steps: Vec<(usize, _)>| steps.into_iter().map(|(_, step)| step).collect();
        (bare(shown), bare(hidden))
    }

    fn table(&self, steps: &[&StepView]) -> String {
        let mut table = Table::new(["STEP", "STATE", "TRIES", "TIME", "NOTE"]);
        for step in steps {
            table.row([
                Cell::from(&step.name),
                Cell::inked(step.state.word(), step_ink(step.state)),
                Cell::from(tries(step)),
                Cell::from(took(step, self.view.now_ms).unwrap_or_default()),
                Cell::from(self.note(step)),
            ]);
        }
        table.render(self.style)
    }

    /// Returns what to say about a step besides its state.
    fn note(&self, step: &StepView) -> String {
        let last = step.unbegun.as_ref().or(step.attempts.last());
        let ended = last.map(ending).unwrap_or_default();
        match step.state {
            StepState::Retrying { at_ms } => {
                let again = format!("next attempt {}", self.times.ahead(at_ms));
                if ended.is_empty() { again } else { format!("{ended}; {again}") }
            }
            _ if step.is_finishing() && ended.is_empty() => "finally runs".to_owned(),
            _ if step.is_finishing() => format!("{ended}; finally runs"),
            _ => ended,
        }
    }

    fn critical_path(&self) -> String {
        let CriticalPath { steps, total_ms, .. } = self.path;
        if steps.is_empty() {
            return String::new();
        }
        let (arrow, gap) = match self.style.letters {
            Letters::Unicode => (" → ", "…"),
            Letters::Ascii => (" -> ", "..."),
        };
        let step = |place: &usize| {
            let step = &self.view.steps[*place];
            let guarded = step.guarded_ms.filter(|ms| *ms >= TOLD_MS);
            let guarded = guarded.map(|ms| format!("{} at its guards", span(between(0, ms))));
            let times: Vec<_> = guarded.into_iter().chain(took(step, self.view.now_ms)).collect();
            let times = format!("({})", times.join(", "));
            format!("{} {}", plain(&step.name), self.style.dim(&times))
        };
        let chain: Vec<_> = match steps.len().saturating_sub(2 * ENDS) {
            0 | 1 => steps.iter().map(step).collect(),
            more => {
                let (begin, end) = (&steps[..ENDS], &steps[steps.len() - ENDS..]);
                let gap = format!("{gap} {more} more {gap}");
                begin.iter().map(step).chain([gap]).chain(end.iter().map(step)).collect()
            }
        };
        let total = span(between(0, *total_ms));
        format!("\ncritical path, {total}: {}\n", chain.join(arrow))
    }
}

fn tries(step: &StepView) -> String {
    match (step.attempts.len(), step.most_attempts) {
        (0, _) => String::new(),
        (tries, 1 | u32::MAX) => tries.to_string(),
        (tries, most) => format!("{tries}/{most}"),
    }
}

fn rest(hidden: &[&StepView]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in hidden {
        *counts.entry(step.state.word()).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    format!("and {} more steps: {}; --all shows them", hidden.len(), counts.join(", "))
}
