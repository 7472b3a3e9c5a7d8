//! One check of a condition: a shell with a time limit, which ends with everything it has started.

use std::fmt;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;
use rustix::process::{PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use windlass_store::ProcessTree;
use windlass_workflow::{Script, format_duration};

use crate::attempt::pid;
use crate::command::{CommandSpec, script_command};
use crate::fence;
use crate::inherited::Inherited;
use crate::poll::poll;
use crate::proc_fs;
use crate::process_tag::{self, TAG_VARIABLE};
use crate::signals::SignalPipe;
use crate::spawn::{GroupChoice, Spawned, spawn};
use crate::tree;

/// How many bytes of the last output are kept.
const TAIL: usize = 400;

/// What to check, and where.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The script of the condition.
    pub script: &'a Script,
    /// The variables to which its text refers, and all others that it is given.
    pub env: &'a [(String, String)],
    /// The directory in which it runs.
    pub dir: &'a Path,
    /// How long it may take.
    pub limit: Duration,
    /// The tags that its processes carry; no other process carries the last of them.
    pub tags: &'a str,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The condition holds.
    Passed,
    /// It does not hold, or not yet.
    NotYet(NotYet),
    /// It cannot be checked.
    Broken(Broken),
}

/// Why a condition does not hold, with the last line that it printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotYet {
    /// It exited with another code than 0.
    Exit {
        /// The exit code.
        code: i32,
        /// The last line that it printed.
        said: String,
    },
    /// A signal ended it.
    Signal {
        /// The signal.
        signal: i32,
        /// The last line that it printed.
        said: String,
    },
    /// It took too long, and was ended with everything it had started.
    TimedOut {
        /// How long it was given.
        limit: Duration,
        /// The last line that it printed.
        said: String,
    },
}

/// Why a condition cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// 126 if its command cannot be executed, 127 if it cannot be found.
    pub code: i32,
    /// What the shell printed about it.
    pub said: String,
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            NotYet::Exit { code, said } => {
                write!(f, "exit code {code}")?;
                said
            }
            NotYet::Signal { signal, said } => {
                write!(f, "ended by signal {signal}")?;
                said
            }
            NotYet::TimedOut { limit, said } => {
                write!(f, "not done within {}", format_duration(*limit))?;
                said
            }
        };
        if said.is_empty() { Ok(()) } else { write!(f, ": {said}") }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.code {
            127 => "command not found",
            _ => "cannot execute a command",
        })?;
        if self.said.is_empty() { Ok(()) } else { write!(f, ": {}", self.said) }
    }
}

/// A command that checks a condition.
#[derive(Clone, Copy)]
pub(crate) struct CheckCommand<'a> {
    pub(crate) command: &'a CommandSpec,
    pub(crate) inherited: &'a Inherited,
    /// How long it may take.
    pub(crate) limit: Duration,
    /// The tags that its processes carry; no other process carries the last of them.
    pub(crate) tags: &'a str,
}

impl CheckCommand<'_> {
    /// Returns the tag that only the processes of this check carry.
    fn own_tag(&self) -> &str {
        self.tags.rsplit(' ').next().unwrap_or_default()
    }
}

impl Check<'_> {
    fn command(&self) -> CommandSpec {
        let (program, arguments) = script_command(self.script);
        CommandSpec { program, arguments, env: self.env.to_vec(), dir: self.dir.to_owned() }
    }

    fn run(
        &self,
        inherited: &Inherited,
        stop: Option<&dyn AsFd>,
    ) -> io::Result<Option<CheckResult>> {
        let (command, Check { limit, tags, .. }) = (&self.command(), *self);
        check_until(&CheckCommand { command, inherited, limit, tags }, stop)
    }
}

/// Runs a condition once, or until a signal comes.
pub(crate) fn check_until_signal(
    check: &Check<'_>,
    inherited: &Inherited,
    signals: &SignalPipe,
) -> io::Result<Result<CheckResult, i32>> {
    match check.run(inherited, Some(signals))? {
        Some(result) => Ok(Ok(result)),
        None => signals.next().map(Err),
    }
}

/// Runs a condition once, or until the other end of `stop` is closed: then there is no result.
pub(crate) fn check_until_closed(
    check: &CheckCommand<'_>,
    stop: &PipeReader,
) -> io::Result<Option<CheckResult>> {
    check_until(check, Some(stop))
}

