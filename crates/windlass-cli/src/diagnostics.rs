//! Errors and warnings of a workflow file: for users on standard error, and for programs on standard
//! output.

use serde::Serialize;
use windlass_server::is_unprintable;
use windlass_workflow::{ParseErrors, Warnings};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::style::{Colours, Style};

/// An error or a warning of a workflow file, for programs.
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

/// The number of errors beyond those that are printed, for programs.
#[derive(Serialize)]
struct MoreMistakes<'a> {
    file: &'a str,
    number: usize,
}

impl Form {
    /// Prints the errors of a file, and returns the exit code.
    pub(crate) fn refuse(self, file: &str, mistakes: &ParseErrors) -> Exit {
        match self {
            Form::Text if is_coloured() => print_to_stderr(&mistakes.in_colours().to_string()),
            Form::Text => print_to_stderr(&mistakes.to_string()),
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
            Form::Text if is_coloured() => print_to_stderr(&warnings.in_colours().to_string()),
            Form::Text => print_to_stderr(&warnings.to_string()),
            Form::Json => warnings.warnings.iter().for_each(|warning| {
                Diagnostic::new(file, warning, warnings.position(warning)).print("warning");
            }),
        }
    }

    /// Prints that a file is not valid UTF-8 from this line and column on, for programs.
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

/// Prints diagnostics, which quote lines of the file. Line breaks and colours are from the renderer; all
/// other control characters are from the file and are replaced.
fn print_to_stderr(rendered: &str) {
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
