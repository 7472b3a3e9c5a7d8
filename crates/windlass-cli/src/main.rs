//! The windlass command: arguments in, text and JSON out.

mod arguments;
mod check;
mod exit;
mod graph;
mod init;
mod lock;
mod run;
mod schema;
mod state;
mod workflow_file;

use clap::Parser;

use crate::arguments::{Arguments, Verb};
use crate::exit::Exit;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let state = arguments.state.as_deref();
    let exit = match &arguments.verb {
        Verb::Run { file } => run::run(state, file, arguments.json),
        Verb::Resume { run } => run::resume(state, run, arguments.json),
        Verb::Check { file, params } => check::check(file, params, arguments.json.into()),
        Verb::Graph { file, format } => graph::graph(file, *format, arguments.json.into()),
        Verb::Schema => schema::schema(),
        Verb::Init => init::init(),
        Verb::Lock { names, wait, command } => lock::lock(state, names, *wait, command),
    };
    exit.unwrap_or_else(|failure| {
        eprintln!("windlass: {failure}");
        Exit::from(&*failure)
    })
    .into()
}
