//! One attempt of a step: a process in a group of its own, with its output in a log file.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use windlass_core::{Grant, Token};

use crate::order::Order;

/// The variable that marks every process of a run, also for those who have to find them later.
pub(crate) const RUN_VARIABLE: &str = "WINDLASS_RUN";
/// The variable that carries the tokens of the names that an attempt holds.
pub(crate) const FENCE_VARIABLE: &str = "WINDLASS_FENCE";

/// Starts a process of a run, with its output in `log`.
pub(crate) fn start(order: &Order, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(&order.program);
    command
        .args(&order.arguments)
        .current_dir(&order.dir)
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    command.spawn()
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

/// Waits until a child that was started here has ended, without reaping it.
pub(crate) fn await_end(child: u32) {
    if let Some(pid) = pid(child) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    }
}

/// Sends a signal to the whole group of a child that was started here and not reaped yet.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Some(pid) = pid(leader) {
        // The group may have ended a moment ago.
        let _ = kill_process_group(pid, signal);
    }
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
