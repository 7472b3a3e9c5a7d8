//! Plans values that several tables have: commands, shells, names, environments.

use std::collections::BTreeMap;
use std::ops::Range;

use super::scope::NameScope;
use super::texts::{TextReader, UnknownName};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{OneOrMany, Scalar};
use crate::script::{Command, Script, Shell};
use crate::shell::ShellText;
use crate::spanned::{Entries, Field, Spanned};
use crate::template::Template;

/// Returns a value as text.
pub(super) fn scalar_text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Integer(number) => number.to_string(),
        // `{:?}` keeps the decimal point of 1.0.
        Scalar::Float(number) => format!("{number:?}"),
        Scalar::Boolean(flag) => flag.to_string(),
    }
}

/// Returns the error for a number that exceeds the largest `u32`. `subject` names its key.
pub(super) fn too_large(number: i64, subject: &str, span: Range<usize>) -> Diagnostic {
    let message = format!("{subject} is {number}, which is too large");
    let help = format!("write {} or less", u32::MAX);
    Diagnostic::new(span, message, "too large").help(help)
}

/// Returns whether a text can be the name of a parameter or of an `each` variable.
pub(super) fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the command in a field; `shell` runs it if it is text.
pub(super) fn command(
    field: &Field<OneOrMany>,
    scope: &NameScope<'_>,
    shell: &Shell,
    texts: &TextReader<'_>,
) -> Option<Command> {
    let (entry, span) = field.with_span()?;
    let owner = &scope.owner;
    let empty = |span, help: &str| {
        let message = format!("{owner} has an empty command");
        texts.diagnostics.error(Diagnostic::new(span, message, "nothing to run").help(help));
    };
    match entry {
        OneOrMany::One(text) => {
            if text.trim().is_empty() {
                empty(span.clone(), "write what to run, or \"true\" to do nothing");
            }
            script(text, span, scope, shell, texts).map(Command::Script)
        }
        OneOrMany::Many(list) => {
            let arguments = arguments(list, scope, texts);
            // An entry that could not be deserialized has been reported already.
            let all_read = arguments.len() == list.len();
            if all_read && arguments.first().is_none_or(|program| program.parts().is_empty()) {
                empty(span, "write a program and its arguments, such as [\"make\", \"all\"]");
            }
            warn_of_one_word(list, scope, texts);
            Some(Command::List(arguments))
        }
    }
}

/// Warns of a whole command line in a list of its own, which would be the name of a program.
fn warn_of_one_word(list: &[Spanned<String>], scope: &NameScope<'_>, texts: &TextReader<'_>) {
    let [only] = list else { return };
    let Some((line, span)) = only.with_span() else { return };
    if !line.trim().contains(char::is_whitespace) || line.contains('/') {
        return;
    }
    let message = format!("{}: `{line}` is the name of a program here", scope.owner);
    let words: Vec<_> = line.split_whitespace().map(|word| format!("{word:?}")).collect();
    let help = format!("write one string for a shell, or a list of words: [{}]", words.join(", "));
    texts.diagnostics.warn(Diagnostic::new(span, message, "one word, with spaces").help(help));
}

/// Returns a program and its arguments. An argument of a shell may be shell text, in which `${v}` is one
/// of the shell's variables.
fn arguments(
    list: &[Spanned<String>],
    scope: &NameScope<'_>,
    texts: &TextReader<'_>,
) -> Vec<Template> {
    let program = list.first().and_then(|program| program.value.as_deref());
    let for_shell = program.is_some_and(|program| Shell::named(program).is_posix());
    let mut before = "";
    let mut arguments = Vec::new();
    for (text, span) in list.iter().filter_map(Spanned::with_span) {
        let argument = match for_shell {
            true => texts.foreign(text, span.clone(), scope),
            false => texts.template(text, &span, scope, UnknownName::Keep),
        };
        if for_shell && before.starts_with('-') && before.ends_with('c') {
            warn_of_code(&argument, span, scope, texts);
        }
        before = text;
        arguments.push(argument);
    }
    arguments
}

