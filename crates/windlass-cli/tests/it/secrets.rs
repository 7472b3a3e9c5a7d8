//! The password of a store in a database: nothing shows it, and `windlass` in a step does not need it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use windlass_sim::postgres::{Server, programs};

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

mod reach;

/// The password. It appears where it should not, or nowhere.
const CANARY: &str = "canary-5eb3f1";

/// What everything that a run starts does: show its environment, and use the store.
const FLOW: &str = r#"
    [on]
    success = '''env > env-hook; "$WINDLASS" emit hook'''
    [guard.g]
    condition = '''env > env-check; "$WINDLASS" emit check'''
    [step.plain]
    run = ["env"]
    [step.words]
    run = "env"
    [step.a]
    after = ["plain", "words"]
    guard = "g"
    when = '''env > env-when; "$WINDLASS" emit when'''
    lock = "x"
    run = '''
        env > env-step
        "$WINDLASS" emit step
        "$WINDLASS" lock y -- sh -c 'env > env-lock; "$WINDLASS" emit lock'
        "$WINDLASS" sem z --capacity 1 -- "$WINDLASS" log "$WINDLASS_RUN" > log-of-step
        "$WINDLASS" run inner.toml
        until test -e go; do sleep 0.01; done
    '''
    finally = '''env > env-finally; "$WINDLASS" emit finally'''
"#;
const INNER: &str = r#"
    [step.inner]
    run = '''env > env-inner; "$WINDLASS" emit inner'''
"#;
const ENVIRONMENTS: [&str; 7] =
    ["env-hook", "env-check", "env-when", "env-step", "env-lock", "env-finally", "env-inner"];
const EVENTS: [&str; 7] = ["hook", "check", "when", "step", "lock", "finally", "inner"];

/// Where a user has written the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Variable,
    Url,
    File,
}

/// A store behind a password, and the processes that a test has started.
struct Guarded {
    bench: Bench,
    server: Server,
    /// The URL without the password.
    url: String,
    given: Given,
    started: Vec<Child>,
}

impl Guarded {
    /// Returns none if PostgreSQL is not installed.
    fn new(given: Given) -> Option<Self> {
        let server = Server::own()?;
        server.require_password(CANARY);
        let (bench, url) = (Bench::new(), server.new_store());
        bench.write("flow.toml", FLOW);
        bench.write("inner.toml", INNER);
        // As in the file of a user, other lines come first.
        bench.write("pass", &format!("db:5432:*:*:other\n*:*:*:windlass:{CANARY}\n"));
        let guarded = Self { bench, server, url, given, started: Vec::new() };
        guarded.ends_with(0, &["store", "init"]);
        Some(guarded)
    }

    /// Returns the command as the user calls it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.command(arguments);
        command.env("XDG_STATE_HOME", self.bench.path("home")).env("WINDLASS_STATE", &self.url);
        command.env("HOME", self.bench.path("nobody")).env_remove("PGPASSFILE");
        match self.given {
            Given::Variable => command.env("PGPASSWORD", CANARY),
            Given::Url => command.env("WINDLASS_STATE", self.with_password()),
            Given::File => command.env("PGPASSFILE", self.bench.path("pass")),
        };
        command
    }

    fn with_password(&self) -> String {
        self.url.replace("windlass@", &format!("windlass:{CANARY}@"))
    }

    fn ends_with(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the binary runs");
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{:?}, {arguments:?}: {said}", self.given);
        assert!(!said.contains(CANARY), "{arguments:?}: {said}");
        said
    }

    fn start(&mut self, arguments: &[&str]) {
        let said = self.bench.path(&format!("said-{}", self.started.len()));
        let said = fs::File::create(said).expect("a file");
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::null()).stderr(said).spawn().expect("the binary runs");
        self.started.push(child);
    }

    /// Asserts that the password is in no process but those that were given it, while a step runs.
    fn expect_no_process_shows_it(&self) {
        let own: Vec<_> = self.started.iter().map(|child| child.id().to_string()).collect();
        let home = self.bench.path("home").display().to_string();
        let mut seen = 0;
        for process in fs::read_dir("/proc").expect("it is there").flatten() {
            let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
            if !environment.contains(&home) {
                continue;
            }
            assert!(!words.contains(CANARY), "{words}");
            let is_own = own.iter().any(|pid| process.file_name() == pid.as_str());
            assert!(is_own || !environment.contains(CANARY), "{words}: {environment}");
            seen += usize::from(!is_own);
        }
        assert!(seen > 0, "at least the step runs");
    }

    /// Asserts that everything of a run could use the store, and found no password.
    fn expect_no_environment_shows_it(&self) {
        for file in ENVIRONMENTS {
            let environment = self.bench.read(file);
            assert!(environment.contains("WINDLASS_STATE="), "{file}: {environment}");
            assert!(!environment.contains(CANARY), "{file}: {environment}");
        }
        let log = self.ends_with(0, &["log", "last"]);
        assert_eq!(log.matches("WINDLASS_STEP=").count(), 2, "{log}");
        assert!(self.bench.read("log-of-step").contains("WINDLASS_STEP=words"));
        let events = self.ends_with(0, &["events"]);
        for event in EVENTS {
            assert!(events.contains(event), "{event}: {events}");
        }
    }

    /// Asserts that nothing that is written or printed has the password.
    fn expect_nothing_shows_it(&self) {
        for verb in [
            &["ps"][..],
            &["history"],
            &["show", "last"],
            &["why", "last"],
            &["log", "last"],
            &["events"],
            &["holders"],
            &["limits"],
            &["queue"],
            &["workers"],
            &["store", "check"],
            &["store", "init"],
            &["check", "flow.toml"],
        ] {
            self.ends_with(0, verb);
            self.ends_with(0, &[verb, &["--json"]].concat());
        }
        let said = self.command(&["doctor", "--json"]).output().expect("the binary runs");
        assert!(!stdout(&said).contains(CANARY), "{}", stdout(&said));
        assert!(self.ends_with(0, &["serve", "--unit"]).contains("ExecStart="));
        assert_eq!(files_with(&self.bench.path("home"), CANARY), 0);
        for said in 0..self.started.len() {
            assert!(!self.bench.read(&format!("said-{said}")).contains(CANARY));
        }
        let dump = programs().expect("PostgreSQL is installed").join("pg_dump");
        let place = self.with_password();
        let place = place.split_once("&schema=").expect("it names one").0;
        let dump = Command::new(dump).arg(place).output().expect("it can be started");
        let text = stdout(&dump);
        assert!(text.contains("WINDLASS_RUN"), "the tables are there: {}", stderr(&dump));
        assert!(!text.contains(CANARY));
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        for child in &mut self.started {
            // It may have ended.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Returns how many files below a directory contain the text.
fn files_with(dir: &Path, text: &str) -> usize {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let counts = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_with(&entry.path(), text),
        Ok(kind) if kind.is_file() => {
            let content = fs::read(entry.path()).unwrap_or_default();
            usize::from(String::from_utf8_lossy(&content).contains(text))
        }
        _ => 0,
    });
    counts.sum()
}

