//! Cleans text from outside for a terminal: no cursor moves, no titles, no broken characters.
//!
//! Output of steps and names in files may contain anything. Cleaned text takes the columns that
//! `style::columns_of` returns, and its colours end with the line. Bytes come in pieces of any size; only
//! an incomplete character is kept from one piece to the next.

/// The escape sequences that a cleaner keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// None.
    Nothing,
    /// Those that set colours.
    Colours,
}

/// The longest escape sequence that a cleaner parses; those that set colours are shorter.
const LONGEST: usize = 64;
/// The maximum number of bytes of a character.
const CHARACTER: usize = 4;

/// Cleans one line, piece by piece.
#[derive(Debug)]
pub(crate) struct Cleaner {
    keep: Keep,
    state: State,
    /// The escape sequence so far.
    sequence: String,
    /// The first bytes of a character that is not complete yet.
    unfinished: Vec<u8>,
    /// Whether a colour is set.
    coloured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// After an escape character.
    Escape,
    /// In a control sequence, which ends with a letter.
    Control,
    /// In a string for the terminal, which ends with a bell or an escape sequence.
    String,
    /// After an escape character in a string.
    StringEscape,
}

impl Cleaner {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            keep,
            state: State::Text,
            sequence: String::new(),
            unfinished: Vec::new(),
            coloured: false,
        }
    }

    /// Cleans a piece of the line and appends it to `out`.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut String) {
        let joined;
        let mut piece = piece;
        if !self.unfinished.is_empty() {
            joined = [&std::mem::take(&mut self.unfinished), piece].concat();
            piece = &joined;
        }
        let cut = unfinished(piece);
        self.unfinished.extend_from_slice(&piece[cut..]);
        for chunk in piece[..cut].utf8_chunks() {
            chunk.valid().chars().for_each(|c| self.take(c, out));
            if !chunk.invalid().is_empty() {
                self.take(char::REPLACEMENT_CHARACTER, out);
            }
        }
    }

    /// Ends the line and resets its colour.
    pub(crate) fn end_line(&mut self, out: &mut String) {
        if !self.unfinished.is_empty() {
            self.take(char::REPLACEMENT_CHARACTER, out);
        }
        if self.coloured {
            out.push_str("\x1b[0m");
        }
        self.unfinished.clear();
        (self.state, self.coloured) = (State::Text, false);
    }

    fn take(&mut self, c: char, out: &mut String) {
        self.state = match (self.state, c) {
            (State::String, '\x1b') => State::StringEscape,
            (State::String, '\x07' | '\u{9c}') => State::Text,
            (State::String, _) => State::String,
            (State::StringEscape, '\\') => State::Text,
            (_, '\x1b') => State::Escape,
            (_, '\u{9b}') | (State::Escape | State::StringEscape, '[') => {
                self.sequence.clear();
                State::Control
            }
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}')
            | (State::Escape | State::StringEscape, 'P' | 'X' | ']' | '^' | '_') => State::String,
            // For example the selection of a character set, which has one more character.
            (State::Escape | State::StringEscape, ' '..='/') => State::Escape,
            (State::Escape | State::StringEscape, _) => State::Text,
            (State::Control, '@'..='~') => {
                self.end_sequence(c, out);
                State::Text
            }
            (State::Control, _) => {
                if self.sequence.len() < LONGEST {
                    self.sequence.push(c);
                }
                State::Control
            }
            (State::Text, c) => {
                self.show(c, out);
                State::Text
            }
        };
    }

    fn show(&self, c: char, out: &mut String) {
        match (c, self.keep) {
            ('\t', Keep::Nothing) => out.push(' '),
            ('\t', Keep::Colours) => out.push('\t'),
            // Right-to-left text needs none of these characters; they only reorder other text.
            ('\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}', _) => {}
            (c, _) if c.is_control() => {}
            (c, _) => out.push(c),
        }
    }

    fn end_sequence(&mut self, last: char, out: &mut String) {
        let plain = |c: char| c.is_ascii_digit() || matches!(c, ';' | ':');
        let sets_colours = last == 'm' && self.sequence.chars().all(plain);
        if self.keep == Keep::Colours && sets_colours && self.sequence.len() < LONGEST {
            out.push_str("\x1b[");
            out.push_str(&self.sequence);
            out.push('m');
            self.coloured = !matches!(self.sequence.as_str(), "" | "0");
        }
    }
}

