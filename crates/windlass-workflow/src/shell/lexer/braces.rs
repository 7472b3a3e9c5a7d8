//! Braces: which of them begin a value, and whether a value can stand there.

use std::ops::Range;

use super::{Frame, Lexer, is_word};
use crate::shell::{MisplacedValue, ShellContext, ShellResolver};
use crate::template::{Brace, brace};
use crate::variable::Variable;

impl<N: ShellResolver> Lexer<'_, '_, N> {
    /// A brace where a value can stand, unless a frame says otherwise.
    pub(super) fn placeholder(&mut self, reference: fn(&str) -> String) {
        let Some((variable, range)) = self.value() else { return };
        if let Some(place) = self.unsafe_place() {
            return self.refuse(range, place);
        }
        self.out.push_str(&reference(&variable.environment_name()));
        self.at = range.end;
        if !self.variables.contains(&variable) {
            self.variables.push(variable);
        }
    }

    /// A brace where no value can stand.
    pub(super) fn no_placeholder(&mut self, place: ShellContext) {
        if let Some((_, range)) = self.value() {
            self.refuse(range, place);
        }
    }

    /// Returns what the `{v}` refers to that stands here, and its range; copies the brace if it
    /// begins something else.
    fn value(&mut self) -> Option<(Variable, Range<usize>)> {
        match brace(self.text, self.at, self.names) {
            Brace::Single(name) => {
                let range = self.at..self.at + name.len() + 2;
                let variable = self.names.resolve(name, range.clone());
                if variable.is_none() {
                    self.copy_char();
                }
                return variable.map(|variable| (variable, range));
            }
            // Within `${ }` the brace that is left could end it, and the lexer would lose its place.
            Brace::Doubled(name) if !self.frames.contains(&Frame::Parameter) => {
                self.at += 1;
                self.copy(name.len() + 2);
                self.at += 1;
            }
            Brace::Plain | Brace::Dollar(_) | Brace::Doubled(_) => self.copy_char(),
        }
        None
    }

    /// Refuses the `{v}` that stands here, and goes on behind it.
    fn refuse(&mut self, range: Range<usize>, place: ShellContext) {
        self.copy(range.len());
        self.refuse_at(range, place);
    }

    pub(super) fn refuse_at(&mut self, range: Range<usize>, place: ShellContext) {
        self.refused = true;
        let name = self.text[range.start + 1..range.end - 1].to_owned();
        self.names.refuse(MisplacedValue { name, range, place });
    }

    fn unsafe_place(&self) -> Option<ShellContext> {
        let frames = self.frames.iter().find_map(|frame| match frame {
            Frame::Parameter => Some(ShellContext::Parameter),
            Frame::Arithmetic { .. } => Some(ShellContext::Arithmetic),
            Frame::Backquotes => Some(ShellContext::Backquotes),
            Frame::Command { .. } | Frame::Double | Frame::HereDocument(_) => None,
        });
        let outer = self.outer.iter().find_map(|(_, place)| *place);
        frames.or(self.doubt).or(outer).or_else(|| self.unsafe_word())
    }

    /// What keeps a value out of the present word of a command.
    pub(super) fn unsafe_word(&self) -> Option<ShellContext> {
        let Some(Frame::Command { parens, .. }) = self.frames.last() else { return None };
        if self.duplicated == Some(self.word) {
            return Some(ShellContext::Duplication);
        }
        let list = if *parens > 0 { ArrayLiteral::Possible } else { ArrayLiteral::None };
        is_subscript(&self.text[self.word..self.at], list).then_some(ShellContext::Subscript)
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

/// Whether a word can stand in a list that is assigned to an array, as in `a=([1]=x)`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayLiteral {
    None,
    Possible,
}

/// Whether the word so far is a name with an open bracket, as in `a[`, or a bracket in a list.
fn is_subscript(word: &str, list: ArrayLiteral) -> bool {
    let Some((name, index)) = word.split_once('[') else { return false };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let names =
        begins && name.chars().all(is_word) || name.is_empty() && list == ArrayLiteral::Possible;
    names && !index.contains(']')
}
