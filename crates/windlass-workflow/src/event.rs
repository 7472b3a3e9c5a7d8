//! Patterns that match names of events, such as `a:b:c`, by whole segments.
//!
//! `*` matches one segment, a trailing `**` any number of segments, including none.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A pattern of the names of events.
///
/// ```
/// use windlass_workflow::EventPattern;
///
/// let pattern: EventPattern = "build:*:done".parse()?;
/// assert!(pattern.matches("build:web:done"));
/// assert!(!pattern.matches("build:web:api:done"));
/// # Ok::<(), windlass_workflow::EventPatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPattern {
    segments: Vec<Segment>,
    trailing: Trailing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
}

/// What may follow the segments of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trailing {
    Nothing,
    Anything,
}

/// Why a text is not a pattern of events.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EventPatternError {
    /// A segment is empty.
    #[error("{text:?} has an empty segment")]
    EmptySegment {
        /// The pattern.
        text: String,
    },
    /// A segment has a star and other characters.
    #[error("in {segment:?}, `*` is next to other characters")]
    PartialStar {
        /// The segment.
        segment: String,
    },
    /// `**` is not the last segment.
    #[error("in {text:?}, `**` is not the last segment")]
    InnerDoubleStar {
        /// The pattern.
        text: String,
    },
}

impl EventPattern {
    /// Returns whether the pattern matches the name of an event.
    #[must_use]
    pub fn matches(&self, event: &str) -> bool {
        let mut rest = event.split(':');
        let head = self.segments.iter().all(|segment| match (segment, rest.next()) {
            (_, None) => false,
            (Segment::Any, Some(_)) => true,
            (Segment::Literal(text), Some(given)) => text == given,
        });
        head && (self.trailing == Trailing::Anything || rest.next().is_none())
    }
}

impl FromStr for EventPattern {
    type Err = EventPatternError;

    fn from_str(text: &str) -> Result<Self, EventPatternError> {
        let (head, trailing) = match text.strip_suffix("**") {
            Some("") => return Ok(Self { segments: Vec::new(), trailing: Trailing::Anything }),
            Some(head) if head.ends_with(':') => (&head[..head.len() - 1], Trailing::Anything),
            _ => (text, Trailing::Nothing),
        };
        let segments = head.split(':').map(|part| segment(text, part)).collect::<Result<_, _>>()?;
        Ok(Self { segments, trailing })
    }
}

fn segment(text: &str, part: &str) -> Result<Segment, EventPatternError> {
    match part {
        "" => Err(EventPatternError::EmptySegment { text: text.to_owned() }),
        "*" => Ok(Segment::Any),
        "**" => Err(EventPatternError::InnerDoubleStar { text: text.to_owned() }),
        _ if part.contains('*') => Err(EventPatternError::PartialStar { segment: part.to_owned() }),
        _ => Ok(Segment::Literal(part.to_owned())),
    }
}

impl fmt::Display for EventPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<&str> = Vec::new();
        for segment in &self.segments {
            parts.push(match segment {
                Segment::Literal(text) => text,
                Segment::Any => "*",
            });
        }
        if self.trailing == Trailing::Anything {
            parts.push("**");
        }
        f.write_str(&parts.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let parsed: EventPattern = pattern.parse().expect(pattern);
        assert_eq!(parsed.to_string(), pattern);
        yes.iter().for_each(|event| assert!(parsed.matches(event), "{pattern} and {event}"));
        no.iter().for_each(|event| assert!(!parsed.matches(event), "{pattern} and {event}"));
    }

    #[test]
    fn patterns_match_whole_segments() {
        check("a:b", &["a:b"], &["a", "a:b:c", "a:bb", "A:b", ""]);
        check("a:*:c", &["a:b:c", "a::c"], &["a:c", "a:b:b:c", "a:b:d"]);
        check("a:**", &["a", "a:b", "a:b:c"], &["b", "ab:c"]);
        check("*", &["a", ""], &["a:b"]);
        check("**", &["", "a", "a:b"], &[]);
    }

    #[test]
    fn everything_else_is_rejected() {
        for (text, part) in [
            ("", "empty segment"),
            ("a::b", "empty segment"),
            ("a:", "empty segment"),
            ("a:b*", "next to other characters"),
            ("a:b**", "next to other characters"),
            ("**:a", "last segment"),
        ] {
            let error = text.parse::<EventPattern>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
