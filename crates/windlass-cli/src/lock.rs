//! `windlass lock`.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use windlass_server::{Hold, hold};

use crate::exit::Exit;
use crate::state;

pub(crate) fn lock(
    state: Option<&Path>,
    names: &[String],
    wait: Option<Duration>,
    command: &[OsString],
) -> Result<Exit, Box<dyn Error>> {
    let order = Hold { names: names.to_vec(), wait, command: command.to_vec() };
    Ok(Exit::Command(hold(state::open(state)?, &order)?))
}
