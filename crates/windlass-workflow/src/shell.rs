//! Shell text with placeholders, rewritten so that no value can become shell code.
//!
//! Each `{v}` is replaced by a reference to an environment variable that holds the value, quoted for
//! its context: `"${…}"` outside quotes, `${…}` in double quotes and here-documents, `'"${…}"'` in single
//! quotes. In a context where no quoting is safe, `{v}` is an error. `${v}` is always the shell's own
//! variable, and `{{v}}` is the text `{v}`. Knows the quoting of POSIX shells, not their grammar.

mod lexer;
mod plain;

use std::ops::Range;

use thiserror::Error;

use crate::template::Resolver;
use crate::variable::Variable;

pub use self::plain::plain_words;

/// Shell text that refers to its values through environment variables.
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
    /// Rewrites a text. A `{name}` that is not `known` stays as it is.
    ///
    /// # Errors
    ///
    /// Returns the first known `{name}` in a context where no quoting is safe.
    pub fn parse(
        text: &str,
        known: impl FnMut(&str) -> Option<Variable>,
    ) -> Result<Self, MisplacedValue> {
        let mut resolver = FirstMisplaced { known, rejected: None };
        let rewritten = Self::parse_with(text, &mut resolver);
        rewritten
            .ok_or_else(|| resolver.rejected.expect("a text without misplaced values is rewritten"))
    }

    /// Rewrites a text. Passes every misplaced `{name}` to `resolver`, and returns none if there is one.
    pub(crate) fn parse_with(text: &str, resolver: &mut impl ShellResolver) -> Option<Self> {
        lexer::rewrite(text, resolver)
    }

    /// Returns the text for the shell.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text as it is in the file, to show to users.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the variables that the shell needs in its environment, each under its
    /// [`environment_name`](Variable::environment_name).
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }
}

/// Resolves the names in shell text, and learns of those that are misplaced.
pub(crate) trait ShellResolver: Resolver {
    /// Is called for a resolved name in a context where no quoting is safe.
    fn reject(&mut self, misplaced: MisplacedValue);
}

struct FirstMisplaced<K> {
    known: K,
    rejected: Option<MisplacedValue>,
}

impl<K: FnMut(&str) -> Option<Variable>> Resolver for FirstMisplaced<K> {
    fn resolve(&mut self, name: &str, _: Range<usize>) -> Option<Variable> {
        (self.known)(name)
    }

    fn is_known(&mut self, name: &str) -> bool {
        (self.known)(name).is_some()
    }
}

impl<K: FnMut(&str) -> Option<Variable>> ShellResolver for FirstMisplaced<K> {
    fn reject(&mut self, misplaced: MisplacedValue) {
        self.rejected.get_or_insert(misplaced);
    }
}

/// A `{v}` in a context where no quoting is safe.
///
/// ```
/// use windlass_workflow::{ShellContext, ShellText, Variable};
///
/// let known = |name: &str| Some(Variable::Param(name.to_owned()));
/// let misplaced = ShellText::parse("echo `date {v}`", known).unwrap_err();
/// assert_eq!(misplaced.range, 11..14);
/// assert_eq!(misplaced.context, ShellContext::Backquotes);
/// assert_eq!(misplaced.context.advice(), "write $( ) in place of the backquotes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{{{name}}}` is {context}")]
pub struct MisplacedValue {
    /// The name between the braces.
    pub name: String,
    /// Its range in the text, braces included.
    pub range: Range<usize>,
    /// The context that makes it unsafe.
    pub context: ShellContext,
}

/// A context in shell text where no quoting of a value is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShellContext {
    /// `${ … }`.
    #[error("inside `${{ }}`")]
    Parameter,
    /// `$(( … ))` or `(( … ))`, where some shells run commands in a value.
    #[error("inside an arithmetic expression")]
    Arithmetic,
    /// `a[ … ]`, which shells evaluate as arithmetic.
    #[error("inside an array's index")]
    Subscript,
    /// Backquotes.
    #[error("inside backquotes")]
    Backquotes,
    /// A here-document whose delimiter is quoted, in which the shell expands nothing.
    #[error("in a here-document whose delimiter is quoted")]
    QuotedHereDocument,
    /// The delimiter of a here-document.
    #[error("in the delimiter of a here-document")]
    Delimiter,
    /// In or after a here-document that some shells end elsewhere than others.
    #[error("in or after a here-document whose end differs between shells")]
    HereDocumentEnd,
    /// After `((…))` that some shells read as two subshells.
    #[error("after `((`, which some shells read as two subshells")]
    DoubleParentheses,
    /// `$'…'`, or after it: shells differ on where it ends.
    #[error("in or after `$'…'`, which not every shell supports")]
    AnsiQuotes,
    /// `$[ … ]`, or after it: arithmetic in some shells only.
    #[error("in or after `$[ ]`, which not every shell supports")]
    Brackets,
    /// After `>&`, where bash expands a value a second time.
    #[error("after `>&`, where bash evaluates the value")]
    Duplication,
    /// After an operator or a keyword that a line continuation splits.
    #[error("after an operator or a keyword that a backslash and a line break split")]
    SplitOperator,
    /// After a `case` inside `$( )`, whose parentheses may be unbalanced.
    #[error("after a `case` inside `$( )`")]
    CaseInSubstitution,
}

impl ShellContext {
    /// Returns what to write instead.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            ShellContext::Backquotes => "write $( ) in place of the backquotes",
            ShellContext::QuotedHereDocument => {
                "remove the quotes around the delimiter, or write {{name}} for the text {name}"
            }
            ShellContext::SplitOperator => "write the operator or the keyword on one line",
            ShellContext::Delimiter => "use a fixed word as the delimiter",
            ShellContext::HereDocumentEnd => {
                "use a plain word such as EOF as the delimiter, write it on a line of its own before any \
                 closing parenthesis, and end the line before it without a backslash"
            }
            ShellContext::DoubleParentheses => "write ( ( for subshells, and $(( )) for arithmetic",
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
