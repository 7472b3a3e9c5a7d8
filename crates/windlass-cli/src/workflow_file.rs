//! A workflow file: read from disk, a pipe or standard input, and what is wrong with it told.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use windlass_workflow::{Mistake, Mistakes, Warnings, Workflow};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};

/// No workflow is larger. Some files never end.
const LARGEST: u64 = 64 << 20;

/// What stands for standard input in the place of a file.
const STANDARD_INPUT: &str = "-";

/// A workflow without mistakes, with the text it was read from.
pub(crate) struct WorkflowFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) workflow: Workflow,
    path: PathBuf,
    source: Source,
}

/// Where a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A file that lies in a directory.
    File,
    /// Standard input, a pipe, a device: something that lies nowhere.
    Stream,
}

/// Why a file has no text to look at.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("{file} cannot be read: {source}")]
    Io { file: String, source: io::Error },
    #[error(
        "{file} is not text in UTF-8: line {line} has a byte that does not belong there; save it as UTF-8"
    )]
    NotUtf8 { file: String, line: usize },
    #[error("{file} is larger than {} MiB, which is more than a workflow may be", LARGEST >> 20)]
    TooLarge { file: String },
}

/// Why there is no directory for steps to run in.
#[derive(Debug, Error)]
#[error("the directory {}, in which the steps would run, cannot be had: {source}", dir.display())]
pub(crate) struct DirError {
    dir: PathBuf,
    source: io::Error,
}

impl WorkflowFile {
    /// Reads a file, and tells its mistakes and warnings. None if it has mistakes.
    pub(crate) fn open(path: &Path, form: Form) -> Result<Option<Self>, FileError> {
        let name = path.display().to_string();
        let (text, source) = read(path)?;
        match windlass_workflow::parse(&name, &text) {
            Ok(workflow) => {
                form.tell_warnings(&name, workflow.warnings());
                let path = path.to_owned();
                Ok(Some(Self { name, text, workflow, path, source }))
            }
            Err(mistakes) => {
                form.tell_mistakes(&name, &mistakes);
                form.tell_warnings(&name, &mistakes.warnings);
                Ok(None)
            }
        }
    }

    /// Steps run beside their workflow file, wherever the command was called; where it was called if
    /// what was read lies nowhere.
    pub(crate) fn dir(&self) -> Result<PathBuf, DirError> {
        let dir = match self.source {
            Source::File => beside(&self.path),
            Source::Stream => Path::new("."),
        };
        fs::canonicalize(dir).map_err(|source| DirError { dir: dir.to_owned(), source })
    }

    /// What it is called in a sentence.
    pub(crate) fn called(&self) -> String {
        called(&self.path)
    }
}

fn read(path: &Path) -> Result<(String, Source), FileError> {
    let file = || called(path);
    let (reader, source) = open(path).map_err(|source| FileError::Io { file: file(), source })?;
    let mut bytes = Vec::new();
    let read = reader.take(LARGEST + 1).read_to_end(&mut bytes);
    let size = read.map_err(|source| FileError::Io { file: file(), source })?;
    if u64::try_from(size).is_ok_and(|size| size > LARGEST) {
        return Err(FileError::TooLarge { file: file() });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        FileError::NotUtf8 { file: file(), line }
    })?;
    Ok((text, source))
}

fn open(path: &Path) -> io::Result<(Box<dyn Read>, Source)> {
    if path == Path::new(STANDARD_INPUT) {
        return Ok((Box::new(io::stdin().lock()), Source::Stream));
    }
    let file = File::open(path)?;
    let lies_somewhere = file.metadata()?.is_file() && !is_descriptor(path);
    let source = if lies_somewhere { Source::File } else { Source::Stream };
    Ok((Box::new(file), source))
}

/// Whether a path only stands for a file that is open already, as `/dev/stdin` and `/proc/self/fd/3`
/// do. Files may well lie below `/dev`, in `/dev/shm`.
fn is_descriptor(path: &Path) -> bool {
    let dir = fs::canonicalize(beside(path));
    dir.is_ok_and(|dir| dir == Path::new("/dev") || dir.starts_with("/proc"))
}

/// The directory that a path leads to.
fn beside(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// What a file is called in a sentence.
fn called(path: &Path) -> String {
    match path == Path::new(STANDARD_INPUT) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
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
    /// Tells the mistakes of a file that was read before.
    pub(crate) fn refuse(self, file: &str, mistakes: &Mistakes) -> Exit {
        self.tell_mistakes(file, mistakes);
        Exit::Usage
    }

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
