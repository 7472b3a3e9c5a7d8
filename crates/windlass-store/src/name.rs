//! Which texts can be names of locks, semaphores and events.

use thiserror::Error;
use windlass_core::{Name, Unprintable};

/// The longest name, in bytes.
pub const NAME_BYTES: usize = 1024;
/// Words that follow `lock` and `sem` on the command line.
const VERBS: [&str; 4] = ["acquire", "release", "heartbeat", "check"];

/// A text cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is nothing.
    #[error("a name cannot be empty")]
    Empty,
    /// It is too long.
    #[error("a name cannot be longer than {NAME_BYTES} bytes, and this one has {length}")]
    Long {
        /// How long it is.
        length: usize,
    },
    /// It has a character that does not print where it stands.
    #[error(
        "the name {name:?} contains {found}, a character that ends the line, moves the cursor or \
         turns text around"
    )]
    Unprintable {
        /// The name.
        name: String,
        /// The first such character.
        found: Unprintable,
    },
    /// It could be taken for a verb.
    #[error("{name:?} cannot be a name: it is a verb of `windlass lock` and `windlass sem`")]
    Verb {
        /// The name.
        name: String,
    },
}

/// Whether a text can be the name of an event, a holder or a run.
pub fn check_text(text: &str) -> Result<(), NameError> {
    match text {
        "" => Err(NameError::Empty),
        text if text.len() > NAME_BYTES => Err(NameError::Long { length: text.len() }),
        text => match Unprintable::first_in(text) {
            Some(found) => Err(NameError::Unprintable { name: text.to_owned(), found }),
            None => Ok(()),
        },
    }
}

/// Whether a lock or semaphore can be called so.
///
/// ```
/// use windlass_store::{Name, check_name};
///
/// assert!(check_name(&Name::Lock("deploy/../prod 🚀".to_owned())).is_ok());
/// assert!(check_name(&Name::Lock("two\nlines".to_owned())).is_err());
/// assert!(check_name(&Name::Semaphore("release".to_owned())).is_err());
/// ```
pub fn check_name(name: &Name) -> Result<(), NameError> {
    check_text(name.text())?;
    match name {
        Name::Lock(text) | Name::Semaphore(text) if VERBS.contains(&text.as_str()) => {
            Err(NameError::Verb { name: text.clone() })
        }
        _ => Ok(()),
    }
}
