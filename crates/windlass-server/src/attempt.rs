//! One attempt of a step: a process in a group of its own, with its output in a log file.

use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use rustix::process::Pid;
use windlass_core::{Grant, Token};
use windlass_workflow::{Shell, plain_words};

use crate::launch::{Launched, Launcher, Program, nul};
use crate::order::Order;

/// The variable that tells every process of a run which run it is.
pub(crate) const RUN_VARIABLE: &str = "WINDLASS_RUN";
/// The variable that carries the tokens of the names that an attempt holds.
pub(crate) const FENCE_VARIABLE: &str = "WINDLASS_FENCE";

/// Starts a process of a run, with its output in `log`.
pub(crate) fn start(launcher: &mut Launcher, order: &Order, log: &File) -> io::Result<Launched> {
    if let Some(words) = order.plain_words()
        && let Some(file) = find(&words[0])
        && let Ok(started) = order
            .launch(launcher, &Call { file: &file, name: &words[0], arguments: &words[1..], log })
    {
        return Ok(started);
    }
    // What cannot be executed is the shell's affair: it knows more ways, and what to say.
    let name = order.program.as_str();
    if !order.sets("PATH")
        && let Some(file) = find(name)
        && let Ok(started) =
            order.launch(launcher, &Call { file: &file, name, arguments: &order.arguments, log })
    {
        return Ok(started);
    }
    // The standard library looks everywhere, and says what is wrong.
    order.spawn(log)
}

/// A program in a file, and how it is called.
struct Call<'a> {
    file: &'a Path,
    name: &'a str,
    arguments: &'a [String],
    log: &'a File,
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

    /// Whether it has a variable of its own of this name.
    fn sets(&self, variable: &str) -> bool {
        self.env.iter().any(|(name, _)| name == variable)
    }

    fn launch(&self, launcher: &mut Launcher, call: &Call<'_>) -> io::Result<Launched> {
        let text = |text: &[u8]| CString::new(text).map_err(nul);
        let words = [call.name].into_iter().chain(call.arguments.iter().map(String::as_str));
        let pwd = plain_path(&self.dir);
        let own = self.env.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        launcher.launch(&Program {
            file: text(call.file.as_os_str().as_bytes())?,
            arguments: words.map(|word| text(word.as_bytes())).collect::<io::Result<_>>()?,
            // What a shell would set, for programs that are started without one.
            env: [(&b"PWD"[..], pwd.as_os_str().as_bytes())].into_iter().chain(own).collect(),
            dir: text(self.dir.as_os_str().as_bytes())?,
            output: call.log.as_fd(),
        })
    }

    fn spawn(&self, log: &File) -> io::Result<Launched> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.dir)
            .env("PWD", &*plain_path(&self.dir))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        Launched::by_command(&mut command)
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
