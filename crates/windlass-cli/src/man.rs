//! `windlass man`: manual pages, generated from the arguments.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use thiserror::Error as ThisError;

use crate::arguments::{Arguments, ManArguments};
use crate::exit::Exit;
use crate::output::print;

/// Why the pages cannot be written.
#[derive(Debug, ThisError)]
#[error("cannot write manual pages to {dir}: {source}", dir = dir.display())]
pub(crate) struct ManError {
    dir: PathBuf,
    source: io::Error,
}

pub(crate) fn man(arguments: &ManArguments) -> Result<Exit, Box<dyn Error>> {
    let command = Arguments::command();
    match &arguments.dir {
        None => print(&page(command)?),
        Some(dir) => {
            let written = write_all(command, dir);
            written.map_err(|source| ManError { dir: dir.clone(), source })?;
        }
    }
    Ok(Exit::Success)
}

fn page(command: Command) -> io::Result<String> {
    let mut roff = Vec::new();
    Man::new(command).manual("Windlass").render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

/// Writes the page of the command and one for each verb.
fn write_all(command: Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(command, dir)
}
