//! The windlass command: arguments in, text and JSON out.

mod arguments;
mod exit;
mod lock;
mod run;
mod state;

use clap::Parser;

use crate::arguments::{Arguments, Verb};
use crate::exit::Exit;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let state = arguments.state.as_deref();
    let exit = match &arguments.verb {
        Verb::Run { file } => run::run(state, file, arguments.json),
        Verb::Resume { run } => run::resume(state, run, arguments.json),
        Verb::Lock { names, wait, command } => lock::lock(state, names, *wait, command),
    };
    exit.unwrap_or_else(|failure| {
        eprintln!("windlass: {failure}");
        Exit::from(&*failure)
    })
    .into()
}
