//! A server of PostgreSQL for tests: the real one, in a directory of its own, on a socket.
//!
//! A shell supervises it and stops it once the test process is gone, however that ended.

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Creates the files of a server in the directory `$1` with the programs in `$2`, runs it until standard
/// input is closed, and removes its files.
const SUPERVISE: &str = r#"
set -e
"$2/initdb" -D "$1/data" -A trust -U windlass --no-sync -E UTF8 --locale=C.UTF-8 > "$1/log" 2>&1
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses='' -c max_connections=300 \
    -c shared_buffers=32MB >> "$1/log" 2>&1 &
server=$!
trap '' INT TERM HUP
until "$2/pg_isready" -q -h "$1" -U windlass; do kill -0 $server; sleep 0.05; done
echo ready
cat > /dev/null
kill -QUIT $server
wait $server || true
rm -rf "$1"
"#;

/// A running server.
pub struct Server {
    socket_dir: PathBuf,
    schemas: AtomicU32,
    _supervisor: Child,
    /// The server stops when this is closed.
    _alive: ChildStdin,
}

impl Server {
    /// Returns the server of this test process, and starts it if it is the first to ask. Returns none,
    /// and says so, if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        let server = SERVER.get_or_init(|| programs().map(|dir| Self::start(&dir)));
        if server.is_none() {
            eprintln!("SKIPPED: PostgreSQL is not installed");
        }
        server.as_ref()
    }

    /// Starts a server with the programs in `programs`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(programs: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short, because the path of a socket has at most 107 bytes.
        let dir = env::temp_dir().join(format!("windlass-pg-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let mut command = supervisor(&dir).expect("an account that may run a server");
        command.args(["-c", SUPERVISE, "sh"]).args([&*dir, programs]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        let mut supervisor = command.spawn().expect("a shell");
        let mut answer = String::new();
        let mut output = supervisor.stdout.take().expect("it is piped").take(6);
        output.read_to_string(&mut answer).expect("it is text");
        let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert_eq!(answer, "ready\n", "PostgreSQL has not started: {}", log());
        let alive = supervisor.stdin.take().expect("it is piped");
        Self { socket_dir: dir, schemas: AtomicU32::new(0), _supervisor: supervisor, _alive: alive }
    }

    /// Returns the URL of a store that no other test uses.
    #[must_use]
    pub fn new_store(&self) -> String {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        let dir = self.socket_dir.display();
        format!("postgres://windlass@/postgres?host={dir}&schema=test_{number}")
    }
}

/// Returns the directory with the programs of the first server in the path, or the newest installed one.
fn programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).find_map(|dir| dir.join("initdb").canonicalize().ok());
    let initdb = in_path.or_else(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
        let number = |dir: &PathBuf| dir.file_name()?.to_str()?.parse::<u32>().ok();
        let newest = versions.map(|version| version.path()).max_by_key(number)?;
        newest.join("bin/initdb").canonicalize().ok()
    })?;
    initdb.parent().map(Path::to_owned)
}

/// Returns a shell that may run a server: as this user, or as the account of the package if this is root,
/// whom PostgreSQL refuses.
fn supervisor(dir: &Path) -> io::Result<Command> {
    if fs::metadata(dir)?.uid() != 0 {
        return Ok(Command::new("sh"));
    }
    let status = Command::new("chown").arg("postgres:").arg(dir).status()?;
    if !status.success() {
        return Err(io::Error::other("chown postgres: has failed"));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "sh"]);
    Ok(command)
}
