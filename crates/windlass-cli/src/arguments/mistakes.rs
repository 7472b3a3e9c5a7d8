//! Errors in the command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Subcommand};
use windlass_server::{Name, check_name};

use super::Arguments;
use super::holding::LockPrimitive;
use super::instead;
use crate::exit::Exit;
use crate::messages::{printable, quoted};
use crate::output;

/// Returns the words that are for windlass itself, not for a command behind `--`.
pub(super) fn own_words(words: &[OsString]) -> impl Iterator<Item = &OsString> {
    words.iter().skip(1).take_while(|word| *word != "--")
}

/// Prints the help, or the error. An error quotes arguments, so it is cut to a length that can be read and
/// cleared of what would change the terminal.
pub(super) fn print_error(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        output::note(error.print().and_then(|()| io::stdout().flush()));
        return Exit::Success;
    }
    let said = error.render().to_string();
    let printable = printable(&said);
    if printable == said.trim_end() {
        // The exit code counts even if the caller has closed the stream.
        let _ = error.print();
    } else {
        eprintln!("{printable}");
    }
    Exit::Usage
}

/// Rebuilds an error as if no variable were set: the usage below an error lists all arguments that were
/// given, and must not list values of variables.
pub(super) fn without_variables(error: clap::Error, words: &[OsString]) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    if let Some((verb, instead)) = foreign_option(&error, words) {
        return verb_error(verb, ErrorKind::UnknownArgument, instead);
    }
    if let Some(reserved) = reserved_name(&error, words) {
        return Arguments::command().error(ErrorKind::InvalidValue, reserved);
    }
    let unset = |arg: Arg| arg.env(None::<&'static str>);
    let verb = |verb: Command| verb.mut_args(unset);
    let command = Arguments::command().mut_args(unset).mut_subcommands(verb);
    let mut error = match command.try_get_matches_from(words) {
        Err(plain) if plain.kind() == error.kind() => plain,
        _ => error,
    };
    if error.kind() == ErrorKind::UnknownArgument {
        // The tip would be to put the option behind `--`. There it would be a file, a run or a command.
        error.remove(ContextKind::Suggested);
    }
    if let Some(tip) = foreign_verb(&error) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if lacks_separator(&error, words) {
        let tip = match verb_of(words) {
            Some("add") => "put the command after `--`, as in: windlass add -- make",
            _ => "put the command after `--`, as in: windlass lock deploy -- ./deploy.sh",
        };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        if let Some(ContextValue::String(given)) = error.get(kind) {
            let given = quoted(given);
            error.insert(kind, ContextValue::String(given));
        }
    }
    error
}

/// Returns the verb, and what to use instead, if it was given an option that only other tools have.
fn foreign_option<'a>(error: &clap::Error, words: &'a [OsString]) -> Option<(&'a str, String)> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let verb = verb_of(words).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let instead = instead::of_option(verb, given)?;
    Some((verb, format!("`windlass {verb}` has no option {given}: {instead}")))
}

/// Returns what to use in place of a verb that only other tools have, or of a file without a verb.
fn foreign_verb(error: &clap::Error) -> Option<String> {
    let ContextValue::String(given) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    match instead::of_verb(given) {
        Some(instead) => Some(instead.to_owned()),
        None if Path::new(given).is_file() => {
            Some(format!("to run a workflow file: windlass run {given}"))
        }
        None => None,
    }
}

/// Returns the verb of a command line.
fn verb_of(words: &[OsString]) -> Option<&str> {
    let mut own = own_words(words);
    while let Some(word) = own.next() {
        match word.to_str() {
            Some("--state") => drop(own.next()),
            Some(word) if !word.starts_with('-') => return Some(word),
            _ => {}
        }
    }
    None
}

/// Returns an error with the usage of `verb`.
fn verb_error(verb: &str, kind: ErrorKind, message: String) -> clap::Error {
    let mut command = Arguments::command();
    command.build();
    command.find_subcommand_mut(verb).expect("it is a verb").error(kind, message)
}

/// Returns why a lock or semaphore cannot have the name of a primitive, if the user seems to have tried:
/// no primitive takes a command behind `--`.
fn reserved_name(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::MissingRequiredArgument];
    let verb = words.iter().position(|word| word == "lock" || word == "sem")?;
    let (name, rest) = words.get(verb + 1..)?.split_first()?;
    let name = name.to_str().filter(|name| LockPrimitive::has_subcommand(name))?;
    if !kinds.contains(&error.kind()) || !rest.iter().any(|word| word == "--") {
        return None;
    }
    let why = check_name(&Name::Lock(name.to_owned())).err()?;
    Some(why.to_string())
}

/// Returns whether a wrapper seems to have been given its command without `--`: the command is missing,
/// or one of its options is taken for the wrapper's.
fn lacks_separator(error: &clap::Error, words: &[OsString]) -> bool {
    let is_wrapper = matches!(verb_of(words), Some("lock" | "sem" | "add"));
    match error.kind() {
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => {
                missing.iter().any(|arg| arg.contains("COMMAND"))
            }
            _ => false,
        },
        ErrorKind::UnknownArgument => is_wrapper && !words.iter().any(|word| word == "--"),
        _ => false,
    }
}
