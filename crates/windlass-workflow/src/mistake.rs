//! What is wrong with a workflow file, where, and what to do about it.
//!
//! A mistake knows its place in the text and nothing of what is done with it. Only the lines it
//! stands on are looked at to show it, so a large file costs no more than a small one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use thiserror::Error;

/// One thing to say about a workflow file.
///
/// ```
/// let mistakes = windlass_workflow::parse("flow.toml", "concurency = 4").unwrap_err();
/// let first = &mistakes.mistakes[0];
/// assert_eq!(first.message, "a workflow has no key `concurency`");
/// assert_eq!(first.span, 0..10);
/// assert_eq!(first.help.as_deref(), Some("did you mean `concurrency`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// A few words for the place itself.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The steps that wait for each other, if that is the mistake: each waits for the next, the
    /// last for the first. The message names only some of them.
    pub cycle: Vec<String>,
    /// Whether it is of no interest to someone who runs the file.
    pub(crate) only_in_check: bool,
}

impl Mistake {
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

/// Everything that keeps a file from being run, with the text to show it in.
///
/// ```
/// let mistakes = windlass_workflow::parse("flow.toml", "[step.a]\nrun = 1").unwrap_err();
/// assert!(mistakes.to_string().starts_with("error: step `a`: `run` is a number"));
/// assert!(mistakes.to_string().contains("flow.toml:2:7"));
/// ```
#[derive(Clone, Debug, Error)]
pub struct Mistakes {
    /// The mistakes, in the order in which they stand in the file; never empty.
    pub mistakes: Vec<Mistake>,
    /// How many more there are than are kept; see [`MISTAKES`](crate::limits::MISTAKES).
    pub left_out: usize,
    /// What else there is to say.
    pub warnings: Warnings,
    pub(crate) shown_in: Source,
}

impl Mistakes {
    /// The line and the column, from 1, on which a mistake begins.
    #[must_use]
    pub fn position(&self, mistake: &Mistake) -> (usize, usize) {
        self.shown_in.position(mistake)
    }

    /// Returns what [`Display`](fmt::Display) shows, in the colours of a terminal.
    ///
    /// ```
    /// let mistakes = windlass_workflow::parse("flow.toml", "concurency = 4").unwrap_err();
    /// assert!(mistakes.in_colours().contains("\x1b[") && !mistakes.to_string().contains("\x1b["));
    /// ```
    #[must_use]
    pub fn in_colours(&self) -> String {
        self.shown(&Renderer::styled())
    }

    fn shown(&self, renderer: &Renderer) -> String {
        let shown = self.shown_in.show(renderer, &Level::ERROR, &self.mistakes);
        match self.left_out {
            0 => shown,
            1 => shown + "\n\nand 1 more mistake",
            many => format!("{shown}\n\nand {many} more mistakes"),
        }
    }
}

impl fmt::Display for Mistakes {
    /// Each mistake with its line, the place underlined, and a suggestion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(&Renderer::plain()))
    }
}

/// What does not keep a file from being run, and is probably not meant.
///
/// ```
/// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'true'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let warnings = workflow.warnings();
/// assert_eq!(warnings.warnings[0].message, "nothing in this file uses the parameter `branch`");
/// # Ok::<(), windlass_workflow::Mistakes>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warnings {
    /// The warnings, in the order in which they stand in the file.
    pub warnings: Vec<Mistake>,
    pub(crate) shown_in: Source,
}

impl Warnings {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.warnings.is_empty()
    }

    /// Returns what [`Display`](fmt::Display) shows, in the colours of a terminal.
    #[must_use]
    pub fn in_colours(&self) -> String {
        self.shown_in.show(&Renderer::styled(), &Level::WARNING, &self.warnings)
    }

    /// Returns the warnings that matter to someone who runs the file: without those about what is
    /// unused, or written where it has no effect.
    ///
    /// ```
    /// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'true'";
    /// let workflow = windlass_workflow::parse("flow.toml", text)?;
    /// assert!(workflow.warnings().for_run().is_empty());
    /// # Ok::<(), windlass_workflow::Mistakes>(())
    /// ```
    #[must_use]
    pub fn for_run(&self) -> Self {
        let warnings = self.warnings.iter().filter(|warning| !warning.only_in_check);
        Self { warnings: warnings.cloned().collect(), shown_in: self.shown_in.clone() }
    }

    /// The line and the column, from 1, on which a warning begins.
    #[must_use]
    pub fn position(&self, warning: &Mistake) -> (usize, usize) {
        self.shown_in.position(warning)
    }
}

impl fmt::Display for Warnings {
    /// Each warning with its line, the place underlined, and a suggestion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown_in.show(&Renderer::plain(), &Level::WARNING, &self.warnings))
    }
}

/// A text, and how to call the file it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) file: Arc<str>,
    pub(crate) text: Arc<str>,
}

impl Source {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    fn position(&self, mistake: &Mistake) -> (usize, usize) {
        let Window { line, text, span } = self.window(&mistake.span);
        (line, 1 + text[..span.start].chars().count())
    }

    fn show(&self, renderer: &Renderer, level: &Level<'_>, mistakes: &[Mistake]) -> String {
        let shown: Vec<_> =
            mistakes.iter().map(|mistake| self.render(renderer, level, mistake)).collect();
        shown.join("\n\n")
    }

    fn render(&self, renderer: &Renderer, level: &Level<'_>, mistake: &Mistake) -> String {
        let Window { line, text, span } = self.window(&mistake.span);
        let place = AnnotationKind::Primary.span(span).label(&mistake.label);
        let snippet = Snippet::source(text).path(&*self.file).line_start(line).annotation(place);
        let mut group = level.clone().primary_title(&mistake.message).element(snippet);
        if let Some(help) = &mistake.help {
            group = group.element(Level::HELP.message(help));
        }
        renderer.clone().decor_style(DecorStyle::Ascii).render(&[group]).to_string()
    }

    /// The line on which a place begins, with the part of the place that stands on it.
    fn window(&self, span: &Range<usize>) -> Window<'_> {
        let start = boundary(&self.text, span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |end| start + end);
        let text = self.text[line_start..line_end].trim_end_matches('\r');
        let start = (start - line_start).min(text.len());
        let end = boundary(&self.text, span.end).saturating_sub(line_start).min(text.len());
        let line = 1 + self.text[..line_start].matches('\n').count();
        Window { line, text, span: start..end.max(start) }
    }
}

struct Window<'a> {
    line: usize,
    text: &'a str,
    span: Range<usize>,
}

/// The last place not after `at` where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_several_lines_is_shown_by_its_first() {
        let source = Source::new("f", "one\r\ntwo = [\r\n]\r\n");
        let Window { line, text, span } = source.window(&(11..15));
        assert_eq!((line, text, span), (2, "two = [", 6..7));
    }

    #[test]
    fn a_place_past_the_end_or_within_a_character_is_shown_all_the_same() {
        let source = Source::new("f", "é");
        assert_eq!(source.window(&(1..9)).span, 0..2);
        let rendered =
            source.render(&Renderer::plain(), &Level::ERROR, &Mistake::new(7..9, "m", "l"));
        assert!(rendered.contains("f:1:2"), "{rendered}");
    }
}
