//! Follows the quotes of shell text from its beginning to its end.
//!
//! A stack of frames says where we are: a command, double quotes, `${ }`, arithmetic, backquotes,
//! a here-document. When in doubt, a `{v}` is refused rather than quoted for the wrong place.

mod braces;
mod here_document;

use std::collections::VecDeque;

use super::{ShellContext, ShellResolver, ShellText};
use crate::template::placeholder;
use crate::variable::Variable;
use here_document::HereDocument;

/// None if a `{v}` was refused; `names` is told of each.
pub(super) fn rewrite(text: &str, names: &mut impl ShellResolver) -> Option<ShellText> {
    let mut lexer = Lexer::new(text, names);
    while lexer.at < text.len() {
        lexer.step();
    }
    let Lexer { out, variables, refused, .. } = lexer;
    (!refused).then(|| ShellText { text: out, source: text.to_owned(), variables })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Frame {
    /// Words and commands: the whole text, or the inside of `$( )`.
    Command {
        substitution: bool,
        parens: u32,
        /// For each `case` that is open, how many parentheses were when it began.
        cases: Vec<u32>,
    },
    /// Double quotes.
    Double,
    /// `${ }`.
    Parameter,
    /// `$(( ))`, `(( ))`, with the parentheses that are open.
    Arithmetic {
        parens: u32,
    },
    Backquotes,
    HereDocument(HereDocument),
}

struct Lexer<'t, 'n, N> {
    text: &'t str,
    at: usize,
    out: String,
    names: &'n mut N,
    variables: Vec<Variable>,
    /// Whether some `{v}` stands where no value can.
    refused: bool,
    frames: Vec<Frame>,
    /// The here-documents whose bodies begin on the next line.
    pending: VecDeque<HereDocument>,
    /// Where the present word of a command begins.
    word: usize,
    /// The words in which the open quotes and substitutions stand, and what is unsafe about them.
    outer: Vec<(usize, Option<ShellContext>)>,
    /// Where the word behind the last `>&` begins.
    duplicated: Option<usize>,
    /// What stands behind the last `$` that is nothing but itself.
    behind_dollar: Option<usize>,
    /// Why the frames may not be right any more.
    doubt: Option<ShellContext>,
}

impl<'t, 'n, N: ShellResolver> Lexer<'t, 'n, N> {
    fn new(text: &'t str, names: &'n mut N) -> Self {
        let whole = Frame::Command { substitution: false, parens: 0, cases: Vec::new() };
        Self {
            text,
            at: 0,
            out: String::with_capacity(text.len()),
            names,
            variables: Vec::new(),
            refused: false,
            frames: vec![whole],
            pending: VecDeque::new(),
            word: 0,
            outer: Vec::new(),
            duplicated: None,
            behind_dollar: None,
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
            Frame::HereDocument(document) => {
                let body = document.body;
                self.here_document(body);
            }
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Copies `bytes` bytes, or as many as are left, up to the end of a character.
    fn copy(&mut self, bytes: usize) {
        let mut end = (self.at + bytes).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        self.out.push_str(&self.text[self.at..end]);
        self.at = end;
    }

    fn copy_char(&mut self) {
        self.copy(1);
    }

    fn push(&mut self, frame: Frame, bytes: usize) {
        self.outer.push((self.word, self.unsafe_word()));
        self.copy(bytes);
        self.frames.push(frame);
        self.word = self.at;
    }

    fn pop(&mut self) {
        self.copy_char();
        self.frames.pop();
        self.word = self.outer.pop().map_or(self.at, |(word, _)| word);
    }

    fn command(&mut self) {
        let rest = self.rest();
        let at_word = self.word == self.at;
        if at_word {
            self.note_case();
        }
        match rest.as_bytes()[0] {
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

    fn separator(&mut self, bytes: usize) {
        self.copy(bytes);
        self.word = self.at;
    }

    /// `>&` and the blanks behind it.
    fn duplication(&mut self) {
        self.copy(2);
        let rest = self.rest();
        self.separator(rest.len() - rest.trim_start_matches([' ', '\t']).len());
        self.duplicated = Some(self.at);
    }

    /// Between `case` and `esac` a parenthesis may close without having been opened.
    fn note_case(&mut self) {
        let rest = self.rest();
        let word = rest.split(|c| !is_word(c)).next().unwrap_or_default();
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
            // The end of a pattern, unless this `case` is only a word.
            if within {
                self.doubt = self.doubt.or(Some(ShellContext::CaseInSubstitution));
            }
        } else if *parens > 0 {
            *parens -= 1;
        } else if *substitution {
            return self.pop();
        }
        self.separator(1);
    }

    fn newline(&mut self) {
        self.separator(1);
        if let Some(document) = self.pending.pop_front() {
            self.frames.push(Frame::HereDocument(document));
            self.end_mark();
        }
    }

    /// Single quotes end at the next one, whatever stands between.
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

    /// What is alike in double quotes and here-documents; `escaped` are those that a backslash
    /// takes the meaning from.
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

    /// A backslash that the shell leaves where it is. Before a `{v}` it is ours, and takes the
    /// meaning from that.
    fn backslash(&mut self) {
        let name = placeholder(&self.rest()[1..]);
        if !name.is_some_and(|name| self.names.is_known(name)) {
            return self.copy_char();
        }
        if self.behind_dollar == Some(self.at) {
            // Without the backslash between them, `${` would begin something.
            self.out.insert(self.out.len() - 1, '\\');
        }
        self.at += 1;
        self.copy_char();
    }

    fn dollar(&mut self) {
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
            // Bash reads an arithmetic expression up to a `]`, others only two characters.
            self.doubt = self.doubt.or(Some(ShellContext::Brackets));
            self.copy(2);
        } else if rest.starts_with("$'") && self.is_command() {
            self.ansi_quotes();
        } else {
            self.copy_char();
            self.behind_dollar = Some(self.at);
        }
    }

    /// `$'…'`: shells that know it read `\'` as a quote within, others as the end.
    fn ansi_quotes(&mut self) {
        self.copy(2);
        let end = self.rest().find('\'').map_or(self.text.len(), |end| self.at + end);
        while self.at < end {
            match self.rest().starts_with('{') {
                true => self.no_placeholder(ShellContext::AnsiQuotes),
                false => self.copy_char(),
            }
        }
        if self.text[..end].ends_with('\\') {
            self.doubt = self.doubt.or(Some(ShellContext::AnsiQuotes));
        }
        self.copy(1);
    }

    fn is_command(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Command { .. }))
    }

    fn parameter(&mut self) {
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

    /// Whether the innermost `${ }` stands in double quotes, where a single quote means nothing.
    fn is_within_double(&self) -> bool {
        let outer = self.frames.iter().rev().find(|frame| **frame != Frame::Parameter);
        matches!(outer, Some(Frame::Double | Frame::HereDocument(_)))
    }

    fn arithmetic(&mut self) {
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
        if *parens == 0 { self.pop() } else { self.copy_char() }
    }

    fn backquotes(&mut self) {
        match self.rest().as_bytes()[0] {
            b'`' => self.pop(),
            b'\\' => self.copy(2),
            b'{' => self.placeholder(Self::in_double),
            _ => self.copy_char(),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
