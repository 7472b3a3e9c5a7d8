//! Resolves the names in one text, and reports those that cannot have a value there.

use std::ops::Range;

use super::{TextReader, UnknownName};
use crate::diagnostic::Diagnostic;
use crate::planner::scope::NameScope;
use crate::shell::{MisplacedValue, ShellResolver};
use crate::template::Resolver;
use crate::variable::Variable;

pub(super) struct TextResolver<'a> {
    pub(super) texts: &'a TextReader<'a>,
    pub(super) text: &'a str,
    /// The span of the text in the file.
    pub(super) span: Range<usize>,
    pub(super) scope: &'a NameScope<'a>,
    pub(super) consumer: Consumer,
}

/// What reads a text after its placeholders are replaced.
#[derive(Clone, Copy)]
pub(super) enum Consumer {
    /// A shell or another interpreter, which may have a variable `${v}` of its own.
    Interpreter,
    /// Windlass itself, or a program that gets the text as an argument.
    Windlass(UnknownName),
}

impl TextResolver<'_> {
    fn span_of(&self, range: Range<usize>) -> Range<usize> {
        self.texts.span_within(&self.span, self.text, range)
    }
}

impl Resolver for TextResolver<'_> {
    fn resolve(&mut self, name: &str, range: Range<usize>) -> Option<Variable> {
        let unknown = match self.consumer {
            Consumer::Interpreter => UnknownName::Keep,
            Consumer::Windlass(unknown) => unknown,
        };
        self.texts.variable(name, self.span_of(range), self.scope, unknown)
    }

    fn is_known(&mut self, name: &str) -> bool {
        self.texts.is_known(name, self.scope)
    }

    fn dollar_name(&mut self, name: &str, range: Range<usize>) {
        if matches!(self.consumer, Consumer::Interpreter) || !self.is_known(name) {
            return;
        }
        let message = format!("{}: `${{{name}}}` is not replaced", self.scope.owner);
        let help = format!("write {{{name}}} for the value");
        let warning = Diagnostic::new(self.span_of(range), message, "not a placeholder");
        self.texts.diagnostics.warn(warning.help(help));
    }
}

impl ShellResolver for TextResolver<'_> {
    fn reject(&mut self, misplaced: MisplacedValue) {
        let message = format!("{}: {misplaced}", self.scope.owner);
        let MisplacedValue { name, range, context } = misplaced;
        let help = context.advice().replace("{name}", &format!("{{{name}}}"));
        let error = Diagnostic::new(self.span_of(range), message, "no quoting is safe here");
        self.texts.diagnostics.error(error.help(help));
    }
}
