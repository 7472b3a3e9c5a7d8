//! `windlass graph`.

use std::error::Error;
use std::path::Path;

use windlass_workflow::{GraphFormat, graph as draw};

use crate::arguments::{Form, Format};
use crate::exit::Exit;
use crate::output::print;
use crate::style::{Letters, Style};
use crate::workflow_file::{WorkflowFile, named_or_default};

pub(crate) fn graph(
    path: Option<&Path>,
    format: Option<Format>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let Some(file) = WorkflowFile::parse(named_or_default(path)?, form)? else {
        return Ok(Exit::Usage);
    };
    let workflow = &file.workflow;
    // Warnings go to standard error, because standard output is for the graph.
    Form::Text.warn(&file.name, &workflow.warnings().for_run());
    if let Err(mistakes) = workflow.require_steps() {
        return Ok(form.refuse(&file.name, &mistakes));
    }
    let format = match format {
        Some(Format::Dot) => GraphFormat::Dot,
        Some(Format::Mermaid) => GraphFormat::Mermaid,
        Some(Format::Json) => GraphFormat::Json,
        None if form == Form::Json => GraphFormat::Json,
        Some(Format::Text) | None => match Style::of_stdout().letters {
            Letters::Unicode => GraphFormat::Text,
            Letters::Ascii => GraphFormat::Ascii,
        },
    };
    print(&draw(workflow.plan(), format));
    Ok(Exit::Success)
}
