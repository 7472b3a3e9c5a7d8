//! `windlass schema`.

use std::error::Error;
use std::io::{self, Write};

use crate::exit::Exit;

pub(crate) fn schema() -> Result<Exit, Box<dyn Error>> {
    // A closed pipe, as of `head`, is no failure.
    let _ = writeln!(io::stdout(), "{}", windlass_workflow::json_schema());
    Ok(Exit::Success)
}
