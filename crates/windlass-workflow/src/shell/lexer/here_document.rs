//! Here-documents: their operators, bodies and end marks.

use std::ops::Range;

use super::{Frame, Lexer};
use crate::shell::{Misplaced, Place};
use crate::variable::Variable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    mark: String,
    /// Whether tabs before the end mark do not count.
    dashed: bool,
    /// Whether the mark is quoted, so that nothing in the body is replaced.
    quoted: bool,
}

impl<K: FnMut(&str, Range<usize>) -> Option<Variable>> Lexer<'_, K> {
    /// `<<` and the end mark behind it.
    pub(super) fn here_operator(&mut self) -> Result<(), Misplaced> {
        self.copy(2);
        let dashed = self.rest().starts_with('-');
        self.copy(usize::from(dashed));
        let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        self.copy(blanks);
        let word = self.rest();
        let end = word.find(ends_mark).unwrap_or(word.len());
        let written = &word[..end];
        for (open, _) in written.match_indices('{') {
            self.refuse_known(self.at + open, Place::EndMark)?;
        }
        self.copy(end);
        let quote = |c: char| matches!(c, '\'' | '"' | '\\');
        let document = HereDocument {
            mark: written.replace(quote, ""),
            dashed,
            quoted: written.contains(quote),
        };
        self.pending.push_back(document);
        Ok(())
    }

    pub(super) fn here_document(&mut self, document: &HereDocument) -> Result<(), Misplaced> {
        if self.rest().starts_with('\n') {
            self.copy_char();
            self.end_mark();
            return Ok(());
        }
        if !document.quoted {
            return self.expanding(b"$`\\\n");
        }
        if self.rest().starts_with('{') {
            self.refuse_known(self.at, Place::QuotedHereDocument)?;
        }
        self.copy_char();
        Ok(())
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

fn ends_mark(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
