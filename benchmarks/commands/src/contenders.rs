//! The contenders: the programs that run the commands.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::floor::Notes;
use crate::works::{Shape, Work};

/// GNU parallel takes minutes for more steps than this.
const SLOW: usize = 1000;

pub(crate) enum Contender {
    /// Bare processes, started by one thread of this program.
    Floor,
    /// Bare processes with a synced record after each: the lower bound for a tool that stores every step.
    SyncedFloor,
    Windlass(PathBuf),
    /// Windlass with its state in memory: the difference is the cost of the disk.
    WindlassInMemory(PathBuf),
    /// Another tool, found by its name.
    Tool(&'static str),
}

impl Contender {
    pub(crate) fn all(windlass: &Path) -> Vec<Self> {
        let windlass = || windlass.to_owned();
        let mut all = vec![Contender::Floor, Contender::SyncedFloor];
        all.push(Contender::Windlass(windlass()));
        all.push(Contender::WindlassInMemory(windlass()));
        all.extend(["make", "ninja", "xargs", "parallel"].map(Contender::Tool));
        all
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contender::Floor => "posix_spawn, one thread",
            Contender::SyncedFloor => "the same, and a sync for each",
            Contender::Windlass(_) => "windlass",
            Contender::WindlassInMemory(_) => "windlass, state in memory",
            Contender::Tool(name) => name,
        }
    }

    pub(crate) fn is_installed(&self) -> bool {
        match self {
            Contender::Floor | Contender::SyncedFloor | Contender::Windlass(_) => true,
            Contender::WindlassInMemory(_) => Path::new("/dev/shm").is_dir(),
            Contender::Tool(name) => {
                let path = env::var_os("PATH").unwrap_or_default();
                env::split_paths(&path).any(|dir| dir.join(name).is_file())
            }
        }
    }

    pub(crate) fn can(&self, work: Work) -> bool {
        match self {
            // Independent steps can share a sync.
            Contender::SyncedFloor => work.shape == Shape::Chain,
            Contender::Tool("xargs") => work.shape == Shape::Independent,
            Contender::Tool("parallel") => work.shape == Shape::Independent && work.steps <= SLOW,
            _ => true,
        }
    }

    /// Returns its command in the directory of the work; none if it is not a command. Removes what an
    /// earlier round has left.
    pub(crate) fn command(&self, work: Work, dir: &Path, round: usize) -> Option<Command> {
        let jobs = work.jobs.to_string();
        let mut command = match self {
            Contender::Floor | Contender::SyncedFloor => return None,
            Contender::Windlass(program) | Contender::WindlassInMemory(program) => {
                let mut command = Command::new(program);
                command.arg("--state").arg(self.state(dir, round)).args(["run", "flow.toml"]);
                command
            }
            Contender::Tool(name) => Command::new(name),
        };
        match self {
            Contender::Tool("make") => command.args(["-s", "-j", &jobs]),
            Contender::Tool("ninja") => command.args(["--quiet", "-j", &jobs]),
            Contender::Tool("xargs") => command.args(["-n", "1", "-P", &jobs, "true"]),
            Contender::Tool("parallel") => command.args(["-j", &jobs, "true"]),
            _ => &mut command,
        };
        let lines = File::open(dir.join("lines")).expect("it was written");
        command.stdin(lines).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(dir);
        Some(command)
    }

    fn state(&self, dir: &Path, round: usize) -> PathBuf {
        match self {
            Contender::WindlassInMemory(_) => in_memory(),
            // A new directory each time: recently removed files slow down the creation of new ones.
            _ => dir.join(format!("state-{round}")),
        }
    }

    /// Returns the record file of a contender that is not a command, if it has one.
    pub(crate) fn notes(&self, dir: &Path) -> Option<Notes> {
        matches!(self, Contender::SyncedFloor).then(|| Notes::new(&dir.join("notes")))
    }

    /// Creates a store before the measurement, because a user has one after the first run.
    pub(crate) fn prepare(&self, dir: &Path, round: usize) {
        self.forget(dir);
        if let Contender::Windlass(program) | Contender::WindlassInMemory(program) = self {
            let mut command = Command::new(program);
            command.arg("--state").arg(self.state(dir, round)).args(["store", "init"]);
            let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
            let status = quiet.status().expect("it can be started");
            assert!(status.success(), "{status}");
        }
    }

    /// Deletes the stored runs, outside of the measurement.
    pub(crate) fn forget(&self, dir: &Path) {
        // A missing directory is fine.
        let _ = match self {
            Contender::WindlassInMemory(_) => std::fs::remove_dir_all(in_memory()),
            Contender::Tool("ninja") => std::fs::remove_file(dir.join(".ninja_log")),
            _ => Ok(()),
        };
    }
}

fn in_memory() -> PathBuf {
    PathBuf::from(format!("/dev/shm/windlass-bench-commands-{}", std::process::id()))
}