/// Runs a condition once, or until `stop` can be read: then there is no result.
fn check_until(
    check: &CheckCommand<'_>,
    stop: Option<&dyn AsFd>,
) -> io::Result<Option<CheckResult>> {
    let mut running = match RunningCheck::start(check)? {
        Ok(running) => running,
        Err(broken) => return Ok(Some(CheckResult::Broken(broken))),
    };
    let ended = running.until_end(check, stop);
    // What the condition has left running ends with it, also if it holds the output open.
    let group = proc_fs::group_of(running.child.id());
    let tree = ProcessTree { group, ..process_tag::tree_of(check.own_tag()) };
    let killed = running.child.kill().and_then(|()| tree::kill(&tree));
    let status = running.child.wait()?;
    killed?;
    Ok(match ended? {
        CheckEnd::Stopped => None,
        CheckEnd::Late => Some(CheckResult::NotYet(NotYet::TimedOut {
            limit: check.limit,
            said: running.last_line(),
        })),
        CheckEnd::Exited => Some(result(status, running.last_line())),
    })
}

/// Runs a condition once.
///
/// ```
/// use std::path::Path;
/// use std::time::Duration;
/// use windlass_server::{Check, CheckResult, check};
///
/// let text = "[guard.g]\ncondition = 'test -d /'\n[step.a]\nrun = 'true'\nguard = 'g'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let script = &plan.guards[0].condition;
/// let (dir, limit) = (Path::new("/"), Duration::from_secs(60));
/// let result = check(&Check { script, env: &[], dir, limit, tags: "doc-check" })?;
/// assert_eq!(result, CheckResult::Passed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(check: &Check<'_>) -> io::Result<CheckResult> {
    Ok(check.run(&Inherited::default(), None)?.expect("nothing stops it"))
}

fn result(status: ExitStatus, said: String) -> CheckResult {
    match (status.code(), status.signal()) {
        (Some(0), _) => CheckResult::Passed,
        (Some(code @ (126 | 127)), _) => CheckResult::Broken(Broken { code, said }),
        (Some(code), _) => CheckResult::NotYet(NotYet::Exit { code, said }),
        (None, signal) => {
            CheckResult::NotYet(NotYet::Signal { signal: signal.unwrap_or_default(), said })
        }
    }
}

enum CheckEnd {
    Exited,
    Late,
    Stopped,
}

struct RunningCheck {
    child: Spawned,
    ended: OwnedFd,
    output: PipeReader,
    tail: Vec<u8>,
}

impl RunningCheck {
    fn start(check: &CheckCommand<'_>) -> io::Result<Result<Self, Broken>> {
        let (output, writer) = io::pipe()?;
        ioctl_fionbio(&output, true)?;
        let CommandSpec { program, arguments, env, dir } = check.command;
        let mut command = Command::new(program);
        check.inherited.give_to(&mut command);
        command.args(arguments).current_dir(dir);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        command.env(TAG_VARIABLE, process_tag::inherited_with(check.tags));
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = match spawn(&mut command, GroupChoice::Own, check.own_tag()) {
            Ok(child) => child,
            Err(error) if fence::has_refused(&error) => return Err(error),
            Err(error) => {
                let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
                let said = format!("{program} in {}: {error}", dir.display());
                return Ok(Err(Broken { code, said }));
            }
        };
        let number = pid(child.id()).expect("a child has a number");
        let ended = pidfd_open(number, PidfdFlags::empty())?;
        Ok(Ok(Self { child, ended, output, tail: Vec::new() }))
    }

    fn until_end(
        &mut self,
        check: &CheckCommand<'_>,
        stop: Option<&dyn AsFd>,
    ) -> io::Result<CheckEnd> {
        let began = Instant::now();
        loop {
            let left = check.limit.saturating_sub(began.elapsed());
            let mut sources: Vec<&dyn AsFd> = vec![&self.ended, &self.output];
            sources.extend(stop);
            let ready = poll(&sources, Some(left))?;
            if ready[1] {
                self.read();
            }
            if ready[0] {
                self.read();
                return Ok(CheckEnd::Exited);
            }
            if stop.is_some() && ready[2] {
                return Ok(CheckEnd::Stopped);
            }
            if left.is_zero() {
                return Ok(CheckEnd::Late);
            }
        }
    }

    /// Reads the output so far, at most as much as a pipe holds, and keeps its end.
    fn read(&mut self) {
        let mut chunk = [0; 8192];
        for _ in 0..16 {
            match self.output.read(&mut chunk) {
                Ok(length @ 1..) => self.tail.extend(&chunk[..length]),
                _ => break,
            }
        }
        let extra = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..extra);
    }

    fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or_default().trim().to_owned()
    }
}
