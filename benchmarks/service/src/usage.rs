//! What a process has used, as the kernel counts it.

use std::fs;
use std::ops::Sub;

/// What a process has used since its start, with all of its threads that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    /// How often a thread has waited for something.
    pub(crate) waits: u64,
    /// How often it has read from a file.
    pub(crate) reads: u64,
}

impl Usage {
    pub(crate) fn of(process: u32) -> Self {
        let mut usage = Self { cpu_ns: 0, waits: 0, reads: 0 };
        let io = read(&format!("/proc/{process}/io"));
        usage.reads = field(&io, "syscr:");
        for thread in fs::read_dir(format!("/proc/{process}/task")).expect("it is alive") {
            let thread = thread.expect("an entry").path();
            let of_thread = |name| read(&thread.join(name).to_string_lossy());
            let times = of_thread("schedstat");
            usage.cpu_ns += times.split(' ').next().and_then(number).expect("a time");
            usage.waits += field(&of_thread("status"), "voluntary_ctxt_switches:");
        }
        usage
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            waits: self.waits - earlier.waits,
            reads: self.reads - earlier.reads,
        }
    }
}

/// Returns the memory of a process that is resident, in MiB.
pub(crate) fn resident_mib(process: u32) -> f64 {
    field(&read(&format!("/proc/{process}/status")), "VmRSS:") as f64 / 1024.0
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
    line.split_whitespace().next().and_then(number).expect("a number")
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}
