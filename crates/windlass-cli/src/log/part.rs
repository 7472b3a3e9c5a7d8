//! Cuts logs into lines, and long lines into parts, so that none needs much memory.

/// The maximum number of bytes of a part.
const LONGEST: usize = 64 << 10;

/// A line of a log with its end, or a part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether the line continues in the next part.
    pub(super) goes_on: bool,
}

/// Whether the log has more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last(pub(super) bool);

impl<'a> Part<'a> {
    /// Returns the first part; none if more has to be read first.
    pub(super) fn first(bytes: &'a [u8], last: Last) -> Option<Self> {
        let near = &bytes[..bytes.len().min(LONGEST + 1)];
        if let Some(end) = near.iter().position(|byte| *byte == b'\n') {
            return Some(Self { bytes: &bytes[..=end], goes_on: false });
        }
        match bytes.len() {
            0 => None,
            more if more > LONGEST => {
                let bytes = &bytes[..whole_letters(&bytes[..LONGEST])];
                Some(Self { bytes, goes_on: true })
            }
            _ => last.0.then_some(Self { bytes, goes_on: false }),
        }
    }
}

/// Returns the length without an incomplete character at the end.
fn whole_letters(bytes: &[u8]) -> usize {
    let length_of = |lead: u8| match lead {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    let cut = (1..=3.min(bytes.len())).find(|back| length_of(bytes[bytes.len() - back]) > *back);
    bytes.len() - cut.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the parts, and whether the line continues after each.
    fn parts(mut bytes: &[u8]) -> Vec<(usize, bool)> {
        let mut parts = Vec::new();
        while let Some(part) = Part::first(bytes, Last(true)) {
            parts.push((part.bytes.len(), part.goes_on));
            bytes = &bytes[part.bytes.len()..];
        }
        parts
    }

    #[test]
    fn lines_stay_whole_up_to_a_limit() {
        assert_eq!(parts(b""), []);
        assert_eq!(parts(b"a\n\nbc"), [(2, false), (1, false), (2, false)]);
        let longest = "x".repeat(LONGEST);
        assert_eq!(parts(longest.as_bytes()), [(LONGEST, false)]);
        assert_eq!(parts((longest.clone() + "\n").as_bytes()), [(LONGEST + 1, false)]);
        let longer = longest.clone() + "x\n";
        assert_eq!(parts(longer.as_bytes()), [(LONGEST, true), (2, false)]);
        let long = longest.repeat(3) + "\ny";
        let long = parts(long.as_bytes());
        assert_eq!(long, [(LONGEST, true), (LONGEST, true), (LONGEST + 1, false), (1, false)]);
    }

    #[test]
    fn an_incomplete_line_waits_for_its_end() {
        assert_eq!(Part::first(b"abc", Last(false)), None);
        let beginning = "x".repeat(LONGEST);
        assert_eq!(Part::first(beginning.as_bytes(), Last(false)), None);
    }

    #[test]
    fn letters_stay_whole() {
        for letter in ["é", "€", "🚀"] {
            for before in 0..letter.len() {
                let text = "x".repeat(before) + &letter.repeat(LONGEST);
                let mut rest = text.as_str();
                for (length, _) in parts(text.as_bytes()) {
                    assert!(length <= LONGEST && rest.is_char_boundary(length), "{letter}");
                    rest = &rest[length..];
                }
                assert_eq!(rest, "");
            }
        }
        let broken = [0xf0; 2 * LONGEST];
        assert_eq!(parts(&broken).iter().map(|(length, _)| length).sum::<usize>(), broken.len());
    }
}