#[test]
fn nothing_shows_the_password_of_a_run_in_the_foreground() {
    for given in [Given::Variable, Given::Url, Given::File] {
        let Some(mut guarded) = Guarded::new(given) else { return };
        guarded.start(&["run", "flow.toml"]);
        guarded.bench.await_file("env-inner");
        guarded.expect_no_process_shows_it();
        guarded.bench.write("go", "");
        assert!(guarded.started[0].wait().expect("it ends").success());
        guarded.expect_no_environment_shows_it();
        guarded.expect_nothing_shows_it();
    }
}

#[test]
fn nothing_shows_the_password_of_a_submitted_run() {
    for given in [Given::Variable, Given::Url, Given::File] {
        let Some(mut guarded) = Guarded::new(given) else { return };
        guarded.start(&["serve", "--no-worker"]);
        guarded.start(&["worker", "--name", "one", "--slots", "2"]);
        let run = guarded.ends_with(0, &["submit", "flow.toml"]);
        guarded.bench.await_file("env-inner");
        guarded.expect_no_process_shows_it();
        guarded.bench.write("go", "");
        guarded.ends_with(0, &["wait", run.lines().next().expect("its id")]);
        guarded.expect_no_environment_shows_it();
        guarded.expect_nothing_shows_it();
    }
}

/// They were started by a process that has ended since.
#[test]
fn a_service_in_the_background_has_no_password_in_its_environment() {
    let Some(guarded) = Guarded::new(Given::Variable) else { return };
    let run = guarded.ends_with(0, &["run", "--detach", "flow.toml"]);
    let run = run.lines().next().expect("its id");
    guarded.bench.await_file("env-inner");
    guarded.expect_no_process_shows_it();
    guarded.bench.write("go", "");
    guarded.ends_with(0, &["wait", run]);
    guarded.expect_no_environment_shows_it();
    guarded.expect_nothing_shows_it();
}

#[test]
fn a_guard_that_is_checked_alone_finds_no_password() {
    let Some(guarded) = Guarded::new(Given::Variable) else { return };
    let file = r#"
        [on]
        escalate = '''env > env-hook; "$WINDLASS" emit hook'''
        [guard.never]
        condition = '''env > env-check; "$WINDLASS" emit check; false'''
        [guard.late]
        condition = "false"
        timeout = "10ms"
        on_timeout = "escalate"
        [step.a]
        guard = ["never", "late"]
        run = "true"
    "#;
    guarded.bench.write("guards.toml", file);
    guarded.ends_with(75, &["guard", "guards.toml", "never", "--wait", "0s"]);
    let mut waiting = guarded.command(&["guard", "guards.toml", "late", "--wait", "60s"]);
    let mut waiting =
        waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    eventually("it has escalated", || guarded.ends_with(0, &["events"]).contains("hook"));
    assert!(guarded.ends_with(0, &["events"]).contains("check"));
    for file in ["env-check", "env-hook"] {
        let environment = guarded.bench.read(file);
        assert!(environment.contains("WINDLASS_PASSFILE=/proc/"), "{file}: {environment}");
        assert!(!environment.contains(CANARY), "{file}: {environment}");
    }
    guarded.ends_with(0, &["approve", "guard/late"]);
    assert!(waiting.wait().expect("it ends").success());
}

