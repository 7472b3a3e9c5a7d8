//! Collects what there is to say about a file while it is read.
//!
//! Mistakes beyond the limit are counted and not kept: nobody reads the hundredth, and looking for
//! what was meant costs time for each.

use std::cell::RefCell;
use std::collections::BTreeSet;

use windlass_core::nearest;

use crate::limits;
use crate::mistake::{Mistake, Mistakes, Source, Warnings};

#[derive(Default)]
pub(crate) struct Notes {
    mistakes: RefCell<Vec<Mistake>>,
    warnings: RefCell<Vec<Mistake>>,
    left_out: RefCell<usize>,
}

impl Notes {
    pub(crate) fn mistake(&self, mistake: Mistake) {
        if self.is_full() {
            *self.left_out.borrow_mut() += 1;
        } else {
            self.mistakes.borrow_mut().push(mistake);
        }
    }

    pub(crate) fn warn(&self, warning: Mistake) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < limits::MISTAKES {
            warnings.push(warning);
        }
    }

    /// Warns of what only someone who checks a file wants to hear.
    pub(crate) fn lint(&self, mut warning: Mistake) {
        warning.only_in_check = true;
        self.warn(warning);
    }

    /// What was probably meant by `word`, as a suggestion.
    pub(crate) fn suggest<'a>(
        &self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let near = if self.is_full() { None } else { near(word, known) };
        near.map(|known| format!("did you mean `{known}`?"))
    }

    pub(crate) fn count(&self) -> usize {
        self.mistakes.borrow().len() + *self.left_out.borrow()
    }

    /// The warnings, or all the mistakes if there are any, in the order of the file.
    pub(crate) fn finish(self, source: Source) -> Result<Warnings, Mistakes> {
        let warnings =
            Warnings { warnings: in_order(self.warnings.into_inner()), shown_in: source.clone() };
        let mistakes = in_order(self.mistakes.into_inner());
        if mistakes.is_empty() {
            return Ok(warnings);
        }
        Err(Mistakes { mistakes, left_out: self.left_out.into_inner(), warnings, shown_in: source })
    }

    fn is_full(&self) -> bool {
        self.mistakes.borrow().len() >= limits::MISTAKES
    }
}

/// The known word that `word` is like. Every word of one letter is like every other, so none is.
pub(crate) fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    word.chars().nth(1).and_then(|_| nearest(word, known))
}

/// In the order of the file; what was said twice about one place once.
fn in_order(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| mistake.span.start);
    let mut said = BTreeSet::new();
    mistakes.retain(|mistake| said.insert((mistake.span.start, mistake.message.clone())));
    mistakes
}
