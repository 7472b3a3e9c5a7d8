//! Reads from `/proc` the parents, groups, start times and tags of processes.
//!
//! A process is identified by its pid and its start time, because a pid is used again. What cannot be
//! read because the process has ended, or belongs to another user, counts as absent. A read that fails
//! for want of open files or memory is an error: without it a process would be overlooked.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use windlass_store::ProcessGroup;

use crate::process_tag::TAG_VARIABLE;

/// How long a process may take to execute another program. Hardly any takes a millisecond.
const LONGEST_EXEC: Duration = Duration::from_secs(1);

/// A process, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// The start time in clock ticks since boot, which distinguishes it from another process with the
    /// same pid.
    pub(crate) started: u64,
}

impl Process {
    /// Returns the group that it leads, if it leads one.
    pub(crate) fn leads(self) -> Option<ProcessGroup> {
        let Self { pid: leader, group, session, started, .. } = self;
        (leader == group).then_some(ProcessGroup { leader, started, session })
    }
}

/// Returns the group that a child of this process leads. The child may have ended: until it is reaped its
/// pid is not used again, and other processes may live on in its group.
pub(crate) fn group_of(child: u32) -> Option<ProcessGroup> {
    process(child)?.leads()
}

/// Returns a process, which may have ended, if it was not reaped.
pub(crate) fn process(pid: u32) -> Option<Process> {
    match stat(pid) {
        Ok(Found::Process(process, _)) => Some(process),
        _ => None,
    }
}

/// Returns how messages name a process: `name (pid)`, or `process pid` if it has ended.
pub(crate) fn label(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    match name.trim_end() {
        "" => format!("process {pid}"),
        name => format!("{name} ({pid})"),
    }
}

/// Returns the pids of processes, as messages name them.
pub(crate) fn pids_of(processes: &[Process]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}

/// Returns the pids of all processes that `/proc` lists, in ascending order. A process that has ended stays
/// until it is reaped.
pub(crate) fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Returns the pid of the process that was started last, if `/proc` tells.
pub(crate) fn newest() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

/// Returns a process if it is alive.
pub(crate) fn alive(pid: u32) -> Option<Process> {
    match stat(pid) {
        Ok(Found::Process(process, stage)) => (stage != LifeStage::Ended).then_some(process),
        _ => None,
    }
}

/// Returns whether a process is alive.
pub(crate) fn is_alive(process: &Process) -> bool {
    alive(process.pid).is_some_and(|now| now.started == process.started)
}

/// The state of a pid in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Process(Process, LifeStage),
    /// It belongs to a process that this one may not inspect.
    Hidden,
    /// No process has it.
    Nothing,
}

/// How far the life of a process has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifeStage {
    Running,
    /// Its first thread has no memory, and so no environment that can be read: the process is ending, its
    /// other threads continue, or it belongs to the kernel.
    Exiting,
    /// It only waits to be reaped.
    Ended,
}

/// Returns what can be known of a pid.
pub(crate) fn stat(pid: u32) -> io::Result<Found> {
    match Stat::read(pid) {
        Ok(stat) => {
            let found = |(process, stage)| Found::Process(process, stage);
            Ok(stat.and_then(|stat| stat.process(pid)).map_or(Found::Nothing, found))
        }
        Err(error) if is_out_of_resources(&error) => Err(error),
        Err(_) => Ok(Found::Hidden),
    }
}

/// The fields of `/proc/PID/stat`, from the state on.
struct Stat(Vec<String>);

impl Stat {
    fn read(pid: u32) -> io::Result<Option<Self>> {
        let stat = match fs::read(format!("/proc/{pid}/stat")) {
            Err(error) if has_ended(&error) => return Ok(None),
            stat => stat?,
        };
        // The name before that may contain any character, also blanks and parentheses.
        let behind_name = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
        let fields = String::from_utf8_lossy(behind_name);
        Ok(Some(Self(fields.split_whitespace().map(str::to_owned).collect())))
    }

    fn number<N: FromStr>(&self, place: usize) -> Option<N> {
        self.0.get(place)?.parse().ok()
    }

    fn process(&self, pid: u32) -> Option<(Process, LifeStage)> {
        let [parent, group, session] = [self.number(1)?, self.number(2)?, self.number(3)?];
        let stage = match self.number::<u64>(20)? {
            0 if self.is_first_thread_over() && !self.has_other_threads() => LifeStage::Ended,
            0 => LifeStage::Exiting,
            _ => LifeStage::Running,
        };
        Some((Process { pid, parent, group, session, started: self.number(19)? }, stage))
    }