/// Its guardian finds in the store what has cleared its environment, with the password of the dead worker.
#[test]
fn what_a_killed_worker_was_executing_ends_although_its_password_was_lent() {
    let Some(mut guarded) = Guarded::new(Given::Variable) else { return };
    let left =
        "[step.a]\nrun = 'env -i setsid sh -c \"echo \\$\\$ > pid; exec sleep 600\"; true'\n";
    guarded.bench.write("flow.toml", left);
    guarded.start(&["serve", "--no-worker"]);
    guarded.start(&["worker", "--name", "one"]);
    guarded.ends_with(0, &["submit", "flow.toml"]);
    eventually("it says which process it is", || guarded.bench.read("pid").ends_with('\n'));
    // Only the guardian is left.
    guarded.started[0].kill().expect("it can be killed");
    signal(&guarded.started[1], Signal::KILL);
    let pid = guarded.bench.read("pid");
    eventually("the guardian has ended it", || !runs(pid.trim()));
}

#[test]
fn a_password_for_something_else_reaches_steps() {
    let Some(guarded) = Guarded::new(Given::Url) else { return };
    let flow = "[step.a]\nrun = 'echo \"$PGPASSWORD\" > a; \"$WINDLASS\" emit a'\n\
        [step.b]\nenv = { PGPASSWORD = 'own' }\nrun = 'echo \"$PGPASSWORD\" > b; \"$WINDLASS\" emit b'\n";
    guarded.bench.write("flow.toml", flow);
    let mut run = guarded.command(&["run", "flow.toml"]);
    let run = run.env("PGPASSWORD", "of-another-database").output().expect("the binary runs");
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(guarded.bench.read("a"), "of-another-database\n");
    assert_eq!(guarded.bench.read("b"), "own\n");
}

#[test]
fn a_command_under_a_lock_keeps_the_environment_of_its_caller() {
    for given in [Given::Variable, Given::Url, Given::File] {
        let Some(guarded) = Guarded::new(given) else { return };
        let script = "echo \"${PGPASSWORD-unset}\" > seen; \"$WINDLASS\" emit e";
        let mut lock = guarded.command(&["lock", "x", "--", "sh", "-c", script]);
        let lock = lock.output().expect("the binary runs");
        assert!(lock.status.success(), "{given:?}: {}", stderr(&lock));
        let expected = if given == Given::Variable { CANARY } else { "unset" };
        assert_eq!(guarded.bench.read("seen").trim(), expected, "{given:?}");
    }
}

#[test]
fn the_password_of_a_store_is_not_stored_in_it() {
    let Some(guarded) = Guarded::new(Given::Variable) else { return };
    let passed = "pass_env = ['PGPASSWORD']\n[step.a]\nrun = 'true'\n";
    guarded.bench.write("passed.toml", passed);
    for refused in [
        &["submit", "flow.toml", "--env", "PGPASSWORD"][..],
        &["submit", "passed.toml"],
        &["run", "--detach", "passed.toml"],
        &["add", "--env", "PGPASSWORD", "--", "true"],
    ] {
        let said = guarded.ends_with(2, refused);
        assert!(said.contains("PGPASSWORD has the password of the store"), "{said}");
    }
    let runs = guarded.ends_with(0, &["ps"]);
    assert!(!runs.contains("flow") && !runs.contains("passed"), "{runs}");
}

#[test]
fn no_error_shows_the_password() {
    let Some(guarded) = Guarded::new(Given::Variable) else { return };
    let said = |state: &str, password: Option<&str>, code: i32, why: &str| {
        let mut command = guarded.command(&["ps"]);
        command.env("WINDLASS_STATE", state).env_remove("PGPASSWORD");
        command.envs(password.map(|password| ("PGPASSWORD", password)));
        let output = command.output().expect("the binary runs");
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why) && !said.contains("canary"), "{why}: {said}");
    };
    let with = |password: &str| guarded.url.replace("windlass@", &format!("windlass:{password}@"));
    said(&guarded.url, Some("canary-wrong"), 69, "password authentication failed");
    said(&with("canary/wrong"), None, 69, "password authentication failed");
    said(&guarded.url, None, 69, "~/.pgpass");
    said(&with("canary?5eb3f1"), None, 2, "write %3F for each ?");
    said(&with("canary@5eb3f1"), None, 2, "%40 for each @");
    said(&format!("{}&password={CANARY}", guarded.url), None, 2, "a password goes before the @");
    said(&format!("{}&port=none", with(CANARY)), None, 2, "invalid URL of a database");
    guarded.server.crash();
    let away = guarded.with_password().replace("?host=", "?host=/nowhere");
    said(&away, None, 69, "cannot reach database");
    let argument = guarded.command(&["--state", &guarded.with_password(), "ps"]).output();
    let argument = stderr(&argument.expect("the binary runs"));
    assert!(argument.contains("every user of this machine can see"), "{argument}");
    assert!(!argument.contains(CANARY), "{argument}");
}
