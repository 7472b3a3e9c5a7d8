//! Braces: which of them are placeholders, and whether a value is safe in their context.

use std::ops::Range;

use super::{Frame, Lexer, is_word};
use crate::shell::{MisplacedValue, ShellContext, ShellResolver};
use crate::template::{Brace, brace};
use crate::variable::Variable;

impl<N: ShellResolver> Lexer<'_, '_, N> {
    /// Replaces the placeholder here, or rejects it in an unsafe context; copies any other brace.
    pub(super) fn placeholder(&mut self, reference: fn(&str) -> String) {
        let Some((variable, range)) = self.variable() else { return };
        if let Some(context) = self.unsafe_context() {
            return self.reject(range, context);
        }
        self.cursor.out.push_str(&reference(&variable.environment_name()));
        self.cursor.at = range.end;
        if !self.variables.contains(&variable) {
            self.variables.push(variable);
        }
    }

    /// Rejects the placeholder here; copies any other brace.
    pub(super) fn misplaced_placeholder(&mut self, context: ShellContext) {
        if let Some((_, range)) = self.variable() {
            self.reject(range, context);
        }
    }

    /// Returns the variable and the range of the placeholder here; copies any other brace.
    fn variable(&mut self) -> Option<(Variable, Range<usize>)> {
        match brace(self.cursor.text, self.cursor.at, self.resolver) {
            Brace::Single(name) => {
                let range = self.cursor.at..self.cursor.at + name.len() + 2;
                let variable = self.resolver.resolve(name, range.clone());
                if variable.is_none() {
                    self.copy_char();
                }
                return variable.map(|variable| (variable, range));
            }
            // Not within `${ }`, where the remaining closing brace would end the expansion.
            Brace::Doubled(name) if !self.frames.contains(&Frame::Parameter) => {
                self.cursor.at += 1;
                self.copy(name.len() + 2);
                self.cursor.at += 1;
            }
            Brace::Plain | Brace::Dollar(_) | Brace::Doubled(_) => self.copy_char(),
        }
        None
    }

    /// Rejects the placeholder here and continues after it.
    fn reject(&mut self, range: Range<usize>, context: ShellContext) {
        self.copy(range.len());
        self.reject_at(range, context);
    }

    pub(super) fn reject_at(&mut self, range: Range<usize>, context: ShellContext) {
        self.rejected = true;
        let name = self.cursor.text[range.start + 1..range.end - 1].to_owned();
        self.resolver.reject(MisplacedValue { name, range, context });
    }

    fn unsafe_context(&self) -> Option<ShellContext> {
        let frames = self.frames.iter().find_map(|frame| match frame {
            Frame::Parameter => Some(ShellContext::Parameter),
            Frame::Arithmetic { .. } => Some(ShellContext::Arithmetic),
            Frame::Backquotes => Some(ShellContext::Backquotes),
            // Bash ends the here-document at this line also inside an expansion, other shells do not.
            Frame::HereDocument { end, .. } if *end <= self.cursor.at => {
                Some(ShellContext::HereDocumentEnd)
            }
            Frame::Command { .. } | Frame::Double | Frame::HereDocument { .. } => None,
        });
        let outer = self.outer.iter().find_map(|(_, context)| *context);
        frames.or(self.doubt).or(outer).or_else(|| self.unsafe_word())
    }

    /// Returns what makes the current word of a command unsafe for a value.
    pub(super) fn unsafe_word(&self) -> Option<ShellContext> {
        let Some(Frame::Command { parens, .. }) = self.frames.last() else { return None };
        if self.duplicated == Some(self.word) {
            return Some(ShellContext::Duplication);
        }
        let list = if *parens > 0 { ArrayLiteral::Possible } else { ArrayLiteral::None };
        let word = self.cursor.text[self.word..self.cursor.at].replace("\\\n", "");
        is_subscript(&word, list).then_some(ShellContext::Subscript)
    }

    pub(super) fn quoted(name: &str) -> String {
        format!("\"${{{name}}}\"")
    }

    pub(super) fn in_double(name: &str) -> String {
        format!("${{{name}}}")
    }

    pub(super) fn in_single(name: &str) -> String {
        format!("'\"${{{name}}}\"'")
    }
}

/// Whether a word may be part of an array literal, as in `a=([1]=x)`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayLiteral {
    None,
    Possible,
}

/// Returns whether the word so far is an open subscript, as in `a[`, or `[` in an array literal.
fn is_subscript(word: &str, list: ArrayLiteral) -> bool {
    let Some((name, index)) = word.split_once('[') else { return false };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let resolver =
        begins && name.chars().all(is_word) || name.is_empty() && list == ArrayLiteral::Possible;
    resolver && !index.contains(']')
}
