//! What is wrong with a workflow file: for people on standard error, in colours where there are any,
//! and for programs on standard output.

use serde::Serialize;
use windlass_server::is_unprintable;
use windlass_workflow::{ParseErrors, Warnings};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::style::{Colours, Style};

/// One mistake or warning, for programs.
#[derive(Serialize)]
struct Diagnostic<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    label: &'a str,
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    cycle: &'a [String],
}

/// How many mistakes were found beyond those that are told, for programs.
#[derive(Serialize)]
struct MoreMistakes<'a> {
    file: &'a str,
    number: usize,
}

impl Form {
    /// Tells the mistakes that keep a file from being used.
    pub(crate) fn refuse(self, file: &str, mistakes: &ParseErrors) -> Exit {
        match self {
            Form::Text if is_coloured() => tell(&mistakes.in_colours().to_string()),
            Form::Text => tell(&mistakes.to_string()),
            Form::Json => {
                for mistake in &mistakes.errors {
                    Diagnostic::new(file, mistake, mistakes.position(mistake)).print("mistake");
                }
                if mistakes.omitted > 0 {
                    let more = MoreMistakes { file, number: mistakes.omitted };
                    print(&json("more_mistakes", &more));
                }
            }
        }
        Exit::Usage
    }

    pub(crate) fn warn(self, file: &str, warnings: &Warnings) {
        match self {
            _ if warnings.is_empty() => {}
            Form::Text if is_coloured() => tell(&warnings.in_colours().to_string()),
            Form::Text => tell(&warnings.to_string()),
            Form::Json => warnings.warnings.iter().for_each(|warning| {
                Diagnostic::new(file, warning, warnings.position(warning)).print("warning");
            }),
        }
    }

    /// Tells a program that a file is not text, at the line and the column where it ceases to be.
    pub(crate) fn refuse_bytes(file: &str, (line, column): (usize, usize)) {
        let diagnostic = Diagnostic {
            file,
            line,
            column,
            message: "the file is not text in UTF-8",
            label: "a byte that does not belong there",
            help: Some("save it as UTF-8"),
            cycle: &[],
        };
        diagnostic.print("mistake");
    }
}

/// Prints diagnostics, which quote lines of the file. What ends lines and sets colours is from the
/// renderer; everything else that would not print in its place is from the file.
fn tell(rendered: &str) {
    let quoted = |c: char| is_unprintable(c) && !c.is_ascii_control();
    eprintln!("{}", rendered.replace(quoted, "\u{fffd}"));
}

fn is_coloured() -> bool {
    Style::of_stderr().colours == Colours::Ansi
}

impl<'a> Diagnostic<'a> {
    fn new(
        file: &'a str,
        mistake: &'a windlass_workflow::Diagnostic,
        (line, column): (usize, usize),
    ) -> Self {
        let windlass_workflow::Diagnostic { message, label, help, cycle, .. } = mistake;
        let help = help.as_deref();
        Self { file, line, column, message, label, help, cycle }
    }

    fn print(&self, event: &str) {
        print(&json(event, self));
    }
}
