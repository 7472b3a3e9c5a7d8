//! `windlass check`.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde::Serialize;
use windlass_workflow::Plan;

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::workflow_file::{WorkflowFile, named_or_default};

/// Checks each file, and returns the worst exit code.
pub(crate) fn check(
    files: &[PathBuf],
    params: &[(String, String)],
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    if files.is_empty() {
        return check_one(named_or_default(None)?, params, form);
    }
    let exits = files.iter().map(|file| {
        check_one(file, params, form).unwrap_or_else(|failure| Exit::report(&*failure))
    });
    Ok(exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Success))
}

fn check_one(path: &Path, params: &[(String, String)], form: Form) -> Result<Exit, Box<dyn Error>> {
    let Some(file) = WorkflowFile::check(path, form)? else {
        return Ok(Exit::Usage);
    };
    let workflow = &file.workflow;
    if !params.is_empty() {
        workflow.bind(params.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    }
    let plan = workflow.plan();
    match form {
        Form::Json => {
            let (steps, guards) = (plan.steps.len(), plan.guards.len());
            print(&json("checked", &Checked { file: &file.name, steps, guards }));
        }
        Form::Text => eprintln!("{}: {}, no errors", file.called(), size(plan)),
    }
    Ok(Exit::Success)
}

/// A file without errors, for programs.
#[derive(Serialize)]
struct Checked<'a> {
    file: &'a str,
    steps: usize,
    guards: usize,
}

/// Returns the number of steps, or of guards if the file has no steps.
fn size(plan: &Plan) -> String {
    match (plan.steps.len(), plan.guards.len()) {
        (0, 1) => "1 guard".to_owned(),
        (0, guards) => format!("{guards} guards"),
        (1, _) => "1 step".to_owned(),
        (steps, _) => format!("{steps} steps"),
    }
}
