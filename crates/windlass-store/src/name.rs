//! Which texts are valid names of locks, semaphores, events and holders.

use thiserror::Error;
use windlass_core::{Name, Unprintable};

/// The maximum length of a name, in bytes.
pub const NAME_BYTES: usize = 1024;
/// The subcommands of `windlass lock` and `windlass sem`, which a name must not look like.
const VERBS: [&str; 4] = ["acquire", "release", "heartbeat", "check"];

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// It is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// It is too long.
    #[error("a name cannot be longer than {NAME_BYTES} bytes, but this one has {length}")]
    Long {
        /// Its length in bytes.
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
    /// It is a subcommand.
    #[error("{name:?} cannot be a name: it is a verb of `windlass lock` and `windlass sem`")]
    Verb {
        /// The invalid name.
        name: String,
    },
}

/// Checks that a text is a valid name of an event, a holder or a run.
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

/// Checks that a name is valid, for a lock or semaphore also that it is no subcommand.
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
