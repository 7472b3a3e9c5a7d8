//! Ends what an earlier process of a run has left behind.
//!
//! Every process of a run carries its id in the environment and hands it down to its children, so
//! they can be found whatever became of their parents.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::attempt::RUN_VARIABLE;

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills every process of `run` but this one, and sees them gone.
pub(crate) fn end_all(run: &str) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let left = processes(run)?;
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let message = format!("processes {left:?} of the interrupted run do not end");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        for pid in left {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended a moment ago.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that carry the run's mark. One that has ended and only waits to be reaped has no
/// environment any more, and does not count.
fn processes(run: &str) -> io::Result<Vec<i32>> {
    let mark = format!("{RUN_VARIABLE}={run}");
    let this = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Ok(pid) = name.parse::<i32>() else { continue };
        // Other users' processes cannot be read, and are not ours.
        let Ok(environment) = fs::read(path.join("environ")) else { continue };
        let marked = environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
        if marked && pid != this {
            found.push(pid);
        }
    }
    Ok(found)
}
