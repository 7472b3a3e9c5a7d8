//! What is wrong with a workflow file, where, and what to do about it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use thiserror::Error;

/// One mistake in a workflow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// A few words for the place itself.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Mistake {
    pub(crate) fn new(span: Range<usize>, message: String, label: impl Into<String>) -> Self {
        Self { message, span, label: label.into(), help: None }
    }

    pub(crate) fn help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// Everything that is wrong with one file, with the text to show it in.
#[derive(Clone, Debug, Error)]
pub struct Mistakes {
    /// The mistakes, in the order in which they stand in the file; never empty.
    pub mistakes: Vec<Mistake>,
    pub(crate) file: String,
    pub(crate) text: String,
}

impl fmt::Display for Mistakes {
    /// Each mistake with its line, the place underlined, and a suggestion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            let gap = if number == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{}", self.render(mistake))?;
        }
        Ok(())
    }
}

impl Mistakes {
    fn render(&self, mistake: &Mistake) -> String {
        let place = AnnotationKind::Primary.span(mistake.span.clone()).label(&mistake.label);
        let snippet = Snippet::source(&self.text).path(&self.file).annotation(place);
        let mut group = Level::ERROR.primary_title(&mistake.message).element(snippet);
        if let Some(help) = &mistake.help {
            group = group.element(Level::HELP.message(help));
        }
        Renderer::plain().decor_style(DecorStyle::Ascii).render(&[group]).to_string()
    }
}