    fn is_first_thread_over(&self) -> bool {
        self.0.first().is_some_and(|state| matches!(state.as_str(), "Z" | "X"))
    }

    fn has_other_threads(&self) -> bool {
        self.number::<u64>(17).is_some_and(|threads| threads > 1)
    }

    /// Returns whether the process has an environment, or will have one once it has executed its next
    /// program.
    fn has_environment(&self) -> bool {
        let number = |place| self.number::<u64>(place).unwrap_or(0);
        let [memory, code, start, end] = [20, 23, 47, 48].map(number);
        // A process that is about to end has no memory. In one that is executing a program, the kernel sets
        // the address of the code only after it has laid out the environment, which is invisible until then.
        memory > 0 && (code == 0 || start < end)
    }
}

/// Returns whether a read failed because there is no such process, or no longer.
fn has_ended(error: &io::Error) -> bool {
    let number = error.raw_os_error().unwrap_or(0);
    [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error).contains(&number)
}

/// Returns whether a read failed for want of open files or memory. Otherwise the process has ended, or
/// belongs to a user whose processes this one may not inspect.
fn is_out_of_resources(error: &io::Error) -> bool {
    let number = error.raw_os_error().unwrap_or(0);
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error).contains(&number)
}

/// Returns the tags that a process carries in its environment.
pub(crate) fn tags(pid: u32) -> io::Result<Vec<Vec<u8>>> {
    Ok(tags_in(&environment(pid)?, TAG_VARIABLE).map(<[u8]>::to_vec).collect())
}

/// Returns the environment with which a process started; nothing for a process of another user, which has no
/// tags of this user. While a process executes another program, its environment is empty for a moment.
pub(crate) fn environment(pid: u32) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    loop {
        let environment = environment_in(format!("/proc/{pid}/environ"))?;
        if !environment.is_empty() || began.elapsed() > LONGEST_EXEC {
            return Ok(environment);
        }
        match Stat::read(pid) {
            Ok(Some(stat)) if stat.has_environment() => {}
            Ok(Some(stat)) if stat.is_first_thread_over() && stat.has_other_threads() => {
                return environment_of_threads(pid);
            }
            Err(error) if is_out_of_resources(&error) => return Err(error),
            _ => return Ok(environment),
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// Returns the environment of a process whose first thread has ended, by way of its other threads.
fn environment_of_threads(pid: u32) -> io::Result<Vec<u8>> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if !is_out_of_resources(&error) => return Ok(Vec::new()),
        threads => threads?,
    };
    for thread in threads.flatten() {
        let environment = environment_in(thread.path().join("environ"))?;
        if !environment.is_empty() {
            return Ok(environment);
        }
    }
    Ok(Vec::new())
}

/// Returns the content of a file with an environment; nothing if it cannot be read.
fn environment_in(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    match read_at_once(path.as_ref()) {
        Err(error) if !is_out_of_resources(&error) => Ok(Vec::new()),
        environment => environment,
    }
}

/// Returns the content of a file, read in one call. If the process executes another program, a second call
/// would return nothing of the first program's environment.
fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = vec![0; 16 << 10];
    loop {
        let length = File::open(path)?.read(&mut content)?;
        if length < content.len() {
            content.truncate(length);
            return Ok(content);
        }
        content.resize(length * 2, 0);
    }
}

/// Returns the tags that a variable has in an environment.
pub(crate) fn tags_in<'e>(environment: &'e [u8], variable: &str) -> impl Iterator<Item = &'e [u8]> {
    let value = |entry: &'e [u8]| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"=");
    let values = environment.split(|byte| *byte == 0).filter_map(value);
    values.flat_map(|value| value.split(|byte| *byte == b' '))
}

/// Returns what the kernel says of this process under a name.
pub(crate) fn own_status(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
    status.lines().find_map(value)
}

/// Returns the peak memory of this process, in KiB, since it began to execute this program.
pub(crate) fn own_peak_kib() -> Option<u64> {
    own_status("VmHWM")?.split_whitespace().next()?.parse().ok()
}

/// Returns the time in clock ticks since boot, in which the kernel counts the starts of processes.
pub(crate) fn now_in_ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    let per_second = clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_tells_the_environment_of_its_process() {
        let this = std::process::id();
        let environment = environment(this).expect("it can be read");
        assert!(!environment.is_empty());
        assert_eq!(environment_of_threads(this).expect("it can be read"), environment);
    }
}
