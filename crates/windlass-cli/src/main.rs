//! The windlass command: arguments in, text and JSON out.

mod arguments;
mod check;
mod clean;
mod display;
mod events;
mod exit;
mod graph;
mod guard;
mod holders;
mod init;
mod lock;
mod primitive;
mod run;
mod schema;
mod state;
#[allow(dead_code, reason = "the verbs that look at runs follow")]
mod style;
#[allow(dead_code, reason = "the verbs that look at runs follow")]
mod times;
mod workflow_file;

use std::io::{self, Write};

use clap::Parser;
use windlass_server::Verdict;

use crate::arguments::{Arguments, Form, Verb};
use crate::exit::Exit;
use crate::run::RunArguments;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let state = arguments.state.as_deref();
    let form = Form::from(arguments.json);
    let shown = run::Shown { mode: arguments.output, form };
    let exit = match &arguments.verb {
        Verb::Run { file, steps, params, jobs } => {
            let order = RunArguments { file, steps, params, jobs: *jobs };
            run::run(state, &order, shown)
        }
        Verb::Retry { run, steps } => run::retry(state, run, steps, shown),
        Verb::Cancel { target } => run::cancel(state, target, shown),
        Verb::Resume { run } => run::resume(state, run, shown),
        Verb::Check { file, params } => check::check(file, params, form),
        Verb::Graph { file, format } => graph::graph(file, *format, form),
        Verb::Schema => schema::schema(),
        Verb::Init => init::init(),
        Verb::Lock(lock) => lock::lock(state, lock, form),
        Verb::Sem(sem) => lock::sem(state, sem, form),
        Verb::Guard { file, name, params, wait } => {
            guard::guard(state, file, name, params, *wait, form)
        }
        Verb::Approve { target } => guard::verdict(state, target, Verdict::Approve),
        Verb::Reject { target } => guard::verdict(state, target, Verdict::Reject),
        Verb::Emit { event } => events::emit(state, event, form),
        Verb::Events { patterns, follow, after } => {
            events::events(state, patterns, *after, *follow, form)
        }
        Verb::Holders => holders::holders(state, form),
    };
    exit.unwrap_or_else(|failure| {
        // Whoever has closed the stream still gets the exit code.
        let _ = writeln!(io::stderr(), "windlass: {failure}");
        Exit::from(&*failure)
    })
    .into()
}
