//! Several users of one machine, for tests that run as root: others skip by name.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::bench::Bench;

/// A group that no machine knows by name, and its members.
pub(crate) const GROUP: u32 = 71_199;
pub(crate) const ALICE: u32 = 71_101;
pub(crate) const BOB: u32 = 71_102;

/// A user who is no member of the group.
pub(crate) const CAROL: u32 = 71_103;

/// A directory that all users can reach, with the binary in it.
pub(crate) struct Users {
    pub(crate) bench: Bench,
}

impl Users {
    /// Returns none, and prints a message, if this process cannot become other users.
    pub(crate) fn new() -> Option<Self> {
        let users = Self { bench: Bench::new() };
        let skipped = |why: &str| {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            eprintln!("{test} is skipped: {why}");
        };
        if !rustix::process::geteuid().is_root() {
            skipped("only root can be several users");
            return None;
        }
        open_to_all(&users.bench.path("."));
        fs::copy(env!("CARGO_BIN_EXE_windlass"), users.binary()).expect("room for the binary");
        let reached = users.as_user(ALICE, users.binary(), &["--version"]).output();
        if !reached.is_ok_and(|output| output.status.success()) {
            skipped(
                "setpriv is missing, or other users cannot reach the directory for temporary files",
            );
            return None;
        }
        Some(users)
    }

    /// Does the same as [`Users::new`], and creates a store that Alice and Bob share.
    pub(crate) fn sharing() -> Option<Self> {
        let users = Self::new()?;
        users.bench.ends_with(0, &["store", "init", "--group", &GROUP.to_string()]);
        Some(users)
    }

    fn binary(&self) -> PathBuf {
        self.bench.path("windlass")
    }

    /// Returns a program run by one of the users. All but Carol are members of the group.
    fn as_user(&self, uid: u32, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let like = self.bench.command(&[]);
        let mut command = Command::new("setpriv");
        let groups = if uid == CAROL { uid } else { GROUP };
        let ids =
            [format!("--reuid={uid}"), format!("--regid={uid}"), format!("--groups={groups}")];
        command.args(ids).arg("--").arg(program).args(arguments);
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("WINDLASS", self.binary()).current_dir(self.bench.path("."));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns a call of the binary by one of the users.
    pub(crate) fn command(&self, uid: u32, arguments: &[&str]) -> Command {
        self.as_user(uid, self.binary(), arguments)
    }

    pub(crate) fn call(&self, uid: u32, arguments: &[&str]) -> Output {
        self.command(uid, arguments).output().expect("the binary runs")
    }

    /// Returns a script of one of the users, which calls the binary as `"$WINDLASS"`.
    pub(crate) fn script(&self, uid: u32, text: &str) -> Command {
        self.as_user(uid, "sh", &["-eu", "-c", text])
    }

    /// Calls the binary where `/proc` shows a user only their own processes. Returns none, and prints a
    /// message, where that is not possible.
    pub(crate) fn call_blind(&self, uid: u32, arguments: &[&str]) -> Option<Output> {
        let mount = "mount -t proc -o hidepid=2 proc /proc || exit 99; exec \"$@\"";
        let inner = self.command(uid, arguments);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", mount, "sh"]).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(self.bench.path("."));
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().ok().filter(|output| output.status.code() != Some(99));
        if output.is_none() {
            eprintln!("skipped: /proc cannot be mounted with hidepid=2 here");
        }
        output
    }

    /// Returns a directory in the bench that belongs to a user alone.
    pub(crate) fn private_dir(&self, uid: u32, name: &str) -> PathBuf {
        let dir = self.bench.path(name);
        fs::create_dir(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("a mode");
        chown(&dir, Some(uid), Some(uid)).expect("root may");
        dir
    }
}

/// Returns everything below a directory.
pub(crate) fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                open.push(path.clone());
            }
            all.push(path);
        }
    }
    all
}

pub(crate) fn open_to_all(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o1777)).expect("a mode");
}
