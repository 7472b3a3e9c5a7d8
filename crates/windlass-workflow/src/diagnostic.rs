//! One error or warning about a workflow file, and how it is rendered.
//!
//! A diagnostic holds a span of the text. Rendering looks only at the line on which the span begins, so
//! it costs no more in a large file. Knows nothing of what the file means.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use thiserror::Error;

/// One error or warning about a workflow file.
///
/// ```
/// let errors = windlass_workflow::parse("flow.toml", "concurency = 4").unwrap_err();
/// let first = &errors.errors[0];
/// assert_eq!(first.message, "a workflow has no key `concurency`");
/// assert_eq!(first.span, 0..10);
/// assert_eq!(first.help.as_deref(), Some("did you mean `concurrency`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// What is wrong, in one sentence.
    pub message: String,
    /// The bytes of the text that it is about.
    pub span: Range<usize>,
    /// A few words to show below the span.
    pub label: String,
    /// How to correct it.
    pub help: Option<String>,
    /// The steps of a dependency cycle, if that is the error: each waits for the next one, the
    /// last one for the first. The message names only some of them.
    pub cycle: Vec<String>,
    /// Whether `check` shows it and `run` does not.
    pub(crate) only_in_check: bool,
}

impl Diagnostic {
    pub(crate) fn new(
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        Self {
            message: message.into(),
            span,
            label: label.into(),
            help: None,
            cycle: Vec::new(),
            only_in_check: false,
        }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        self.help_if(Some(help.into()))
    }

    pub(crate) fn help_if(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// All errors of a workflow file; with any of them the file cannot run.
///
/// ```
/// let errors = windlass_workflow::parse("flow.toml", "[step.a]\nrun = 1").unwrap_err();
/// assert!(errors.to_string().starts_with("error: step `a`: `run` is a number"));
/// assert!(errors.to_string().contains("flow.toml:2:7"));
/// ```
#[derive(Clone, Debug, Error)]
pub struct ParseErrors {
    /// The errors, in the order of the file; never empty.
    pub errors: Vec<Diagnostic>,
    /// The number of errors beyond [`DIAGNOSTICS`](crate::limits::DIAGNOSTICS), which are not in
    /// `errors`.
    pub omitted: usize,
    /// The warnings about the same file.
    pub warnings: Warnings,
    pub(crate) file: SourceFile,
}

impl ParseErrors {
    /// Returns the line and the column, both from 1, where an error begins.
    #[must_use]
    pub fn position(&self, error: &Diagnostic) -> (usize, usize) {
        self.file.position(error)
    }

    /// Renders as [`Display`](fmt::Display) does, with terminal colours.
    ///
    /// ```
    /// let errors = windlass_workflow::parse("flow.toml", "concurency = 4").unwrap_err();
    /// assert!(errors.in_colours().contains("\x1b[") && !errors.to_string().contains("\x1b["));
    /// ```
    #[must_use]
    pub fn in_colours(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let rendered = self.file.render_all(renderer, &Level::ERROR, &self.errors);
        match self.omitted {
            0 => rendered,
            1 => rendered + "\n\nand 1 more error",
            many => format!("{rendered}\n\nand {many} more errors"),
        }
    }
}

impl fmt::Display for ParseErrors {
    /// Renders each error with its line, the span underlined, and its help text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

/// Warnings about a workflow file: it can run, but probably does not do what its author meant.
///
/// ```
/// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'true'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let warnings = workflow.warnings();
/// assert_eq!(warnings.warnings[0].message, "nothing in this file uses the parameter `branch`");
/// # Ok::<(), windlass_workflow::ParseErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warnings {
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
    pub(crate) file: SourceFile,
}

impl Warnings {
    /// Returns whether there are no warnings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.warnings.is_empty()
    }

    /// Renders as [`Display`](fmt::Display) does, with terminal colours.
    #[must_use]
    pub fn in_colours(&self) -> String {
        self.file.render_all(&Renderer::styled(), &Level::WARNING, &self.warnings)
    }

    /// Returns the warnings that matter when the file runs: all but those about unused parameters
    /// and about placeholders where they have no effect.
    ///
    /// ```
    /// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'true'";
    /// let workflow = windlass_workflow::parse("flow.toml", text)?;
    /// assert!(workflow.warnings().for_run().is_empty());
    /// # Ok::<(), windlass_workflow::ParseErrors>(())
    /// ```
    #[must_use]
    pub fn for_run(&self) -> Self {
        let warnings = self.warnings.iter().filter(|warning| !warning.only_in_check);
        Self { warnings: warnings.cloned().collect(), file: self.file.clone() }
    }

    /// Returns the line and the column, both from 1, where a warning begins.
    #[must_use]
    pub fn position(&self, warning: &Diagnostic) -> (usize, usize) {
        self.file.position(warning)
    }
}

impl fmt::Display for Warnings {
    /// Renders each warning with its line, the span underlined, and its help text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file.render_all(&Renderer::plain(), &Level::WARNING, &self.warnings))
    }
}

/// The text of a workflow file, and the file's name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    name: Arc<str>,
    text: Arc<str>,
}

impl SourceFile {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    fn position(&self, diagnostic: &Diagnostic) -> (usize, usize) {
        let SourceLine { number, text, span } = self.first_line(&diagnostic.span);
        (number, 1 + text[..span.start].chars().count())
    }

    fn render_all(
        &self,
        renderer: &Renderer,
        level: &Level<'_>,
        diagnostics: &[Diagnostic],
    ) -> String {
        let rendered: Vec<_> =
            diagnostics.iter().map(|diagnostic| self.render(renderer, level, diagnostic)).collect();
        rendered.join("\n\n")
    }

    fn render(&self, renderer: &Renderer, level: &Level<'_>, diagnostic: &Diagnostic) -> String {
        let SourceLine { number, text, span } = self.first_line(&diagnostic.span);
        let underlined = AnnotationKind::Primary.span(span).label(&diagnostic.label);
        let snippet =
            Snippet::source(text).path(&*self.name).line_start(number).annotation(underlined);
        let mut group = level.clone().primary_title(&diagnostic.message).element(snippet);
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help));
        }
        renderer.clone().decor_style(DecorStyle::Ascii).render(&[group]).to_string()
    }

    /// Returns the line on which a span begins, with the part of the span on that line.
    fn first_line(&self, span: &Range<usize>) -> SourceLine<'_> {
        let start = char_boundary(&self.text, span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |end| start + end);
        let text = self.text[line_start..line_end].trim_end_matches('\r');
        let start = (start - line_start).min(text.len());
        let end = char_boundary(&self.text, span.end).saturating_sub(line_start).min(text.len());
        let number = 1 + self.text[..line_start].matches('\n').count();
        SourceLine { number, text, span: start..end.max(start) }
    }
}

struct SourceLine<'a> {
    number: usize,
    text: &'a str,
    span: Range<usize>,
}

/// Returns the last character boundary that is not after `at`.
fn char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_several_lines_is_shown_by_its_first() {
        let file = SourceFile::new("f", "one\r\ntwo = [\r\n]\r\n");
        let SourceLine { number, text, span } = file.first_line(&(11..15));
        assert_eq!((number, text, span), (2, "two = [", 6..7));
    }

    #[test]
    fn a_span_past_the_end_or_within_a_character_is_still_shown() {
        let file = SourceFile::new("f", "é");
        assert_eq!(file.first_line(&(1..9)).span, 0..2);
        let rendered =
            file.render(&Renderer::plain(), &Level::ERROR, &Diagnostic::new(7..9, "m", "l"));
        assert!(rendered.contains("f:1:2"), "{rendered}");
    }
}
