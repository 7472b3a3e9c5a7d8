//! One attempt of a step: a process in a group of its own, with its output in a pipe.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use rustix::process::Pid;
use windlass_core::{Grant, Token, WorkId};
use windlass_workflow::{Shell, plain_words};

use crate::command::CommandSpec;
use crate::inherited::Inherited;
use crate::launch::{Launched, Launcher, Program};
use crate::limit_tag::NewTag;

/// The variable with the id of the run, for every process of the run.
pub(crate) const RUN_VARIABLE: &str = "WINDLASS_RUN";
/// The variable by which `windlass`, called by a process of a run, finds the run's store.
pub(crate) const STATE_VARIABLE: &str = "WINDLASS_STATE";
/// The variable with the path of an attempt's outputs.
pub(crate) const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable with the fencing tokens of the locks that an attempt holds, or of all names that
/// `windlass lock` or `windlass sem` holds for its command.
pub(crate) const FENCE_VARIABLE: &str = "WINDLASS_FENCE";

/// A process of a run that can be started at once.
pub(crate) struct Ready {
    pub(crate) order: CommandSpec,
    /// What to start without a shell, where that is known.
    program: Option<Program>,
    tag: Option<NewTag>,
}

impl Ready {
    /// Prepares a process that carries `tag`.
    pub(crate) fn new(order: CommandSpec, tag: &str) -> Self {
        let program = order.plain_program().or_else(|| order.shell());
        Self { program, tag: NewTag::for_child(tag), order }
    }

    /// Starts the process, which prints to `output`.
    pub(crate) fn start(
        &self,
        launcher: &mut Launcher,
        output: BorrowedFd<'_>,
    ) -> io::Result<Launched> {
        let mut launch = |program: &Program| launcher.launch(program, output, self.tag).ok();
        let started = self.program.as_ref().and_then(&mut launch);
        // A shell knows more ways to execute a file, and what to print if it cannot.
        let started = started.or_else(|| launch(&self.order.shell()?));
        // The standard library searches everywhere, and reports what is wrong.
        started.map_or_else(|| self.order.spawn(launcher.inherited(), output, self.tag), Ok)
    }
}

/// Finds the file of a program as a shell with this `PATH` would.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let mut dirs = env::split_paths(path);
    // A directory that depends on where the step runs is not searched here.
    let executable = |file: &PathBuf| access(file, Access::EXEC_OK).is_ok();
    let found = dirs.find_map(|dir| match dir.is_absolute() {
        true => Some(dir.join(program)).filter(executable).map(Some),
        false => Some(None),
    });
    found.flatten()
}

impl CommandSpec {
    /// Returns the program of a command line with which a shell would do nothing but start it.
    fn plain_program(&self) -> Option<Program> {
        let words = self.plain_words()?;
        self.in_file(&find(&words[0], &self.path()?)?, words.iter().map(String::as_str))
    }

    /// Returns the program that the command names: the shell, for a command line.
    fn shell(&self) -> Option<Program> {
        let name = self.program.as_str();
        let words = [name].into_iter().chain(self.arguments.iter().map(String::as_str));
        self.in_file(&find(name, &self.path()?)?, words)
    }

    /// Returns the program and its arguments, where a shell would do nothing but start it.
    fn plain_words(&self) -> Option<Vec<String>> {
        let (text, before) = self.arguments.split_last()?;
        let usual = Shell::default();
        let is_usual = self.program == usual.program && before == usual.arguments;
        // A function changes what a word means to a shell.
        let functions = self.env.iter().any(|(name, _)| name.starts_with(FUNCTION));
        if is_usual && !functions && !*HAS_FUNCTIONS { plain_words(text) } else { None }
    }

    /// Returns where the command finds programs: in its own `PATH`, or in that of this process.
    fn path(&self) -> Option<OsString> {
        let own = self.env.iter().rfind(|(name, _)| name == "PATH");
        let path = own.map_or_else(|| env::var_os("PATH"), |(_, path)| Some(path.into()));
        path.filter(|path| !path.is_empty())
    }

    /// Returns the program in a file, with the environment and directory of the command.
    fn in_file<'a>(&self, file: &Path, words: impl Iterator<Item = &'a str>) -> Option<Program> {
        let pwd = plain_path(&self.dir);
        let own = self.env.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        // A shell would set it, and some programs are started without one.
        let env: Vec<_> = [("PWD", pwd.as_os_str().as_bytes())].into_iter().chain(own).collect();
        Program::new(file, words, &env, &self.dir).ok()
    }

    fn spawn(
        &self,
        inherited: &Inherited,
        output: BorrowedFd<'_>,
        tag: Option<NewTag>,
    ) -> io::Result<Launched> {
        let mut command = Command::new(&self.program);
        inherited.give_to(&mut command);
        command
            .args(&self.arguments)
            .current_dir(&self.dir)
            .env("PWD", &*plain_path(&self.dir))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone_to_owned()?)
            .stderr(output.try_clone_to_owned()?)
            .process_group(0);
        Launched::by_command(&mut command, tag)
    }
}

/// How the names of variables begin by which some shells export functions.
const FUNCTION: &str = "BASH_FUNC_";

/// Whether the environment of this process has functions.
static HAS_FUNCTIONS: LazyLock<bool> = LazyLock::new(|| {
    let is_function = |name: &str| name.starts_with(FUNCTION);
    env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_function))
});

/// Returns the directory as `PWD` names it, without `.` and `..`.
fn plain_path(dir: &Path) -> std::borrow::Cow<'_, Path> {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if dir.components().all(plain) {
        return dir.into();
    }
    fs::canonicalize(dir).map_or(dir.into(), Into::into)
}

/// Joins tokens to one text, in the order of their names.
pub(crate) fn fence(tokens: &[Token]) -> String {
    tokens.iter().map(Token::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the directory of the files of a run.
pub(crate) fn run_dir(state: &Path, run: &str) -> PathBuf {
    state.join("runs").join(run)
}

/// Returns the path of the log of an attempt.
pub(crate) fn log_path(dir: &Path, grant: Grant, step: &str) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let step: String = step.chars().take(64).map(|c| if plain(c) { c } else { '_' }).collect();
    dir.join(format!("{}-{step}.{}.log", grant.work, grant.attempt))
}

/// Removes the files in `dir` of the steps that are `old`.
pub(crate) fn remove_logs(dir: &Path, old: impl Fn(WorkId) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.split_once('-')?.0.parse().ok());
        if number.and_then(WorkId::new).is_some_and(&old) {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}

/// Returns where the output of the `finally` goes that follows the attempt with the log `log`.
pub(crate) fn finally_log(log: &Path) -> PathBuf {
    log.with_extension("finally.log")
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
