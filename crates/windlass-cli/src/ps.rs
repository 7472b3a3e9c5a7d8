//! `windlass ps` and `windlass history`: lists of runs.

use std::error::Error;
use std::path::Path;

use windlass_server::{Listed, RunState, RunView, Store, history as ended_runs, open_runs};

use crate::arguments::{Form, HistoryArguments};
use crate::exit::Exit;
use crate::look::{RunJson, not_taken, outcome_ink, run_ink, running_shown};
use crate::output::print;
use crate::state;
use crate::style::{Ink, Style, plain};
use crate::table::{Cell, Table};
use crate::times::{Times, between, span};
use crate::why::first_wait;

/// The maximum number of names.
const NAMED: usize = 3;

pub(crate) fn ps(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let runs = open_runs(&mut store)?;
    let dir = state::dir(state)?.display().to_string();
    match form {
        Form::Json => {
            let line = |run| RunJson::listed(run, &dir).line();
            print(&runs.iter().map(line).collect::<String>());
        }
        Form::Text => {
            let times = Times::now();
            let mut table = Table::new(["RUN", "WORKFLOW", "STATE", "STEPS", "FOR", "NOW"]);
            runs.iter().for_each(|run| table.row(open_row(&mut store, run, &times)));
            show(&table, "no runs are running or interrupted");
            eprintln!("store: {}", plain(&dir));
        }
    }
    Ok(Exit::Success)
}

pub(crate) fn history(
    state: Option<&Path>,
    arguments: &HistoryArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let HistoryArguments { workflow, number } = arguments;
    let runs = ended_runs(&mut state::look(state)?, workflow.as_deref(), *number)?;
    match form {
        Form::Json => {
            let line = |(run, end): &(_, _)| RunJson::ended(run, *end).line();
            print(&runs.iter().map(line).collect::<String>());
        }
        // The user has asked for no rows.
        Form::Text if *number == 0 => {}
        Form::Text => {
            let times = Times::now();
            let mut table = Table::new(["RUN", "WORKFLOW", "OUTCOME", "BEGAN", "TOOK"]);
            for (run, end) in &runs {
                table.row([
                    Cell::from(&run.id),
                    Cell::from(&run.workflow),
                    Cell::inked(end.outcome.word(), outcome_ink(end.outcome)),
                    Cell::from(times.ago(run.created_ms)),
                    Cell::from(span(between(run.created_ms, end.at_ms))),
                ]);
            }
            let of = workflow.as_ref().map(|workflow| format!(" of {workflow:?}"));
            show(&table, &format!("no finished runs{}", plain(&of.unwrap_or_default())));
        }
    }
    Ok(Exit::Success)
}

fn show<const N: usize>(table: &Table<N>, empty: &str) {
    if table.is_empty() {
        eprintln!("{empty}");
    } else {
        print(&table.render(&Style::of_stdout()));
    }
}

fn open_row(store: &mut Store, run: &Listed, times: &Times) -> [Cell; 6] {
    let (id, workflow) = (Cell::from(&run.id), Cell::from(&run.workflow));
    let since = Cell::from(span(times.since(run.created_ms)));
    let Ok(view) = &run.view else {
        let state = Cell::inked("unreadable", Some(Ink::Red));
        let note = Cell::from(format!("see why: windlass show {}", run.id));
        return [id, workflow, state, Cell::default(), since, note];
    };
    let now = match view.state {
        RunState::Interrupted => format!("windlass resume {}", run.id),
        RunState::Queued { scheduler: Some(pid) } => not_taken(pid),
        RunState::Queued { .. } => "no scheduler is running: windlass serve".to_owned(),
        RunState::Paused { .. } => {
            now(view).unwrap_or_else(|| format!("windlass unpause {}", run.id))
        }
        _ => now(view).unwrap_or_else(|| {
            let wait = first_wait(store, &run.id, times);
            wait.map(|wait| format!("waiting: {wait}")).unwrap_or_default()
        }),
    };
    let state = Cell::inked(view.state.word(), run_ink(view.state));
    let steps = Cell::from(format!("{}/{}", view.done(), view.steps.len()));
    [id, workflow, state, steps, since, Cell::from(now)]
}

/// Returns the running steps and those that wait at guards; none if there are none.
fn now(view: &RunView) -> Option<String> {
    if let Some(hook) = view.end_hook() {
        return Some(format!("hook {hook}"));
    }
    let (running, guarded) = (running_shown(view), view.guarded());
    let waits: Vec<_> =
        guarded.iter().map(|(step, guard)| format!("{step} (guard {guard})")).collect();
    match (running.as_slice(), waits.as_slice()) {
        ([], []) => None,
        (running, []) => Some(names(running)),
        ([], waits) => Some(format!("waiting: {}", names(waits))),
        (running, waits) => Some(format!("{}; waiting: {}", names(running), names(waits))),
    }
}

/// Returns the first names, and the number of the others.
pub(crate) fn names(all: &[impl AsRef<str>]) -> String {
    let named: Vec<_> = all.iter().take(NAMED).map(AsRef::as_ref).collect();
    let named = named.join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
