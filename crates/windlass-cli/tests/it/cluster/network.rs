//! Machines that a test makes: namespaces of their own for network, host name, processes and mounts, with a
//! machine id and a boot id, around a switch.
//!
//! The first process of a machine ends when the test closes its input, however that comes about, and the kernel
//! ends all others with it. So nothing outlives a test, and the network of the host is never touched.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::bench::Bench;

/// Becomes a machine with the host name `$1`, whose ids are in the directory `$2`.
const BOOT: &str = r#"
hostname "$1"
if [ -n "$2" ]; then
    mount --bind "$2/machine-id" /etc/machine-id
    mount --bind "$2/boot-id" /proc/sys/kernel/random/boot_id
fi
ip link set lo up
echo ready
exec cat > /dev/null
"#;
/// The namespaces that a machine has of its own.
const NAMESPACES: [&str; 5] = ["--net", "--uts", "--mount", "--ipc", "--pid"];

/// A machine.
pub(super) struct Machine {
    init: Child,
    /// The first process of the machine, as this test sees it.
    pid: u32,
    name: String,
    number: u16,
}

/// Several machines around a switch.
pub(super) struct Network {
    switch: Machine,
    count: u16,
    dir: PathBuf,
}

impl Network {
    /// Builds a switch. Returns none, and says so, if this user cannot.
    pub(super) fn new(bench: &Bench) -> Option<Self> {
        let dir = bench.path("machines");
        if !rustix::process::geteuid().is_root() {
            super::skipped("only root can build a network");
            return None;
        }
        fs::create_dir(&dir).expect("a directory");
        let Some(switch) = Machine::boot("switch", 0, None) else {
            super::skipped("this system has no namespaces for a network");
            return None;
        };
        switch.ip("link add br0 type bridge");
        switch.ip("link set br0 up");
        Some(Self { switch, count: 0, dir })
    }

    /// Adds a machine. One of the same name as an earlier one is the same machine after a reboot.
    pub(super) fn machine(&mut self, name: &str) -> Machine {
        self.count += 1;
        let (number, ids) = (self.count, self.dir.join(name));
        fs::create_dir_all(&ids).expect("a directory");
        let id = ids.join("machine-id");
        if !id.exists() {
            fs::write(id, format!("{number:032x}\n")).expect("a file");
        }
        let boot = format!("{:08x}-0000-4000-8000-{:012x}\n", std::process::id(), number);
        fs::write(ids.join("boot-id"), boot).expect("a file");
        let machine = Machine::boot(name, number, Some(&ids)).expect("the switch could");
        let (port, pid) = (machine.port(), machine.pid);
        self.switch.ip(&format!("link add {port} type veth peer name eth0 netns {pid}"));
        self.switch.ip(&format!("link set {port} master br0 up"));
        machine.ip(&format!("addr add {}/16 dev eth0", machine.address()));
        machine.ip("link set eth0 up");
        machine
    }

    /// Cuts the cable of a machine.
    pub(super) fn cut(&self, machine: &Machine) {
        self.switch.ip(&format!("link set {} down", machine.port()));
    }

    /// Mends the cable of a machine.
    pub(super) fn mend(&self, machine: &Machine) {
        self.switch.ip(&format!("link set {} up", machine.port()));
    }
}

impl Machine {
    fn boot(name: &str, number: u16, ids: Option<&Path>) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(NAMESPACES).args([
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-ec",
            BOOT,
        ]);
        command.args(["init", name]).arg(ids.unwrap_or(Path::new("")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut init = command.spawn().ok()?;
        let mut said = String::new();
        let read = BufReader::new(init.stdout.as_mut().expect("it is piped")).read_line(&mut said);
        if read.is_err() || said != "ready\n" {
            let _ = init.wait();
            return None;
        }
        let outer = init.id();
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        let pid = children.ok()?.split_whitespace().next()?.parse().ok()?;
        Some(Self { init, pid, name: name.to_owned(), number })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn address(&self) -> String {
        format!("10.77.{}.{}", self.number / 250, self.number % 250 + 1)
    }

    fn port(&self) -> String {
        format!("port{}", self.number)
    }

    /// Returns a command on this machine.
    pub(super) fn command(&self, program: &str, dir: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string()]).args(NAMESPACES);
        command.arg(format!("--wd={}", dir.display())).args(["--", program]);
        command.stdin(Stdio::null());
        command
    }

    fn ip(&self, arguments: &str) {
        // It names other machines by processes as this test sees them.
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--net", "--", "ip"]);
        let Output { status, stderr, .. } =
            command.args(arguments.split(' ')).output().expect("iproute2 is installed");
        assert!(status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&stderr));
    }

    /// Ends all processes of the machine at once, as a loss of power would.
    pub(super) fn lose_power(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}