/// Returns where an incomplete last character begins, or the length of the piece.
fn unfinished(piece: &[u8]) -> usize {
    let tail = piece.len().saturating_sub(CHARACTER - 1);
    let begins = |byte: &u8| *byte >= 0xc0;
    let Some(last) = piece[tail..].iter().rposition(begins).map(|place| tail + place) else {
        return piece.len();
    };
    let whole = match piece[last] {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => CHARACTER,
    };
    let continued = piece[last + 1..].iter().all(|byte| byte & 0xc0 == 0x80);
    if piece.len() - last < whole && continued { last } else { piece.len() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(keep: Keep, pieces: &[&[u8]]) -> String {
        let (mut cleaner, mut out) = (Cleaner::new(keep), String::new());
        pieces.iter().for_each(|piece| cleaner.push(piece, &mut out));
        cleaner.end_line(&mut out);
        out
    }

    #[test]
    fn what_moves_or_rings_is_taken_out() {
        let check = |text: &str, expected: &str| {
            assert_eq!(cleaned(Keep::Nothing, &[text.as_bytes()]), expected, "{text:?}");
        };
        check("plain text, été, 日本語, 🎉", "plain text, été, 日本語, 🎉");
        check("\x1b[31mred\x1b[0m", "red");
        check("up\x1b[3Aup", "upup");
        check("\x1b]0;a title\x07text", "text");
        check("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1bPq#0;2;0\x1b\\picture", "picture");
        check("\x1b(Btext\x1b7\x1b8", "text");
        check("a\x07b\x08c\x00d\x7fe", "abcde");
        check("\u{9b}31mred\u{9d}title\u{9c}", "red");
        check("tab\there", "tab here");
        check("\u{202e}sdrawkcab", "sdrawkcab");
        check("an unfinished title \x1b]0;to the end", "an unfinished title ");
        check("escape in a string \x1b]0;a\x1b[31mred", "escape in a string red");
    }

    #[test]
    fn colours_stay_where_they_may_and_end_with_the_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(cleaned(Keep::Colours, &[text.as_bytes()]), expected, "{text:?}");
        };
        check("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m");
        check("\x1b[1;38:5:9mred", "\x1b[1;38:5:9mred\x1b[0m");
        check("\x1b[mreset", "\x1b[mreset");
        check("\x1b[2J\x1b[?25l\x1b[>4;2mtext\tmore", "text\tmore");
        check(&format!("\x1b[{}mlong", "1;".repeat(1000)), "long");
    }

    #[test]
    fn characters_may_be_cut_anywhere() {
        let text = "é日🎉".as_bytes();
        for cut in 0..text.len() {
            let (one, two) = text.split_at(cut);
            assert_eq!(cleaned(Keep::Nothing, &[one, two]), "é日🎉", "cut at {cut}");
        }
        assert_eq!(
            cleaned(Keep::Nothing, &[b"\xff\xc3", b"(\xe2\x82"]),
            "\u{fffd}\u{fffd}(\u{fffd}"
        );
    }

    proptest! {
        #[test]
        fn cleaned_text_is_harmless_however_its_bytes_are_cut(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(b"\x1b[]P\\m;0\x07\xc2\x9b".to_vec())],
                0..200,
            ),
            cut in 0..200_usize,
        ) {
            let (one, two) = bytes.split_at(cut.min(bytes.len()));
            let out = cleaned(Keep::Nothing, &[one, two]);
            prop_assert!(!out.chars().any(char::is_control), "{out:?}");
            let whole = cleaned(Keep::Nothing, &[&bytes]);
            prop_assert_eq!(out, whole);
        }
    }
}
