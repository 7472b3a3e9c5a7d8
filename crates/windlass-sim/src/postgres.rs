//! A server of PostgreSQL for tests: the real one, in a directory of its own, on a socket.
//!
//! A shell supervises it and stops it once the test process is gone, however that ended.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Creates the files of a server in the directory `$1` with the programs in `$2`, and runs it until
/// standard input is closed; then removes its files. A line of standard input makes it crash and start again.
/// It listens on the address `$3`, if that is not empty, with the port `$4`.
const SUPERVISE: &str = r#"
set -e
"$2/initdb" -D "$1/data" -A trust -U windlass --no-sync -E UTF8 --locale=C.UTF-8 > "$1/log" 2>&1
trap '' INT TERM HUP
start() {
    "$2/postgres" -D "$1/data" -k "$1" -c listen_addresses="$3" -p "$4" -c max_connections=300 \
        -c shared_buffers=32MB >> "$1/log" 2>&1 &
    server=$!
    until "$2/pg_isready" -q -h "$1" -p "$4" -U windlass; do kill -0 $server; sleep 0.05; done
    echo ready
}
start "$@"
while read -r _; do
    kill -QUIT $server
    wait $server || true
    start "$@"
done
kill -QUIT $server
wait $server || true
rm -rf "$1"
"#;

/// The name of a server's socket in its directory.
pub const SOCKET: &str = ".s.PGSQL.5432";
/// The port of a server that listens on nothing but a socket.
const USUAL_PORT: u16 = 5432;

/// A running server.
pub struct Server {
    socket_dir: PathBuf,
    port: u16,
    schemas: AtomicU32,
    _supervisor: Child,
    /// The server stops when this is closed.
    alive: Mutex<ChildStdin>,
    answers: Mutex<ChildStdout>,
}

