//! Here-documents: their operators, delimiters and bodies.

use std::ops::Range;

use super::{Frame, Lexer};
use crate::shell::{ShellContext, ShellResolver};
use crate::template::{Brace, brace};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    delimiter: String,
    /// Whether leading tabs are removed, as by `<<-`.
    dashed: bool,
    pub(super) body: HereDocumentBody,
}

/// How the shell treats the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HereDocumentBody {
    /// It expands the body as in double quotes.
    Expanding,
    /// It expands nothing, because the delimiter is quoted.
    Literal,
}

impl<N: ShellResolver> Lexer<'_, '_, N> {
    /// Copies `<<` and the delimiter after it.
    pub(super) fn here_operator(&mut self) {
        self.copy(2);
        let dashed = self.rest().starts_with('-');
        self.copy(usize::from(dashed));
        let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        self.copy(blanks);
        let word = self.rest();
        let end = delimiter_length(word);
        let literal = &word[..end];
        self.check_delimiter(self.cursor.at..self.cursor.at + end);
        self.copy(end);
        let quote = |c: char| matches!(c, '\'' | '"' | '\\');
        let body = if literal.contains(quote) {
            HereDocumentBody::Literal
        } else {
            HereDocumentBody::Expanding
        };
        self.pending.push_back(HereDocument {
            delimiter: literal.replace(quote, ""),
            dashed,
            body,
        });
    }

    pub(super) fn here_document(&mut self, body: HereDocumentBody) {
        if self.rest().starts_with('\n') {
            self.copy_char();
            return self.end_here_documents();
        }
        if body == HereDocumentBody::Expanding {
            return self.expanding(b"$`\\\n");
        }
        match self.rest().as_bytes()[0] {
            b'\\' => self.backslash(),
            b'{' => self.misplaced_placeholder(ShellContext::QuotedHereDocument),
            _ => self.copy_char(),
        }
    }

    /// Rejects every known `{v}` in a delimiter, doubled braces included: the shell compares the last line
    /// with the delimiter literally.
    fn check_delimiter(&mut self, delimiter: Range<usize>) {
        for (open, _) in self.cursor.text[delimiter.clone()].match_indices('{') {
            let open = delimiter.start + open;
            let Brace::Single(name) = brace(self.cursor.text, open, self.resolver) else {
                continue;
            };
            let range = open..open + name.len() + 2;
            if self.resolver.resolve(name, range.clone()).is_some() {
                self.reject_at(range, ShellContext::Delimiter);
            }
        }
    }

    /// At the beginning of a line, ends the here-documents whose delimiter the line is.
    pub(super) fn end_here_documents(&mut self) {
        while let Some(Frame::HereDocument(document)) = self.frames.last() {
            let line = self.rest().split('\n').next().unwrap_or_default();
            let bare = if document.dashed { line.trim_start_matches('\t') } else { line };
            if bare != document.delimiter || self.cursor.at == self.cursor.text.len() {
                return;
            }
            self.copy(line.len() + 1);
            self.frames.pop();
            self.word = self.cursor.at;
            if let Some(next) = self.pending.pop_front() {
                self.frames.push(Frame::HereDocument(next));
            }
        }
    }
}

/// Returns the length of the delimiter at the beginning of `text`, quotes included.
fn delimiter_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let closing = quote.and_then(|quote| text[1..].find(quote).map(|closing| closing + 2));
    closing.or_else(|| text.find(ends_delimiter)).unwrap_or(text.len())
}

fn ends_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
