//! One attempt of a step: a process in a group of its own, with its output in a log file.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use rustix::process::Pid;
use windlass_core::{Grant, Token};
use windlass_workflow::{Shell, plain_words};

use crate::order::Order;
use crate::spawn::{Spawned, spawn_lasting};

/// The variable that tells every process of a run which run it is.
pub(crate) const RUN_VARIABLE: &str = "WINDLASS_RUN";
/// The variable that carries the tokens of the names that an attempt holds.
pub(crate) const FENCE_VARIABLE: &str = "WINDLASS_FENCE";

/// Starts a process of a run, with its output in `log`.
pub(crate) fn start(order: &Order, log: &Path) -> io::Result<Spawned> {
    // Whatever else opens it, such as a step that writes to `/dev/stderr`, nobody writes over others.
    let log = File::options().create(true).append(true).open(log)?;
    if let Some(words) = order.plain_words()
        && let Some(program) = find(&words[0])
        && let Ok(started) = order.spawn(program.as_os_str(), &words[0], &words[1..], &log)
    {
        return Ok(started);
    }
    // What cannot be executed is the shell's affair: it knows more ways, and what to say.
    let shell = order.program.as_str();
    order.spawn(OsStr::new(shell), shell, &order.arguments, &log)
}

/// The file of a program, as a shell would find it.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH")?;
    let mut dirs = env::split_paths(&path);
    // Those that depend on where the step runs are not looked into here.
    let executable = |file: &PathBuf| access(file, Access::EXEC_OK).is_ok();
    let found = dirs.find_map(|dir| match dir.is_absolute() {
        true => Some(dir.join(program)).filter(executable).map(Some),
        false => Some(None),
    });
    found.flatten()
}

impl Order {
    /// The program and its arguments, where a shell would do nothing but start it.
    fn plain_words(&self) -> Option<Vec<String>> {
        let (text, before) = self.arguments.split_last()?;
        let usual = Shell::default();
        let is_usual = self.program == usual.program && before == usual.arguments;
        // What else can tell a shell what a word means.
        let redefined = |name: &str| name == "PATH" || name.starts_with(FUNCTION);
        let own = self.env.iter().any(|(name, _)| redefined(name));
        if is_usual && !own && *PLAIN_ENVIRONMENT { plain_words(text) } else { None }
    }

    fn spawn(
        &self,
        program: &OsStr,
        name: &str,
        arguments: &[String],
        log: &File,
    ) -> io::Result<Spawned> {
        let mut command = Command::new(program);
        command
            .arg0(name)
            .args(arguments)
            .current_dir(&self.dir)
            // What a shell would set, for programs that are started without one.
            .env("PWD", &*plain_path(&self.dir))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        spawn_lasting(&mut command)
    }
}

/// How variables begin by which some shells hand functions on.
const FUNCTION: &str = "BASH_FUNC_";

/// Whether nothing in our own environment changes what a word means to a shell.
static PLAIN_ENVIRONMENT: LazyLock<bool> = LazyLock::new(|| {
    let is_function = |name: &str| name.starts_with(FUNCTION);
    let functions = env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_function));
    env::var_os("PATH").is_some_and(|path| !path.is_empty()) && !functions
});

/// The directory as `PWD` may tell it, without `.` and `..`.
fn plain_path(dir: &Path) -> std::borrow::Cow<'_, Path> {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if dir.components().all(plain) {
        return dir.into();
    }
    fs::canonicalize(dir).map_or(dir.into(), Into::into)
}

/// The tokens as one word each, in the order of the names.
pub(crate) fn fence(tokens: &[Token]) -> String {
    tokens.iter().map(Token::to_string).collect::<Vec<_>>().join(" ")
}

/// Where the output of an attempt goes.
pub(crate) fn log_path(dir: &Path, grant: Grant, step: &str) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let step: String = step.chars().take(64).map(|c| if plain(c) { c } else { '_' }).collect();
    dir.join(format!("{}-{step}.{}.log", grant.work, grant.attempt))
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
