//! `windlass run` and `windlass resume`: leads a run, and has it shown.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_server::{Coordinator, End, Store, unsupported};

use crate::arguments::Form;
use crate::display::{Display, Options, Outline, OutputMode, Verb};
use crate::exit::Exit;
use crate::state;
use crate::workflow_file::WorkflowFile;

/// How a run is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) mode: OutputMode,
    pub(crate) form: Form,
}

impl Shown {
    fn options(self, verb: Verb, store: &Store) -> Options {
        let Shown { mode, form } = self;
        Options { verb, mode, form, past: store.opener() }
    }
}

pub(crate) fn run(state: Option<&Path>, file: &Path, shown: Shown) -> Result<Exit, Box<dyn Error>> {
    let Some(WorkflowFile { name, text, workflow }) = WorkflowFile::open(file, shown.form)? else {
        return Ok(Exit::Usage);
    };
    let plan = match workflow.bind([]) {
        Ok(plan) => plan,
        Err(errors) => {
            eprintln!("windlass: {errors}");
            eprintln!("  `run` takes no -p yet: give each parameter a default in the file");
            return Ok(Exit::Usage);
        }
    };
    unsupported(&plan)?;
    let dir = working_dir(file)?;
    let store = state::open(state)?;
    let options = shown.options(Verb::Run, &store);
    lead(Coordinator::submit(store, &name, &text, plan, &dir)?, options)
}

pub(crate) fn resume(
    state: Option<&Path>,
    run: &str,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let store = state::open(state)?;
    let options = shown.options(Verb::Resume, &store);
    lead(Coordinator::resume(store, run)?, options)
}

/// Steps run beside their workflow file, wherever the command was called.
fn working_dir(file: &Path) -> io::Result<PathBuf> {
    let beside = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    fs::canonicalize(beside.unwrap_or(Path::new(".")))
}

fn lead(coordinator: Coordinator, options: Options) -> Result<Exit, Box<dyn Error>> {
    let display = Display::start(Outline::of(&coordinator), options)?;
    let end = coordinator.lead(|change| display.tell(change))?;
    display.end(end);
    Ok(match end {
        End::Succeeded => Exit::Success,
        End::Failed => Exit::Failed,
        End::TooLate => Exit::TimedOut,
        End::Interrupted { signal } => Exit::Signal(signal),
    })
}
