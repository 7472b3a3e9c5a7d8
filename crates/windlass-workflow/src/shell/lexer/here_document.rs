//! Here-documents: their operators, bodies and end marks.

use std::ops::Range;

use super::{Frame, Lexer};
use crate::shell::{ShellContext, ShellResolver};
use crate::template::{Brace, brace};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    mark: String,
    /// Whether tabs before the end mark do not count.
    dashed: bool,
    pub(super) body: HereDocumentBody,
}

/// What the shell does with the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HereDocumentBody {
    /// It is like double quotes.
    Expanding,
    /// The end mark is quoted, so nothing is replaced.
    Literal,
}

impl<N: ShellResolver> Lexer<'_, '_, N> {
    /// `<<` and the end mark behind it.
    pub(super) fn here_operator(&mut self) {
        self.copy(2);
        let dashed = self.rest().starts_with('-');
        self.copy(usize::from(dashed));
        let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        self.copy(blanks);
        let word = self.rest();
        let end = mark_length(word);
        let written = &word[..end];
        self.check_mark(self.at..self.at + end);
        self.copy(end);
        let quote = |c: char| matches!(c, '\'' | '"' | '\\');
        let body = if written.contains(quote) {
            HereDocumentBody::Literal
        } else {
            HereDocumentBody::Expanding
        };
        self.pending.push_back(HereDocument { mark: written.replace(quote, ""), dashed, body });
    }

    pub(super) fn here_document(&mut self, body: HereDocumentBody) {
        if self.rest().starts_with('\n') {
            self.copy_char();
            return self.end_mark();
        }
        if body == HereDocumentBody::Expanding {
            return self.expanding(b"$`\\\n");
        }
        match self.rest().as_bytes()[0] {
            b'\\' => self.backslash(),
            b'{' => self.no_placeholder(ShellContext::QuotedHereDocument),
            _ => self.copy_char(),
        }
    }

    /// Refuses every known `{v}` in an end mark, doubled braces included: the line that ends the
    /// here-document is compared with the mark as it is written.
    fn check_mark(&mut self, mark: Range<usize>) {
        for (open, _) in self.text[mark.clone()].match_indices('{') {
            let open = mark.start + open;
            let Brace::Single(name) = brace(self.text, open, self.names) else { continue };
            let range = open..open + name.len() + 2;
            if self.names.resolve(name, range.clone()).is_some() {
                self.refuse_at(range, ShellContext::EndMark);
            }
        }
    }

    /// At the beginning of a line: ends the here-documents whose mark it is.
    pub(super) fn end_mark(&mut self) {
        while let Some(Frame::HereDocument(document)) = self.frames.last() {
            let line = self.rest().split('\n').next().unwrap_or_default();
            let bare = if document.dashed { line.trim_start_matches('\t') } else { line };
            if bare != document.mark || self.at == self.text.len() {
                return;
            }
            self.copy(line.len() + 1);
            self.frames.pop();
            self.word = self.at;
            if let Some(next) = self.pending.pop_front() {
                self.frames.push(Frame::HereDocument(next));
            }
        }
    }
}

/// How long the end mark at the beginning of `text` is, quotes included.
fn mark_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let closing = quote.and_then(|quote| text[1..].find(quote).map(|closing| closing + 2));
    closing.or_else(|| text.find(ends_mark)).unwrap_or(text.len())
}

fn ends_mark(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
