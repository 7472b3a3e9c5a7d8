//! Collects the errors and warnings about one file while it is read.
//!
//! Keeps at most [`limits::DIAGNOSTICS`] of each and counts the errors beyond that: users do not
//! read more, and the search for a similar name costs time for every error. Does not know how a
//! diagnostic is rendered.

use std::cell::RefCell;
use std::collections::BTreeSet;

use windlass_core::nearest;

use crate::diagnostic::{Diagnostic, ParseErrors, SourceFile, Warnings};
use crate::limits;

#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: RefCell<Vec<Diagnostic>>,
    warnings: RefCell<Vec<Diagnostic>>,
    /// The number of errors that were not kept.
    omitted: RefCell<usize>,
}

impl Diagnostics {
    pub(crate) fn error(&self, error: Diagnostic) {
        if self.is_full() {
            *self.omitted.borrow_mut() += 1;
        } else {
            self.errors.borrow_mut().push(error);
        }
    }

    pub(crate) fn warn(&self, warning: Diagnostic) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < limits::DIAGNOSTICS {
            warnings.push(warning);
        }
    }

    /// Adds a warning that `check` shows and `run` does not.
    pub(crate) fn lint(&self, mut warning: Diagnostic) {
        warning.only_in_check = true;
        self.warn(warning);
    }

    /// Returns a help text that names the known word most similar to `word`.
    pub(crate) fn suggest<'a>(
        &self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let similar = if self.is_full() { None } else { similar(word, known) };
        similar.map(|known| format!("did you mean `{known}`?"))
    }

    /// Returns the number of errors so far, including those that were not kept.
    pub(crate) fn error_count(&self) -> usize {
        self.errors.borrow().len() + *self.omitted.borrow()
    }

    /// Returns the warnings, or all errors if there are any.
    pub(crate) fn finish(self, file: SourceFile) -> Result<Warnings, ParseErrors> {
        let warnings =
            Warnings { warnings: in_file_order(self.warnings.into_inner()), file: file.clone() };
        let errors = in_file_order(self.errors.into_inner());
        if errors.is_empty() {
            return Ok(warnings);
        }
        Err(ParseErrors { errors, omitted: self.omitted.into_inner(), warnings, file })
    }

    fn is_full(&self) -> bool {
        self.errors.borrow().len() >= limits::DIAGNOSTICS
    }
}

/// Returns the known word most similar to `word`; never for a `word` of one letter, which is
/// similar to every other.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    word.chars().nth(1).and_then(|_| nearest(word, known))
}

/// Sorts by position and removes duplicates.
fn in_file_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    let mut seen = BTreeSet::new();
    diagnostics
        .retain(|diagnostic| seen.insert((diagnostic.span.start, diagnostic.message.clone())));
    diagnostics
}
