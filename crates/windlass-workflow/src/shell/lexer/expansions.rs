//! Expansions: `$…`, `${ }`, arithmetic and backquotes.

use super::{Frame, Lexer};
use crate::shell::{ShellContext, ShellResolver};

impl<N: ShellResolver> Lexer<'_, '_, N> {
    pub(super) fn dollar(&mut self) {
        self.check_operator();
        let rest = self.rest();
        let substitution = Frame::Command { substitution: true, parens: 0, cases: Vec::new() };
        if rest.starts_with("$$") {
            self.copy(2);
        } else if rest.starts_with("$((") {
            self.push(Frame::Arithmetic { parens: 2 }, 3);
        } else if rest.starts_with("$(") {
            self.push(substitution, 2);
        } else if rest.starts_with("${") {
            self.push(Frame::Parameter, 2);
        } else if rest.starts_with("$[") {
            // Bash evaluates arithmetic up to a `]`; other shells read two literal characters.
            self.doubt = self.doubt.or(Some(ShellContext::Brackets));
            self.copy(2);
        } else if rest.starts_with("$'") && self.is_command() {
            self.ansi_quotes();
        } else {
            self.copy_char();
            self.after_dollar = Some(self.cursor.at);
        }
    }

    /// Copies `$'…'`. Shells that support it read `\'` as a quote inside, others as the end.
    fn ansi_quotes(&mut self) {
        self.copy(2);
        let end = self.rest().find('\'').map_or(self.cursor.text.len(), |end| self.cursor.at + end);
        while self.cursor.at < end {
            match self.rest().starts_with('{') {
                true => self.misplaced_placeholder(ShellContext::AnsiQuotes),
                false => self.copy_char(),
            }
        }
        if self.cursor.text[..end].ends_with('\\') {
            self.doubt = self.doubt.or(Some(ShellContext::AnsiQuotes));
        }
        self.copy(1);
    }

    fn is_command(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Command { .. }))
    }

    pub(super) fn parameter(&mut self) {
        let rest = self.rest();
        match rest.as_bytes()[0] {
            b'}' => self.pop(),
            b'\\' if rest.starts_with("\\{") && self.is_within_double() => self.backslash(),
            b'\\' => self.copy(2),
            b'"' => self.push(Frame::Double, 1),
            b'\'' if !self.is_within_double() => self.single(),
            b'`' => self.push(Frame::Backquotes, 1),
            b'$' => self.dollar(),
            b'{' => self.placeholder(Self::in_double),
            _ => self.copy_char(),
        }
    }

    /// Returns whether the innermost `${ }` is in double quotes, where a single quote is literal.
    fn is_within_double(&self) -> bool {
        let outer = self.frames.iter().rev().find(|frame| **frame != Frame::Parameter);
        matches!(outer, Some(Frame::Double | Frame::HereDocument { .. }))
    }

    pub(super) fn arithmetic(&mut self) {
        match self.rest().as_bytes()[0] {
            b'(' => self.count_parens(1),
            b')' => self.count_parens(-1),
            b'"' => self.push(Frame::Double, 1),
            b'\'' => self.single(),
            b'\\' => self.copy(2),
            b'`' => self.push(Frame::Backquotes, 1),
            b'$' => self.dollar(),
            b'{' => self.placeholder(Self::in_double),
            _ => self.copy_char(),
        }
    }

    fn count_parens(&mut self, change: i32) {
        let Some(Frame::Arithmetic { parens }) = self.frames.last_mut() else { return };
        *parens = parens.saturating_add_signed(change);
        if *parens > 0 {
            return self.copy_char();
        }
        self.check_arithmetic();
        self.pop();
    }

    /// Doubts the frames after `((a) b)`, and after every `((…))` without a dollar: shells may read these
    /// as subshells, in which a here-document, a comment or a `case` changes what the rest means.
    fn check_arithmetic(&mut self) {
        let (before, inside) = self.cursor.text[..self.cursor.at].split_at(self.word);
        let is_arithmetic = before.ends_with("$((") && inside.ends_with(')');
        if !is_arithmetic && ["<<", "#", "case"].iter().any(|text| inside.contains(text)) {
            self.doubt = self.doubt.or(Some(ShellContext::DoubleParentheses));
        }
    }

    pub(super) fn backquotes(&mut self) {
        match self.rest().as_bytes()[0] {
            b'`' => self.pop(),
            b'\\' => self.copy(2),
            b'{' => self.placeholder(Self::in_double),
            _ => self.copy_char(),
        }
    }
}
