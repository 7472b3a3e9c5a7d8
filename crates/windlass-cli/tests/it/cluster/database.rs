//! Servers of PostgreSQL on machines of their own: a primary, and a standby that may take its place.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use windlass_sim::postgres::{programs, sql};

use super::clock::Clock;
use super::network::Machine;
use crate::bench::{eventually, stderr};

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standby {
    Synchronous,
    Asynchronous,
}

/// A server and the machine on which it runs.
pub(super) struct Database {
    /// None only while it is dropped.
    machine: Option<Machine>,
    dir: PathBuf,
    programs: PathBuf,
    /// What programs of the server need to have a clock that the test sets.
    clock: Option<[(&'static str, PathBuf); 2]>,
}

impl Database {
    /// Creates a server and starts it. Returns none, and says so, if PostgreSQL is not installed.
    pub(super) fn new(machine: Machine, clock: Option<&Clock>) -> Option<Self> {
        let mut database = Self::prepare(machine)?;
        database.clock = clock.map(Clock::variables);
        let initdb = ["-A", "trust", "-U", "windlass", "--no-sync", "-E", "UTF8"];
        database.run("initdb", &[&["-D", "data", "--locale=C.UTF-8"][..], &initdb].concat());
        let data = database.dir.join("data");
        let access = "local all all trust\nhost all all 10.77.0.0/16 trust\n\
            host replication all 10.77.0.0/16 trust\n";
        fs::write(data.join("pg_hba.conf"), access).expect("a file");
        let settings = "listen_addresses = '*'\nmax_connections = 200\nshared_buffers = 32MB\n\
            wal_keep_size = 64MB\nwal_log_hints = on\n";
        fs::write(data.join("postgresql.auto.conf"), settings).expect("a file");
        database.start();
        Some(database)
    }

    /// Creates a standby of `primary` and starts it.
    pub(super) fn standby_of(primary: &Self, machine: Machine, standby: Standby) -> Self {
        let database = Self::prepare(machine).expect("the primary could");
        let from = primary.machine().address();
        let from = format!("host={from} user=windlass application_name=standby");
        let copy = ["-D", "data", "-R", "-X", "stream", "-c", "fast", "-d", &from];
        database.run("pg_basebackup", &copy);
        database.start();
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        eventually("the standby streams", || primary.sql(streams) == "1");
        if standby == Standby::Synchronous {
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
            primary.sql("SELECT pg_reload_conf()");
            let synced = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            eventually("commits wait for the standby", || primary.sql(synced) == "1");
        }
        database
    }

    fn prepare(machine: Machine) -> Option<Self> {
        let Some(programs) = programs() else {
            super::skipped("PostgreSQL is not installed");
            return None;
        };
        // Short, because the path of a socket has at most 107 bytes, and for another account.
        let dir = std::env::temp_dir().join(format!(
            "windlass-cluster-{}-{}",
            std::process::id(),
            unique()
        ));
        fs::create_dir(&dir).expect("a directory");
        let owned = Command::new("chown").arg("postgres:").arg(&dir).status();
        assert!(owned.is_ok_and(|status| status.success()), "the package has an account");
        Some(Self { machine: Some(machine), dir, programs, clock: None })
    }

    pub(super) fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("it is there until the server is dropped")
    }

    /// Runs a program of PostgreSQL on the machine, in its directory.
    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program).args(arguments).output().expect("it can be started");
        assert!(output.status.success(), "{program} {arguments:?}: {}", stderr(&output));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.machine().command("setpriv", &self.dir);
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
        command.arg(self.programs.join(program));
        command
    }

    /// Starts the server.
    pub(super) fn start(&self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log"));
        let log = log.expect("a file");
        let mut command = self.command("postgres");
        command.envs(self.clock.clone().into_iter().flatten());
        command.arg("-D").arg("data").arg("-k").arg(&self.dir);
        let mut server = command.stdout(Stdio::null()).stderr(log).spawn().expect("a server");
        // It ends with its machine at the latest.
        thread::spawn(move || server.wait());
        let ready = || {
            let mut ask = Command::new(self.programs.join("pg_isready"));
            ask.args(["-q", "-U", "windlass", "-h"]).arg(&self.dir);
            ask.status().is_ok_and(|status| status.success())
        };
        eventually("the server starts", ready);
    }

    /// Has everything that is created from now on be on a disk of its own, which is small.
    pub(super) fn move_to_small_disk(&self) {
        let mount =
            "mkdir small && mount -t tmpfs -o size=32m tmpfs small && chown postgres: small";
        self.on_machine(mount);
        let small = self.dir.join("small");
        self.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", small.display()));
        self.sql("ALTER SYSTEM SET default_tablespace = 'small'");
        self.sql("SELECT pg_reload_conf()");
        eventually("it is the default", || self.sql("SHOW default_tablespace") == "small");
    }

    /// Fills the small disk.
    pub(super) fn fill_disk(&self) {
        self.on_machine("cat /dev/zero > small/fill 2> /dev/null || true");
    }

    /// Makes room on the small disk.
    pub(super) fn free_disk(&self) {
        self.on_machine("rm small/fill");
    }

    /// Returns how often the server has said something.
    pub(super) fn has_said(&self, text: &str) -> usize {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default().matches(text).count()
    }

    /// Runs a script on the machine, in the directory of the server.
    fn on_machine(&self, script: &str) {
        // Its directory may have other mounts than that of the test.
        let script = format!("cd {}; {script}", self.dir.display());
        let output = self.machine().command("sh", &self.dir).args(["-ec", &script]).output();
        let output = output.expect("it can be started");
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }

    /// Stops the server at once, as a crash would.
    pub(super) fn crash(&self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "-w", "stop"]);
    }

    /// Has the standby take the place of its primary.
    pub(super) fn promote(&self) {
        self.run("pg_ctl", &["-D", "data", "-w", "promote"]);
    }

    /// Runs statements, and returns what they print.
    pub(super) fn sql(&self, statements: &str) -> String {
        sql(&self.url_by_socket(), statements)
    }

    /// Returns the URL for a process that is not on a machine of the cluster.
    pub(super) fn url_by_socket(&self) -> String {
        format!("postgres://windlass@/postgres?host={}", self.dir.display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server writes until its machine has ended.
        drop(self.machine.take());
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn unique() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}