/// Warns of a placeholder in shell text that is an argument. There the value is inserted without quoting,
/// so the shell would run it.
fn warn_of_code(
    text: &Template,
    span: Range<usize>,
    scope: &NameScope<'_>,
    texts: &TextReader<'_>,
) {
    let Some(variable) = text.variables().next() else { return };
    let message = format!("{}: the value of `{{{variable}}}` becomes shell code here", scope.owner);
    let help = format!(
        "write `run` as one string, in which values are quoted, or pass the value as an argument: \
         \"echo \\\"$1\\\"\", \"-\", \"{{{variable}}}\""
    );
    texts.diagnostics.warn(Diagnostic::new(span, message, "the shell runs the value").help(help));
}

/// Parses text for a shell.
pub(super) fn script(
    text: &str,
    span: Range<usize>,
    scope: &NameScope<'_>,
    shell: &Shell,
    texts: &TextReader<'_>,
) -> Option<Script> {
    let text = match shell.is_posix() {
        true => texts.shell(text, span, scope)?,
        false => foreign_text(text, span, scope, shell, texts)?,
    };
    Some(Script { shell: shell.clone(), text })
}

/// Parses text for an interpreter whose quoting is not known, where every placeholder is an error.
fn foreign_text(
    text: &str,
    span: Range<usize>,
    scope: &NameScope<'_>,
    shell: &Shell,
    texts: &TextReader<'_>,
) -> Option<ShellText> {
    let read = texts.foreign(text, span.clone(), scope);
    let Some(variable) = read.variables().next() else {
        let (source, variables) = (text.to_owned(), Vec::new());
        return Some(ShellText { text: read.fill(|_| None).ok()?, source, variables });
    };
    let message = format!("{} uses `{{{variable}}}` in text for `{}`", scope.owner, shell.program);
    let help = format!(
        "values can be quoted only for a POSIX shell; pass this one in a variable, \
         env = {{ VALUE = \"{{{variable}}}\" }}, or write `run` as a list; {{{{{variable}}}}} is the text {{{variable}}}"
    );
    let label = "not text for a POSIX shell";
    texts.diagnostics.error(Diagnostic::new(span, message, label).help(help));
    None
}

/// Returns the shell in a field.
pub(super) fn shell(
    field: &Field<OneOrMany>,
    owner: &str,
    diagnostics: &Diagnostics,
) -> Option<Shell> {
    let (entry, span) = field.with_span()?;
    let shell = match entry {
        OneOrMany::One(text) => Shell::named(text),
        OneOrMany::Many(list) => {
            let mut words = list.iter().filter_map(|word| word.value.clone());
            Shell { program: words.next().unwrap_or_default(), arguments: words.collect() }
        }
    };
    if shell.program.is_empty() {
        let message = format!("{owner} has an empty `shell`");
        let help = "write \"sh\", \"bash\", or a list such as [\"bash\", \"-c\"]";
        diagnostics.error(Diagnostic::new(span, message, "no program").help(help));
    }
    Some(shell)
}

/// Returns each name in a field with its span.
pub(super) fn names(field: &Field<OneOrMany>) -> Vec<(&str, Range<usize>)> {
    field.with_span().map(|(names, span)| names.with_spans(span)).unwrap_or_default()
}

/// Adds the variables of a table to `env`; they replace those of the same name.
pub(super) fn environment(
    field: &Field<Entries<Scalar>>,
    scope: &NameScope<'_>,
    texts: &TextReader<'_>,
    env: &mut BTreeMap<String, Template>,
) {
    for (key, scalar, span) in field.entries() {
        check_env_name(key.as_str(), key.span.clone(), &scope.owner, texts.diagnostics);
        let value = match scalar {
            Scalar::Text(text) => texts.template(text, &span, scope, UnknownName::Keep),
            other => Template::literal(scalar_text(other)),
        };
        env.insert(key.as_str().to_owned(), value);
    }
}

/// Checks that an environment variable can have this name.
pub(super) fn check_env_name(
    name: &str,
    span: Range<usize>,
    owner: &str,
    diagnostics: &Diagnostics,
) {
    let (message, help) = if name.starts_with("WINDLASS_") {
        let message = format!("{owner} has `{name}`, which is reserved");
        (message, "windlass sets the variables that begin with WINDLASS_")
    } else if name.is_empty() || name.contains(|c: char| c == '=' || c == '\0' || c.is_whitespace())
    {
        let message = format!("{owner}: {name:?} cannot be the name of an environment variable");
        (message, "use letters, digits and _, such as BUILD_MODE")
    } else {
        return;
    };
    diagnostics.error(Diagnostic::new(span, message, "invalid name").help(help));
}
