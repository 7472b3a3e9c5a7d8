//! Tracks the quoting of shell text from its beginning to its end, and replaces placeholders.
//!
//! A stack of frames holds the context: a command, double quotes, `${ }`, arithmetic, backquotes, a
//! here-document. Where shells differ, the lexer rejects a `{v}` rather than risk the wrong quoting.

mod braces;
mod cursor;
mod expansions;
mod here_document;

use std::collections::VecDeque;

use super::{ShellContext, ShellResolver, ShellText};
use crate::template::placeholder;
use crate::variable::Variable;
use cursor::Cursor;
use here_document::{HereDocument, HereDocumentBody};

/// Returns the rewritten text, or none if a `{v}` was rejected; `resolver` gets each of these.
pub(super) fn rewrite(text: &str, resolver: &mut impl ShellResolver) -> Option<ShellText> {
    let mut lexer = Lexer::new(text, resolver);
    while lexer.cursor.at < text.len() {
        lexer.step();
    }
    let Lexer { cursor, variables, rejected, .. } = lexer;
    (!rejected).then(|| ShellText { text: cursor.out, source: text.to_owned(), variables })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Frame {
    /// Commands: the whole text, or the inside of `$( )`.
    Command {
        substitution: bool,
        parens: u32,
        /// For each open `case`, the number of parentheses that were open when it began.
        cases: Vec<u32>,
    },
    /// Double quotes.
    Double,
    /// `${ }`.
    Parameter,
    /// `$(( ))` or `(( ))`, with the number of open parentheses.
    Arithmetic {
        parens: u32,
    },
    Backquotes,
    /// The body of a here-document, up to the line with its delimiter at `end`.
    HereDocument {
        body: HereDocumentBody,
        end: usize,
    },
}

struct Lexer<'t, 'n, N> {
    cursor: Cursor<'t>,
    resolver: &'n mut N,
    variables: Vec<Variable>,
    /// Whether a `{v}` was rejected.
    rejected: bool,
    frames: Vec<Frame>,
    /// The here-documents whose bodies begin on the next line.
    pending: VecDeque<HereDocument>,
    /// The start of the current word of a command.
    word: usize,
    /// For each open quote or substitution, the start of the word around it, and what makes that unsafe.
    outer: Vec<(usize, Option<ShellContext>)>,
    /// The start of the word after the last `>&`.
    duplicated: Option<usize>,
    /// The position after the last `$` that begins no expansion.
    after_dollar: Option<usize>,
    /// Why the frames may be wrong from here on.
    doubt: Option<ShellContext>,
}

impl<'t, 'n, N: ShellResolver> Lexer<'t, 'n, N> {
    fn new(text: &'t str, resolver: &'n mut N) -> Self {
        let whole = Frame::Command { substitution: false, parens: 0, cases: Vec::new() };
        Self {
            cursor: Cursor { text, at: 0, out: String::with_capacity(text.len()) },
            resolver,
            variables: Vec::new(),
            rejected: false,
            frames: vec![whole],
            pending: VecDeque::new(),
            word: 0,
            outer: Vec::new(),
            duplicated: None,
            after_dollar: None,
            doubt: None,
        }
    }

    fn step(&mut self) {
        match self.frames.last().expect("the whole text is a frame") {
            Frame::Command { .. } => self.command(),
            Frame::Double => self.double(),
            Frame::Parameter => self.parameter(),
            Frame::Arithmetic { .. } => self.arithmetic(),
            Frame::Backquotes => self.backquotes(),
            Frame::HereDocument { body, .. } => self.here_document(*body),
        }
    }

    fn rest(&self) -> &'t str {
        self.cursor.rest()
    }

    fn copy(&mut self, bytes: usize) {
        self.cursor.copy(bytes);
    }

    fn copy_char(&mut self) {
        self.copy(1);
    }

    fn push(&mut self, frame: Frame, bytes: usize) {
        self.outer.push((self.word, self.unsafe_word()));
        self.copy(bytes);
        self.frames.push(frame);
        self.word = self.cursor.at;
    }

    fn pop(&mut self) {
        self.copy_char();
        self.frames.pop();
        self.word = self.outer.pop().map_or(self.cursor.at, |(word, _)| word);
    }

    fn command(&mut self) {
        let rest = self.rest();
        let at_word = self.word == self.cursor.at;
        if at_word {
            self.count_case();
        }
        self.check_operator();
        match rest.as_bytes()[0] {
            // A continued line is no part of a word: after it, `#` may begin a comment.
            b'\\' if at_word && rest.starts_with("\\\n") => self.separator(2),
            b'\\' => self.copy(2),
            b'\'' => self.single(),
            b'"' => self.push(Frame::Double, 1),
            b'`' => self.push(Frame::Backquotes, 1),
            b'$' => self.dollar(),
            b'#' if at_word => self.copy(rest.find('\n').unwrap_or(rest.len())),
            b'(' if rest.starts_with("((") => self.push(Frame::Arithmetic { parens: 2 }, 2),
            b'(' | b')' => self.parenthesis(),
            b'>' if rest.starts_with(">&") => self.duplication(),
            b'<' if rest.starts_with("<<<") => self.separator(3),
            b'<' if rest.starts_with("<<") => self.here_operator(),
            b'\n' => self.newline(),
            b'{' => self.placeholder(Self::quoted),
            b' ' | b'\t' | b';' | b'&' | b'|' | b'<' | b'>' => self.separator(1),
            _ => self.copy_char(),
        }
    }

    /// Doubts the frames after an operator of two characters that a line continuation splits. Shells join
    /// the two, but the lexer reads each by itself.
    fn check_operator(&mut self) {
        let rest = self.rest();
        let second = ["$(", "$", "(", ">", "<<", "<"].into_iter().find_map(|first| {
            let (before, after) = (first.chars().last()?, continued(rest.strip_prefix(first)?)?);
            Some((before, after.chars().next()?))
        });
        let is_split = matches!(
            second,
            Some(('$', '(' | '{' | '[' | '\'' | '$') | ('(', '(') | ('>', '&') | ('<', '<' | '-'))
        );
        if is_split {
            self.doubt = self.doubt.or(Some(ShellContext::SplitOperator));
        }
    }

    fn separator(&mut self, bytes: usize) {
        self.copy(bytes);
        self.word = self.cursor.at;
    }

    /// Copies `>&`, and the blanks and line continuations after it.
    fn duplication(&mut self) {
        self.copy(2);
        let mut rest = self.rest();
        while let Some(after) = rest.strip_prefix([' ', '\t']).or_else(|| continued(rest)) {
            rest = after;
        }
        self.separator(self.rest().len() - rest.len());
        self.duplicated = Some(self.cursor.at);
    }

    /// Counts `case` and `esac`: between them a parenthesis may close without an opening one.
    fn count_case(&mut self) {
        let rest = self.rest();
        let word = rest.split(|c| !is_word(c)).next().unwrap_or_default();
        let keyword = ["case", "esac"].into_iter().any(|keyword| keyword.starts_with(word));
        if keyword && !word.is_empty() && continued(&rest[word.len()..]).is_some() {
            self.doubt = self.doubt.or(Some(ShellContext::SplitOperator));
        }
        if let Some(Frame::Command { cases, parens, .. }) = self.frames.last_mut() {
            match word {
                "case" => cases.push(*parens),
                "esac" => drop(cases.pop()),
                _ => {}
            }
        }
    }

    fn parenthesis(&mut self) {
        let opens = self.rest().starts_with('(');
        let within = self.frames.len() > 1;
        let Some(Frame::Command { substitution, parens, cases }) = self.frames.last_mut() else {
            return self.copy_char();
        };
        if opens {
            *parens += 1;
        } else if cases.last() == Some(parens) {
            // The end of a pattern, unless this `case` is an argument.
            if within {
                self.doubt = self.doubt.or(Some(ShellContext::CaseInSubstitution));
            }
        } else if *parens > 0 {
            *parens -= 1;
        } else if *substitution {
            self.pop();
            return self.check_pending();
        }
        self.separator(1);
    }

    fn newline(&mut self) {
        self.separator(1);
        self.check_pending();
        self.begin_here_document();
        self.end_here_documents();
    }

    /// Copies single quotes, in which only a placeholder is special.
    fn single(&mut self) {
        self.copy_char();
        while let Some(next) = self.rest().chars().next() {
            match next {
                '{' => self.placeholder(Self::in_single),
                '\'' => {
                    self.copy_char();
                    break;
                }
                _ => self.copy_char(),
            }
        }
    }

    fn double(&mut self) {
        match self.rest().as_bytes()[0] {
            b'"' => self.pop(),
            _ => self.expanding(b"$`\"\\\n"),
        }
    }

    /// Copies one element of double quotes or of a here-document; `escaped` are the characters that a
    /// backslash escapes there.
    fn expanding(&mut self, escaped: &[u8]) {
        let rest = self.rest().as_bytes();
        match rest[0] {
            b'\\' if rest.get(1).is_some_and(|next| escaped.contains(next)) => self.copy(2),
            b'\\' => self.backslash(),
            b'`' => self.push(Frame::Backquotes, 1),
            b'$' => self.dollar(),
            b'{' => self.placeholder(Self::in_double),
            _ => self.copy_char(),
        }
    }

    /// Copies a backslash that the shell takes literally. Before a known `{v}` it escapes the placeholder,
    /// and is removed.
    fn backslash(&mut self) {
        let name = placeholder(&self.rest()[1..]);
        if !name.is_some_and(|name| self.resolver.is_known(name)) {
            return self.copy_char();
        }
        if self.after_dollar == Some(self.cursor.at) {
            // Without the backslash between them, `${` would begin an expansion.
            self.cursor.out.insert(self.cursor.out.len() - 1, '\\');
        }
        self.cursor.at += 1;
        self.copy_char();
    }
}

/// Returns the text after the line continuations that `text` begins with, or none if there is none.
fn continued(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches("\\\n");
    (rest.len() < text.len()).then_some(rest)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
