//! A workflow file: read from disk, and what is wrong with it told.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use windlass_workflow::{Mistake, Mistakes, Warnings, Workflow};

use crate::arguments::Form;
use crate::output::{json, print};

/// No workflow is larger. Some files never end.
const LARGEST: u64 = 64 << 20;

/// A workflow without mistakes, with the text it was read from.
pub(crate) struct WorkflowFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) workflow: Workflow,
}

/// Why a file has no text to look at.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("{} cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} is not text in UTF-8: line {line} has a byte that does not belong there; save it as UTF-8",
        path.display()
    )]
    NotUtf8 { path: PathBuf, line: usize },
    #[error("{} is larger than {} MiB, which is more than a workflow may be", path.display(), LARGEST >> 20)]
    TooLarge { path: PathBuf },
}

impl WorkflowFile {
    /// Reads a file, and tells its mistakes and warnings. None if it has mistakes.
    pub(crate) fn open(path: &Path, form: Form) -> Result<Option<Self>, FileError> {
        let (name, text) = (path.display().to_string(), read(path)?);
        match windlass_workflow::parse(&name, &text) {
            Ok(workflow) => {
                form.tell_warnings(&name, workflow.warnings());
                Ok(Some(Self { name, text, workflow }))
            }
            Err(mistakes) => {
                form.tell_mistakes(&name, &mistakes);
                form.tell_warnings(&name, &mistakes.warnings);
                Ok(None)
            }
        }
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    let path_buf = || path.to_owned();
    let mut bytes = Vec::new();
    let file = File::open(path).map(|file| file.take(LARGEST + 1));
    let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
    let size = read.map_err(|source| FileError::Io { path: path_buf(), source })?;
    if u64::try_from(size).is_ok_and(|size| size > LARGEST) {
        return Err(FileError::TooLarge { path: path_buf() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        FileError::NotUtf8 { path: path_buf(), line }
    })
}

/// One mistake or warning, for programs.
#[derive(Serialize)]
struct Told<'a> {
    schema: u32,
    event: &'static str,
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    label: &'a str,
    help: Option<&'a str>,
}

impl Form {
    fn tell_mistakes(self, file: &str, mistakes: &Mistakes) {
        match self {
            Form::Text => eprintln!("{mistakes}"),
            Form::Json => mistakes.mistakes.iter().for_each(|mistake| {
                Told::new("mistake", file, mistake, mistakes.position(mistake)).print();
            }),
        }
    }

    fn tell_warnings(self, file: &str, warnings: &Warnings) {
        match self {
            _ if warnings.is_empty() => {}
            Form::Text => eprintln!("{warnings}"),
            Form::Json => warnings.warnings.iter().for_each(|warning| {
                Told::new("warning", file, warning, warnings.position(warning)).print();
            }),
        }
    }
}

impl<'a> Told<'a> {
    fn new(
        event: &'static str,
        file: &'a str,
        mistake: &'a Mistake,
        (line, column): (usize, usize),
    ) -> Self {
        let Mistake { message, label, help, .. } = mistake;
        Self { schema: 1, event, file, line, column, message, label, help: help.as_deref() }
    }

    fn print(&self) {
        print(&json(self));
    }
}
