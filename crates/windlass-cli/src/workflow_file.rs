//! Reads a workflow file from disk, a pipe or standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_workflow::Workflow;

use crate::arguments::Form;

/// The maximum size of a workflow file. Some files never end.
const LARGEST: u64 = 64 << 20;

/// The file that is used if none is named.
pub(crate) const DEFAULT: &str = "windlass.toml";

/// The argument that means standard input.
const STANDARD_INPUT: &str = "-";

/// A workflow without errors, with its text.
pub(crate) struct WorkflowFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) workflow: Workflow,
    path: PathBuf,
    source: Source,
}

/// The source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A file in a directory.
    File,
    /// Standard input, a pipe or a device, which has no directory.
    Stream,
}

/// Why a file has no text.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file} is not valid UTF-8: line {line} has an invalid byte; save the file as UTF-8")]
    NotUtf8 { file: String, line: usize, column: usize },
    #[error("{file} is larger than {} MiB, the maximum for a workflow file", LARGEST >> 20)]
    TooLarge { file: String },
    #[error(
        "there is no {DEFAULT} in this directory; name a workflow file, or write one to start from with: windlass init"
    )]
    NoDefault,
    #[error("there is no file {file}; {instead}")]
    Missing { file: String, instead: String },
}

impl FileError {
    /// Returns the error for a file that cannot be opened. A missing one may lack its ending.
    fn open(path: &Path, source: io::Error) -> Self {
        let file = called(path);
        let whole = path.with_added_extension("toml");
        match source.kind() == io::ErrorKind::NotFound && whole.is_file() {
            true => {
                FileError::Missing { file, instead: format!("did you mean {}?", whole.display()) }
            }
            false => FileError::Io { file, source },
        }
    }

    /// Replaces the error for a missing file if another argument is one, or if it looks like a step of
    /// [`DEFAULT`].
    pub(crate) fn or_step(self, path: &Path, steps: &[String]) -> Self {
        let (file, source) = match self {
            FileError::Io { file, source } if source.kind() == io::ErrorKind::NotFound => {
                (file, source)
            }
            error => return error,
        };
        let is_word = path.extension().is_none() && path.components().count() == 1;
        let other = steps.iter().find(|step| Path::new(step).is_file());
        let instead = match other.map(String::as_str) {
            Some(other) => format!("the file comes before the steps: windlass run {other} {file}"),
            None if is_word && Path::new(DEFAULT).exists() => {
                format!("to run a step of {DEFAULT}: windlass run {DEFAULT} {file}")
            }
            None => return FileError::Io { file, source },
        };
        FileError::Missing { file, instead }
    }
}

/// Returns the named file, or [`DEFAULT`] if the current directory has it.
pub(crate) fn named_or_default(named: Option<&Path>) -> Result<&Path, FileError> {
    let default = Path::new(DEFAULT);
    match named {
        Some(named) => Ok(named),
        None if default.exists() => Ok(default),
        None => Err(FileError::NoDefault),
    }
}

/// Why the directory of the steps cannot be used.
#[derive(Debug, Error)]
#[error("cannot use {} as the directory of the steps: {source}", dir.display())]
pub(crate) struct DirError {
    dir: PathBuf,
    source: io::Error,
}

impl WorkflowFile {
    /// Reads a file to run it, and prints its errors and the warnings that matter then. Returns none if
    /// it has errors.
    pub(crate) fn open(path: &Path, form: Form) -> Result<Option<Self>, FileError> {
        let file = Self::parse(path, form)?;
        Ok(file.inspect(|file| form.warn(&file.name, &file.workflow.warnings().for_run())))
    }

    /// Reads a file, and prints its errors and all warnings. Returns none if it has errors.
    pub(crate) fn check(path: &Path, form: Form) -> Result<Option<Self>, FileError> {
        let file = Self::parse(path, form)?;
        Ok(file.inspect(|file| form.warn(&file.name, file.workflow.warnings())))
    }

    /// Reads a file, and prints its errors. Returns none if it has errors.
    pub(crate) fn parse(path: &Path, form: Form) -> Result<Option<Self>, FileError> {
        let name = path.display().to_string();
        let (text, source) = match read(path) {
            Err(FileError::NotUtf8 { line, column, .. }) if form == Form::Json => {
                Form::refuse_bytes(&name, (line, column));
                return Ok(None);
            }
            read => read?,
        };
        match windlass_workflow::parse(&name, &text) {
            Ok(workflow) => {
                let path = path.to_owned();
                Ok(Some(Self { name, text, workflow, path, source }))
            }
            Err(mistakes) => {
                form.refuse(&name, &mistakes);
                form.warn(&name, &mistakes.warnings);
                Ok(None)
            }
        }
    }

    /// Returns the directory in which steps run: that of the file, or that of the caller for a stream.
    pub(crate) fn dir(&self) -> Result<PathBuf, DirError> {
        let dir = match self.source {
            Source::File => beside(&self.path),
            Source::Stream => Path::new("."),
        };
        fs::canonicalize(dir).map_err(|source| DirError { dir: dir.to_owned(), source })
    }

    /// Returns its name in a message.
    pub(crate) fn called(&self) -> String {
        called(&self.path)
    }
}

fn read(path: &Path) -> Result<(String, Source), FileError> {
    let file = || called(path);
    let (reader, source) = open(path).map_err(|source| FileError::open(path, source))?;
    let mut bytes = Vec::new();
    let read = reader.take(LARGEST + 1).read_to_end(&mut bytes);
    let size = read.map_err(|source| FileError::Io { file: file(), source })?;
    if u64::try_from(size).is_ok_and(|size| size > LARGEST) {
        return Err(FileError::TooLarge { file: file() });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        let on_line = good.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let column = 1 + String::from_utf8_lossy(on_line).chars().count();
        FileError::NotUtf8 { file: file(), line, column }
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

/// Returns whether a path names a file that is open already, such as `/dev/stdin` and `/proc/self/fd/3`.
/// Directories below `/dev`, such as `/dev/shm`, may have files of their own.
fn is_descriptor(path: &Path) -> bool {
    let dir = fs::canonicalize(beside(path));
    dir.is_ok_and(|dir| dir == Path::new("/dev") || dir.starts_with("/proc"))
}

/// Returns the directory of a path.
fn beside(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// Returns the name of a file in a message.
fn called(path: &Path) -> String {
    match path == Path::new(STANDARD_INPUT) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}
