//! The environment that a submission takes along.
//!
//! It is stored as text. A variable that cannot be taken along is an error: a step that lacks it would fail
//! later, or do something else.

use std::collections::BTreeMap;
use std::ffi::OsString;

use thiserror::Error;

/// Variables of the user that most commands need, besides those of the locale.
const USUAL: [&str; 7] = ["PATH", "HOME", "USER", "SHELL", "LANG", "TZ", "VIRTUAL_ENV"];

/// Why a variable cannot be taken along.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A variable was named that has no value.
    #[error(
        "the variable {name} is not set, so it cannot be passed on; set it, or leave out --env {name}"
    )]
    Unset {
        /// The variable.
        name: String,
    },
    /// The password of the store was to be stored in it.
    #[error(
        "PGPASSWORD has the password of the store, which all who may look at the store would find in it; do not pass it on: windlass needs no password in a step"
    )]
    Password,
    /// A value cannot be stored.
    #[error(
        "the value of {name} is not valid UTF-8, so it cannot be stored with the run; change or unset it"
    )]
    NotText {
        /// The variable.
        name: String,
    },
}

/// Returns those of `variables` that a submission takes along: the usual ones, those of the locale, those
/// that its file names, if they are set, and the ones that its user has `named`.
pub(crate) fn submitted_env(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    by_file: &[String],
    named: &[String],
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let mut taken = BTreeMap::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        let is_named = named.contains(&name) || by_file.contains(&name);
        if is_named || USUAL.contains(&name.as_str()) || name.starts_with("LC_") {
            let Ok(value) = value.into_string() else {
                return Err(EnvironmentError::NotText { name });
            };
            taken.insert(name, value);
        }
    }
    match named.iter().find(|name| !taken.contains_key(*name)) {
        Some(unset) => Err(EnvironmentError::Unset { name: unset.clone() }),
        None => Ok(taken),
    }
}
