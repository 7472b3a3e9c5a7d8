//! `windlass schema`.

use std::error::Error;

use crate::exit::Exit;
use crate::output::print;

pub(crate) fn schema() -> Result<Exit, Box<dyn Error>> {
    // A closed pipe, such as that of `head`, is no failure.
    print(&format!("{}\n", windlass_workflow::json_schema()));
    Ok(Exit::Success)
}
