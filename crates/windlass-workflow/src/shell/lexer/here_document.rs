//! Here-documents: their operators, delimiters and bodies.

use std::ops::Range;

use super::{Frame, Lexer};
use crate::shell::{ShellContext, ShellResolver};
use crate::template::{Brace, brace};

/// A here-document whose body begins on the next line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    delimiter: String,
    /// Whether leading tabs are removed, as by `<<-`.
    dashed: bool,
    body: HereDocumentBody,
    /// The number of frames around its operator.
    depth: usize,
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
        if !is_plain_delimiter(literal) || !word[end..].chars().next().is_none_or(ends_word) {
            self.doubt_here_document();
        }
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
            depth: self.frames.len(),
        });
    }

    /// Begins the body of the next pending here-document, if there is one.
    pub(super) fn begin_here_document(&mut self) {
        let Some(document) = self.pending.pop_front() else { return };
        let substituted = self.frames.len() > 1;
        let end = document.end(self.rest(), substituted).unwrap_or_else(|Uncertain| {
            self.doubt_here_document();
            self.rest().len()
        });
        let end = self.cursor.at + end;
        self.frames.push(Frame::HereDocument { body: document.body, end });
    }

    /// Doubts the frames if a pending here-document began in another frame than the current one: shells
    /// differ on where its body begins.
    pub(super) fn check_pending(&mut self) {
        if self.pending.iter().any(|document| document.depth != self.frames.len()) {
            self.doubt_here_document();
        }
    }

    fn doubt_here_document(&mut self) {
        self.doubt = self.doubt.or(Some(ShellContext::HereDocumentEnd));
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
            b'{' => {
                let context = self.doubt.unwrap_or(ShellContext::QuotedHereDocument);
                self.misplaced_placeholder(context);
            }
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
        while let Some(Frame::HereDocument { end, .. }) = self.frames.last() {
            if *end != self.cursor.at || self.rest().is_empty() {
                return;
            }
            let line = self.rest().split('\n').next().unwrap_or_default();
            self.copy(line.len() + 1);
            self.frames.pop();
            self.word = self.cursor.at;
            self.begin_here_document();
        }
    }
}

/// Shells differ on where a here-document ends.
struct Uncertain;

impl HereDocument {
    /// Returns where in `text`, which begins with the body, the line with the delimiter begins, or the
    /// length of `text` if there is none.
    ///
    /// Bash joins continued lines before it compares them with the delimiter, dash joins some. Inside a
    /// substitution, bash also accepts the delimiter before a closing parenthesis.
    fn end(&self, text: &str, substituted: bool) -> Result<usize, Uncertain> {
        let mut at = 0;
        let mut joined = String::new();
        let mut is_continued = false;
        for line in text.split('\n') {
            if self.is_delimiter(line) {
                return if is_continued { Err(Uncertain) } else { Ok(at) };
            }
            at += line.len() + 1;
            let start = line.strip_suffix('\\').filter(|_| self.continues(line));
            joined.push_str(start.unwrap_or(line));
            is_continued = start.is_some();
            if self.is_delimiter(&joined) || substituted && self.is_parenthesized(&joined) {
                return Err(Uncertain);
            }
            if !is_continued {
                joined.clear();
            }
        }
        if substituted { Err(Uncertain) } else { Ok(text.len()) }
    }

    /// Returns whether the shell joins a line of the body with the next one.
    fn continues(&self, line: &str) -> bool {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        self.body == HereDocumentBody::Expanding && backslashes % 2 == 1
    }

    fn is_delimiter(&self, line: &str) -> bool {
        self.bare(line) == self.delimiter
    }

    fn is_parenthesized(&self, line: &str) -> bool {
        let after = self.bare(line).strip_prefix(&self.delimiter);
        after.is_some_and(|after| after.starts_with(')'))
    }

    fn bare<'l>(&self, line: &'l str) -> &'l str {
        if self.dashed { line.trim_start_matches('\t') } else { line }
    }
}

/// Returns the length of the delimiter at the beginning of `text`, quotes included.
fn delimiter_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let closing = quote.and_then(|quote| text[1..].find(quote).map(|closing| closing + 2));
    closing.or_else(|| text.find(ends_word)).unwrap_or(text.len())
}

/// Returns whether every shell reads the same delimiter: `EOF`, `\EOF`, `'EOF'` or `"EOF"`.
fn is_plain_delimiter(delimiter: &str) -> bool {
    let quoted = ['\'', '"'].into_iter().find_map(|quote| {
        delimiter.strip_prefix(quote).and_then(|inside| inside.strip_suffix(quote))
    });
    if let Some(inside) = quoted {
        return !inside.contains(['\'', '"', '$', '`', '\\', '\t', '\n', '\r']);
    }
    let word = delimiter.strip_prefix('\\').unwrap_or(delimiter);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:,+@%=/!".contains(c);
    !word.is_empty() && word.chars().all(plain)
}

fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
