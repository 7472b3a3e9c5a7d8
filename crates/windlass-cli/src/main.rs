//! The windlass command: arguments in, text and JSON out.

// First, because the other modules use its macro.
#[macro_use]
mod messages;

mod approve;
mod arguments;
mod check;
mod clean;
mod completions;
mod diagnostics;
mod display;
mod doctor;
mod events;
mod exit;
mod graph;
mod guard;
mod hand_over;
mod holder;
mod holders;
mod init;
mod limits;
mod lock;
mod log;
mod look;
mod man;
mod output;
mod primitive;
mod prune;
mod ps;
mod queue;
mod reach;
mod run;
mod schema;
mod serve;
mod service;
mod show;
mod state;
mod store;
mod style;
mod submit;
mod table;
mod times;
mod units;
mod why;
mod worker;
mod workers;
mod workflow_file;

use std::error::Error;
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;
use windlass_server::{Pause, Verdict};

use crate::arguments::{Arguments, Form, OutputArguments, Verb};
use crate::exit::Exit;

fn main() -> ExitCode {
    // The panic has printed its message.
    panic::catch_unwind(call).unwrap_or(Exit::Bug).into()
}

/// Makes a write beyond the limit on file sizes fail instead of ending the process. Commands inherit an
/// ignored signal, but not a handler.
fn survive_full_files() {
    // The tests kill a run in the middle of a write with this signal.
    if cfg!(windlass_faults) {
        return;
    }
    // If this fails, the signal ends the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

fn call() -> Exit {
    survive_full_files();
    completions::answer_shell();
    let exit = match Arguments::of_process() {
        Ok(arguments) => carry_out(&arguments),
        Err(exit) => exit,
    };
    let Some(why) = output::failure() else { return exit };
    eprintln!("windlass: cannot write to standard output: {why}");
    if exit == Exit::Success { Exit::Unavailable } else { exit }
}

/// Carries out the verb, and reports its failure.
fn carry_out(arguments: &Arguments) -> Exit {
    let state = arguments.state.as_deref().map(Path::new);
    call_verb(state, arguments).unwrap_or_else(|failure| {
        let exit = Exit::report(&*failure);
        if let (true, Ok(dir)) = (exit::depends_on_store(&*failure), state::dir(state)) {
            let store = messages::printable(&dir.display().to_string());
            // The exit code counts even if the caller has closed the stream.
            let _ = writeln!(io::stderr(), "  store: {store}");
        }
        exit
    })
}

fn call_verb(state: Option<&Path>, arguments: &Arguments) -> Result<Exit, Box<dyn Error>> {
    reach::check(state, &arguments.verb)?;
    let form = Form::from(arguments.json);
    let shown = |output: &OutputArguments| run::Shown { mode: output.mode, form };
    match &arguments.verb {
        Verb::Run { run, detach: true, .. } => submit::detach(state, run, form),
        Verb::Run { run, output, .. } => run::run(state, run, shown(output)),
        Verb::Submit(submit) => submit::submit(state, submit, form),
        Verb::Workers { verb } => workers::workers(state, verb.as_ref(), form),
        Verb::Attach { run, output } => run::attach(state, run, shown(output)),
        Verb::Wait(wait) => submit::wait(state, wait, form),
        Verb::Add(add) => queue::add(state, add, form),
        Verb::Edit(edit) => queue::edit(state, edit, form),
        Verb::Move(to) => queue::move_step(state, to, form),
        Verb::Remove(remove) => queue::remove(state, remove, form),
        Verb::Queue(queue) => queue::queue(state, queue, form),
        Verb::Serve(serve) => serve::serve(state, serve, form),
        Verb::Worker(worker) => worker::worker(state, worker, form),
        Verb::Retry { run, steps, detach: true, .. } => hand_over::retry(state, run, steps, form),
        Verb::Retry { run, steps, output, .. } => run::retry(state, run, steps, shown(output)),
        Verb::Cancel { target, output } => run::cancel(state, target, shown(output)),
        Verb::Pause { target, stop } => {
            let pause = if *stop { Pause::Halt } else { Pause::Begin };
            run::pause(state, target, pause, form)
        }
        Verb::Unpause { target } => run::pause(state, target, Pause::End, form),
        Verb::Resume { all: true, .. } => hand_over::resume_all(state, form),
        Verb::Resume { run, detach: true, .. } => hand_over::resume(state, run.as_deref(), form),
        Verb::Resume { run, output, .. } => run::resume(state, run.as_deref(), shown(output)),
        Verb::Check { files, params } => check::check(files, params, form),
        Verb::Graph { file, format } => graph::graph(file.as_deref(), *format, form),
        Verb::Schema => schema::schema(),
        Verb::Init => init::init(form),
        Verb::Lock(lock) => lock::lock(state, lock, form),
        Verb::Sem(sem) => lock::sem(state, sem, form),
        Verb::Limits(limits) => limits::limits(state, limits, form),
        Verb::Guard { file, name, params, wait } => {
            guard::guard(state, file, name, params, *wait, form)
        }
        Verb::Approve { target } => approve::verdict(state, target, Verdict::Approve, form),
        Verb::Reject { target } => approve::verdict(state, target, Verdict::Reject, form),
        Verb::Emit { event } => events::emit(state, event, form),
        Verb::Events { patterns, follow, all, after } => {
            let from = events::FirstEvent::of(*after, *follow && !*all);
            events::events(state, patterns, from, *follow, form)
        }
        Verb::Doctor => doctor::doctor(state, form),
        Verb::Ps => ps::ps(state, form),
        Verb::History(history) => ps::history(state, history, form),
        Verb::Show(show) => show::show(state, show, form),
        Verb::Log(log) => log::log(state, log, form),
        Verb::Why(why) => why::why(state, why, form),
        Verb::Prune(prune) => prune::prune(state, prune, form),
        Verb::Completions { shell } => completions::completions(*shell),
        Verb::Man(man) => man::man(man),
        Verb::Holders { name } => holders::holders(state, name.as_deref(), form),
        Verb::Store(store) => store::store(state, arguments.system, store, form),
    }
}