impl Server {
    /// Returns the server of this test process, and starts it if it is the first to ask. Returns none,
    /// and says so, if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(Self::own).as_ref()
    }

    /// Starts a server that a test may stop. Returns none, and says so, if PostgreSQL is not installed.
    ///
    /// # Panics
    ///
    /// If it does not start, or is not installed and `WINDLASS_SKIP` is `never`.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::listening("", USUAL_PORT)
    }

    /// Starts a server as [`Server::own`] does, which also listens on 127.0.0.1. Returns its port as well.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn on_loopback() -> Option<(Self, u16)> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        Some((Self::listening("127.0.0.1", port)?, port))
    }

    fn listening(address: &str, port: u16) -> Option<Self> {
        let programs = programs();
        if programs.is_none() {
            assert!(
                env::var_os("WINDLASS_SKIP").is_none_or(|skip| skip != "never"),
                "PostgreSQL is not installed"
            );
            eprintln!("SKIPPED: PostgreSQL is not installed");
        }
        programs.map(|dir| Self::start(&dir, address, port))
    }

    fn start(programs: &Path, address: &str, port: u16) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short, because the path of a socket has at most 107 bytes.
        let dir = env::temp_dir().join(format!("windlass-pg-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let mut command = supervisor(&dir).expect("an account that may run a server");
        command.args(["-c", SUPERVISE, "sh"]).args([&*dir, programs]);
        command.args([address, &port.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        let mut supervisor = command.spawn().expect("a shell");
        let alive = Mutex::new(supervisor.stdin.take().expect("it is piped"));
        let answers = Mutex::new(supervisor.stdout.take().expect("it is piped"));
        let schemas = AtomicU32::new(0);
        let server =
            Self { socket_dir: dir, port, schemas, _supervisor: supervisor, alive, answers };
        server.await_start();
        server
    }

    /// Stops the server at once, as a crash would, and starts it again.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn crash(&self) {
        let mut supervisor = self.alive.lock().expect("no test panics here");
        supervisor.write_all(b"crash\n").expect("the supervisor is there");
        self.await_start();
    }

    fn await_start(&self) {
        let mut answer = [0; 6];
        let started = self.answers.lock().expect("no test panics here").read_exact(&mut answer);
        assert!(started.is_ok(), "PostgreSQL has not started: {}", self.log());
    }

    /// Returns what the server has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.socket_dir.join("log")).unwrap_or_default()
    }

    /// Returns the socket on which the server listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.socket_dir.join(SOCKET)
    }

    /// Returns the directory with the files of the server.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.socket_dir.join("data")
    }

    /// Has the server use a certificate and its key from now on, both in the PEM format; without any, it offers no TLS.
    ///
    /// # Panics
    ///
    /// If the server cannot be changed.
    pub fn set_certificate(&self, certificate: Option<(&str, &str)>) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (data, url) = (self.data(), self.new_store());
        let name = format!("certificate-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut settings = format!("ssl = off\nssl_cert_file = '{name}'\n");
        if let Some((certificate, key)) = certificate {
            let key_name = format!("{name}.key");
            fs::write(data.join(&name), certificate).expect("it can be written");
            fs::write(data.join(&key_name), key).expect("it can be written");
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(data.join(&key_name), private).expect("it is ours");
            let owner = fs::metadata(&data).expect("it is there").uid();
            for file in [&name, &key_name] {
                chown(data.join(file), Some(owner), None).expect("this is root, or the owner");
            }
            settings = format!("ssl = on\nssl_cert_file = '{name}'\nssl_key_file = '{key_name}'\n");
        }
        fs::write(data.join("postgresql.auto.conf"), settings).expect("it can be written");
        sql(&url, "SELECT pg_reload_conf()");
        while sql(&url, "SHOW ssl_cert_file") != name {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Gives the account of the tests a password, which the server asks for from now on.
    ///
    /// # Panics
    ///
    /// If the server cannot be changed.
    pub fn require_password(&self, password: &str) {
        let url = self.new_store();
        sql(&url, &format!("ALTER ROLE windlass PASSWORD '{password}'"));
        // To prove that one knows it takes long in programs that are not optimized.
        let rules = "local all all password\n";
        fs::write(self.data().join("pg_hba.conf"), rules).expect("it can be written");
        sql(&url, "SELECT pg_reload_conf()");
        // The server reads its files some time after it has said that it will.
        while psql(&url, "SELECT 1").status.success() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the URL of a store that no other test uses.
    #[must_use]
    pub fn new_store(&self) -> String {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        let dir = self.socket_dir.display();
        let port =
            if self.port == USUAL_PORT { String::new() } else { format!("&port={}", self.port) };
        format!("postgres://windlass@/postgres?host={dir}{port}&schema=test_{number}")
    }

    /// Creates a database, and returns its URL.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    #[must_use]
    pub fn new_database(&self) -> String {
        let name = format!("database_{}", self.schemas.fetch_add(1, Ordering::Relaxed));
        let createdb = programs().expect("the server runs").join("createdb");
        let mut create = Command::new(createdb);
        create.arg("-h").arg(&self.socket_dir).args(["-U", "windlass", &name]);
        assert!(create.status().expect("createdb starts").success(), "createdb {name}");
        format!("postgres://windlass@localhost/{name}?host={}", self.socket_dir.display())
    }
}

/// Runs statements in the database that a URL of a store names, and returns what they print.
///
/// # Panics
///
/// If they fail.
pub fn sql(url: &str, statements: &str) -> String {
    let output = psql(url, statements);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "{statements}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn psql(url: &str, statements: &str) -> Output {
    let place = url.split_once("&schema=").map_or(url, |(place, _)| place);
    let psql = programs().expect("PostgreSQL is installed").join("psql");
    let mut command = Command::new(psql);
    command.args(["-XAtqw", "-v", "ON_ERROR_STOP=1", place, "-c", statements]);
    command.env_remove("PGPASSWORD").output().expect("it can be started")
}

/// Returns the directory with the programs of the first server in the path, or the newest installed one.
#[must_use]
pub fn programs() -> Option<PathBuf> {
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
