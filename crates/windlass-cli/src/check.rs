//! `windlass check`.

use std::error::Error;
use std::path::Path;

use crate::arguments::Form;
use crate::exit::Exit;
use crate::workflow_file::WorkflowFile;

pub(crate) fn check(
    path: &Path,
    params: &[(String, String)],
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let Some(file) = WorkflowFile::open(path, form)? else {
        return Ok(Exit::Usage);
    };
    let workflow = &file.workflow;
    if !params.is_empty() {
        workflow.bind(params.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    }
    if form == Form::Text {
        let steps = workflow.plan().steps.len();
        let noun = if steps == 1 { "step" } else { "steps" };
        eprintln!("{}: {steps} {noun}, no mistakes", file.called());
    }
    Ok(Exit::Success)
}
