//! Shell text with `{…}` in it, rewritten so that a value never becomes shell text.
//!
//! Each `{v}` is replaced by a reference to an environment variable that carries the value, quoted
//! for its place: `"${…}"` bare, `${…}` inside double quotes and here-documents, and with the
//! single quotes closed and opened again around it. Where no quoting can keep a value from being
//! read as something else, `{v}` is refused. `${v}` is the shell's own wherever it stands, and
//! `{{v}}` writes `{v}`. Knows the quoting of POSIX shells, and nothing of their grammar.

mod lexer;
mod plain;

use std::ops::Range;

use thiserror::Error;

use crate::template::Resolver;
use crate::variable::Variable;

pub use self::plain::plain_words;

/// Shell text that refers to its values by environment variables.
///
/// ```
/// use windlass_workflow::{ShellText, Variable};
///
/// let known = |name: &str| (name == "env").then(|| Variable::Param(name.to_owned()));
/// let text = ShellText::parse("test {env} = prod && echo \"to {env}\"", known)?;
/// assert_eq!(
///     text.text(),
///     r#"test "${WINDLASS_V_env}" = prod && echo "to ${WINDLASS_V_env}""#
/// );
/// assert_eq!(text.variables(), [Variable::Param("env".to_owned())]);
/// # Ok::<(), windlass_workflow::MisplacedValue>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellText {
    pub(crate) text: String,
    pub(crate) source: String,
    pub(crate) variables: Vec<Variable>,
}

impl ShellText {
    /// Rewrites a text. A `{name}` that is not `known` is left as it is; the first one that
    /// cannot have a value where it stands is the error.
    pub fn parse(
        text: &str,
        known: impl FnMut(&str) -> Option<Variable>,
    ) -> Result<Self, MisplacedValue> {
        let mut names = FirstRefused { known, refused: None };
        let rewritten = Self::parse_with(text, &mut names);
        rewritten.ok_or_else(|| names.refused.expect("a text without refusals is rewritten"))
    }

    /// As [`ShellText::parse`]; `names` is told of every `{name}` that is refused.
    pub(crate) fn parse_with(text: &str, names: &mut impl ShellResolver) -> Option<Self> {
        lexer::rewrite(text, names)
    }

    /// The text to hand to the shell.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text as it was written, to show to people.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What must be in the environment, each under its
    /// [`environment_name`](Variable::environment_name).
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }
}

/// What the names in shell text refer to, and what happens to those that are refused.
pub(crate) trait ShellResolver: Resolver {
    /// A name that was looked up stands where no value can.
    fn refuse(&mut self, misplaced: MisplacedValue);
}

struct FirstRefused<K> {
    known: K,
    refused: Option<MisplacedValue>,
}

impl<K: FnMut(&str) -> Option<Variable>> Resolver for FirstRefused<K> {
    fn resolve(&mut self, name: &str, _: Range<usize>) -> Option<Variable> {
        (self.known)(name)
    }

    fn is_known(&mut self, name: &str) -> bool {
        (self.known)(name).is_some()
    }
}

impl<K: FnMut(&str) -> Option<Variable>> ShellResolver for FirstRefused<K> {
    fn refuse(&mut self, misplaced: MisplacedValue) {
        self.refused.get_or_insert(misplaced);
    }
}

/// A `{v}` stands where its value could be read as something else than a value.
///
/// ```
/// use windlass_workflow::{ShellContext, ShellText, Variable};
///
/// let known = |name: &str| Some(Variable::Param(name.to_owned()));
/// let misplaced = ShellText::parse("echo `date {v}`", known).unwrap_err();
/// assert_eq!(misplaced.range, 11..14);
/// assert_eq!(misplaced.place, ShellContext::Backquotes);
/// assert_eq!(misplaced.place.advice(), "write $( ) in place of the backquotes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{{{name}}}` stands {place}")]
pub struct MisplacedValue {
    /// What stands between the braces.
    pub name: String,
    /// Where in the text, braces included.
    pub range: Range<usize>,
    /// In what.
    pub place: ShellContext,
}

/// Where in shell text no value can be put in safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShellContext {
    /// `${ … }`.
    #[error("inside `${{ }}`")]
    Parameter,
    /// `$(( … ))` or `(( … ))`, where a shell may run what a value says.
    #[error("inside an arithmetic expression")]
    Arithmetic,
    /// `a[ … ]`, which is read as an arithmetic expression.
    #[error("inside an array's index")]
    Subscript,
    /// Backquotes.
    #[error("inside backquotes")]
    Backquotes,
    /// A here-document whose delimiter is quoted: the shell replaces nothing there.
    #[error("in a here-document whose end mark is quoted")]
    QuotedHereDocument,
    /// The end mark of a here-document.
    #[error("in the end mark of a here-document")]
    EndMark,
    /// `$'…'`, or behind it: not every shell reads it alike.
    #[error("in or behind `$'…'`, which not every shell knows")]
    AnsiQuotes,
    /// `$[ … ]`, or behind it: an arithmetic expression in some shells.
    #[error("in or behind `$[ ]`, which not every shell knows")]
    Brackets,
    /// Behind `>&`, where bash expands a value once more.
    #[error("behind `>&`, where bash reads a value as shell text")]
    Duplication,
    /// Behind a `case` inside `$( )`, whose parentheses cannot be told apart.
    #[error("behind a `case` inside `$( )`")]
    CaseInSubstitution,
}

impl ShellContext {
    /// What to write instead.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            ShellContext::Backquotes => "write $( ) in place of the backquotes",
            ShellContext::QuotedHereDocument => {
                "leave out the quotes around the end mark, or write {{name}} for the text {name}"
            }
            ShellContext::EndMark => "use a fixed word as the end mark",
            ShellContext::Brackets => "write $(( )) for arithmetic, and \\$[ for the text $[",
            ShellContext::Duplication => "write > {name} 2>&1 in place of >& {name}",
            ShellContext::CaseInSubstitution => {
                "write the patterns of `case` with both parentheses, as in (a)"
            }
            ShellContext::Arithmetic | ShellContext::Subscript => {
                "some shells run commands found in a value here; check that it is a number first: \
                 n={name}; case $n in *[!0-9]*) exit 1;; esac"
            }
            _ => "put the value into a shell variable first: value={name}, and use $value here",
        }
    }
}

#[cfg(test)]
mod tests;
