//! `windlass init`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};

use serde::Serialize;
use thiserror::Error as ThisError;

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::workflow_file::DEFAULT as FILE;

const TEXT: &str = include_str!("starter.toml");

/// Why no file was written.
#[derive(Debug, ThisError)]
pub(crate) enum InitError {
    #[error("{FILE} already exists; nothing was written")]
    Exists,
    #[error("cannot write {FILE}: {0}")]
    Io(io::Error),
}

/// The file that was written, for programs.
#[derive(Serialize)]
struct Written {
    file: &'static str,
}

pub(crate) fn init(form: Form) -> Result<Exit, Box<dyn Error>> {
    let mut file = File::create_new(FILE).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists,
        _ => InitError::Io(error),
    })?;
    file.write_all(TEXT.as_bytes()).map_err(InitError::Io)?;
    match form {
        Form::Json => print(&json("written", &Written { file: FILE })),
        Form::Text => eprintln!("wrote {FILE}; edit it, then run it with: windlass run"),
    }
    Ok(Exit::Success)
}
