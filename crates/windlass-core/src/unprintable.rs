//! Characters that must not be part of a name, because they change how the text around them prints.

use std::fmt;

/// A character that moves the cursor, ends the line or changes the direction of the text around it.
///
/// ```
/// use windlass_core::Unprintable;
///
/// assert!(Unprintable::first_in("größer 日本 🚀").is_none());
/// let found = Unprintable::first_in("a\u{202e}b").expect("it turns text around");
/// assert_eq!(found.to_string(), "U+202E");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprintable(char);

impl Unprintable {
    /// Returns the first such character of a text.
    #[must_use]
    pub fn first_in(text: &str) -> Option<Self> {
        text.chars().find(|c| is_unprintable(*c)).map(Self)
    }
}

impl fmt::Display for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.0))
    }
}

/// Returns whether a character is a control character, a separator of lines or paragraphs, or one that
/// sets the direction of text.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let sets_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || is_separator || sets_direction
}
