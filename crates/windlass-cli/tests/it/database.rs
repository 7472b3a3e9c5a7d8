//! Stores in PostgreSQL: every verb takes a URL in the place of a directory.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use windlass_sim::postgres::{Server, sql};

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

/// Returns a bench with a store in a database, and its URL, if PostgreSQL is installed.
fn bench(flow: &str) -> Option<(Bench, String)> {
    let url = Server::shared()?.new_store();
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let said = ends_with(&bench, 0, &url, &["store", "init"]);
    assert!(said.starts_with(&format!("{url}: logs of this machine are in ")), "{said}");
    Some((bench, url))
}

fn ends_with(bench: &Bench, code: i32, url: &str, arguments: &[&str]) -> String {
    let mut command = bench.command(&[&["--state", url], arguments].concat());
    let home = bench.path("home");
    let output = command.env("XDG_STATE_HOME", home).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    format!("{}{}", stdout(&output), stderr(&output))
}

#[test]
fn a_run_and_its_steps_use_the_store_in_the_database() {
    let flow = r#"
        [step.a]
        run = '"$WINDLASS" emit a-was-here'
        [step.b]
        after = "a"
        lock = "x"
        run = '"$WINDLASS" holders'
    "#;
    let Some((bench, url)) = bench(flow) else { return };
    let run = ends_with(&bench, 0, &url, &["run", "flow.toml"]);
    assert!(run.contains("2 succeeded"), "{run}");
    let log = ends_with(&bench, 0, &url, &["log", "last/b"]);
    assert!(log.contains("lock") && log.contains('x'), "{log}");
    let events = ends_with(&bench, 0, &url, &["events"]);
    assert!(events.contains("a-was-here"), "{events}");
    let shown = ends_with(&bench, 0, &url, &["show", "last"]);
    assert!(shown.contains("succeeded"), "{shown}");
}

#[test]
fn commands_wait_for_each_other_through_the_database() {
    let Some((bench, url)) = bench("") else { return };
    let hold = "touch held; while [ ! -e go ]; do sleep 0.01; done; echo first >> order";
    let mut command = bench.command(&["--state", &url, "lock", "x", "--", "sh", "-c", hold]);
    let home = bench.path("home");
    let mut first = command.env("XDG_STATE_HOME", &home).spawn().expect("the binary runs");
    bench.await_file("held");
    let refused = ends_with(&bench, 75, &url, &["lock", "x", "--nonblock", "--", "true"]);
    assert!(refused.contains("lock \"x\""), "{refused}");
    let then = ["--state", &url, "lock", "x", "--", "sh", "-c", "echo second >> order"];
    let mut second = bench.command(&then);
    let mut second = second.env("XDG_STATE_HOME", &home).spawn().expect("the binary runs");
    let waiting = second.id().to_string();
    eventually("the second one waits", || {
        ends_with(&bench, 0, &url, &["holders"]).contains(&waiting)
    });
    bench.write("go", "");
    assert!(first.wait().expect("it ends").success() && second.wait().expect("it ends").success());
    assert_eq!(bench.read("order"), "first\nsecond\n");
}

#[test]
fn a_submitted_run_is_led_through_the_database() {
    let Some((bench, url)) = bench("[step.a]\nrun = \"echo done\"") else { return };
    let said = ends_with(&bench, 0, &url, &["run", "--detach", "flow.toml"]);
    let run = said.lines().next().expect("its id").to_owned();
    ends_with(&bench, 0, &url, &["wait", &run]);
    let log = ends_with(&bench, 0, &url, &["log", &run]);
    assert!(log.contains("done"), "{log}");
}

#[test]
fn what_a_killed_worker_was_executing_ends_at_once() {
    let flow =
        "[step.a]\nrun = 'env -i setsid sh -c \"echo \\$\\$ > pid; exec sleep 600\"; sleep 600'\n";
    let Some((bench, url)) = bench(flow) else { return };
    let start = |arguments: &[&str]| {
        let mut command = bench.command(&[&["--state", &url], arguments].concat());
        let said = fs::File::create(bench.path(arguments[0])).expect("a file");
        let command = command.env("XDG_STATE_HOME", bench.path("home")).stderr(said);
        command.spawn().expect("the binary runs")
    };
    let mut serve = start(&["serve", "--no-worker"]);
    let mut worker = start(&["worker", "--name", "one"]);
    ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
    bench.await_file("pid");
    eventually("it says which process it is", || bench.read("pid").ends_with('\n'));
    worker.kill().and_then(|()| worker.wait()).expect("it can be killed");
    let pid = bench.read("pid");
    eventually("the guardian has ended it", || !runs(pid.trim()));
    serve.kill().and_then(|()| serve.wait()).expect("it can be killed");
    let said = bench.read("worker");
    assert_eq!(said.lines().count(), 1, "the guardian says nothing: {said}");
}

/// No scheduler is left that would end it either.
#[test]
fn what_a_suspended_worker_was_executing_ends_while_the_database_hangs() {
    let Some(server) = Server::own() else { return };
    let bench = Bench::new();
    let url = server.new_store();
    bench.write("flow.toml", "[step.a]\nrun = 'echo $$ > pid; sleep 600; true'\n");
    ends_with(&bench, 0, &url, &["store", "init"]);
    let start = |arguments: &[&str]| {
        let mut command = bench.command(&[&["--state", &url], arguments].concat());
        command.env("XDG_STATE_HOME", bench.path("home")).spawn().expect("the binary runs")
    };
    let mut serve = start(&["serve", "--no-worker"]);
    let mut worker = start(&["worker", "--name", "one", "--lease", "2s"]);
    ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
    bench.await_file("pid");
    eventually("it says which process it is", || bench.read("pid").ends_with('\n'));
    serve.kill().and_then(|()| serve.wait()).expect("it can be killed");
    // It takes connections and does not answer.
    let suspended = Suspended::new(vec![postmaster(&server)]);
    signal(&worker, Signal::STOP);
    let pid = bench.read("pid");
    eventually("the guardian has ended it", || !runs(pid.trim()));
    drop(suspended);
    worker.kill().and_then(|()| worker.wait()).expect("it can be killed");
}

/// Processes of a server that continue when this is dropped.
struct Suspended(Vec<Pid>);

impl Suspended {
    fn new(processes: Vec<Pid>) -> Self {
        let suspended = Self(processes);
        suspended.signal(Signal::STOP);
        suspended
    }

    /// Suspends a server with all its sessions.
    fn server(server: &Server) -> Self {
        let first = postmaster(server);
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
        let children = children.expect("the server runs");
        let pid = |text: &str| Pid::from_raw(text.parse().ok()?);
        Self::new(children.split_whitespace().filter_map(pid).chain([first]).collect())
    }

    fn signal(&self, what: Signal) {
        for process in &self.0 {
            // A session may have ended.
            let _ = kill_process(*process, what);
        }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

/// Returns the process of a server that takes connections.
fn postmaster(server: &Server) -> Pid {
    let lock = server.socket().with_extension("5432.lock");
    let lock = fs::read_to_string(lock).expect("the server runs");
    let pid = lock.lines().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    pid.expect("a pid")
}

/// A worker with a short lease that has a step to report, which a server that hangs does not take.
struct Stuck {
    worker: Child,
    bench: Bench,
    _suspended: Suspended,
    _server: Server,
}

impl Stuck {
    fn new() -> Option<Self> {
        let server = Server::own()?;
        let (bench, url) = (Bench::new(), server.new_store());
        let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done'\n";
        bench.write("flow.toml", flow);
        ends_with(&bench, 0, &url, &["store", "init"]);
        let said = fs::File::create(bench.path("said")).expect("a file");
        let start = |arguments: &[&str], said: Stdio| {
            let mut command = bench.command(&[&["--state", &url], arguments].concat());
            command.env("XDG_STATE_HOME", bench.path("home")).stderr(said);
            command.spawn().expect("the binary runs")
        };
        let mut serve = start(&["serve", "--no-worker"], Stdio::null());
        let worker = start(&["worker", "--name", "one", "--lease", "5s"], said.into());
        ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
        bench.await_file("begun");
        serve.kill().and_then(|()| serve.wait()).expect("it can be killed");
        let _suspended = Suspended::server(&server);
        bench.write("go", "");
        Some(Self { worker, bench, _suspended, _server: server })
    }

    fn said(&self) -> String {
        self.bench.read("said")
    }

    /// Asks the worker to end, and waits until it has.
    fn end(&mut self) -> ExitStatus {
        signal(&self.worker, Signal::TERM);
        eventually("it ends", || !runs(&self.worker.id().to_string()));
        self.worker.wait().expect("it is a child")
    }
}

#[test]
fn a_worker_that_cannot_begin_again_because_the_database_is_away_ends_on_a_signal() {
    let Some(mut stuck) = Stuck::new() else { return };
    eventually("its life is over", || stuck.said().contains("it begins again"));
    assert_eq!(stuck.end().signal(), Some(15), "{}", stuck.said());
}

#[test]
fn a_worker_that_was_asked_to_end_does_not_begin_again_when_its_life_is_over() {
    let Some(mut stuck) = Stuck::new() else { return };
    assert_eq!(stuck.end().code(), Some(0), "{}", stuck.said());
    assert!(!stuck.said().contains("begins again"), "{}", stuck.said());
}

#[test]
fn a_saturated_worker_has_as_many_orders_as_slots_and_why_says_what_the_others_wait_for() {
    let step = |number| {
        format!(
            "[step.s{number}]\nrun = 'touch begun-{number}; until test -e go; do sleep 0.02; done'\n"
        )
    };
    let Some((bench, url)) = bench(&(0..40).map(step).collect::<String>()) else { return };
    let start = |arguments: &[&str]| {
        let mut command = bench.command(&[&["--state", &url], arguments].concat());
        command.env("XDG_STATE_HOME", bench.path("home")).stderr(Stdio::null());
        command.spawn().expect("the binary runs")
    };
    let mut processes =
        [start(&["serve", "--no-worker"]), start(&["worker", "--name", "one", "--slots", "2"])];
    let run = ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
    let run = run.lines().next().expect("its id");
    let begun = || (0..40).filter(|step| bench.path(&format!("begun-{step}")).exists()).count();
    eventually("the slots are taken", || begun() == 2);
    let schema = url.rsplit('=').next().expect("it names one");
    let orders = || sql(&url, &format!("SELECT count(*) FROM {schema}.work_order"));
    assert_eq!(orders(), "2", "what does not fit stays in the queue of the scheduler");
    let why = ends_with(&bench, 0, &url, &["why", &format!("{run}/s39")]);
    assert!(why.contains("slots of the workers") && why.contains("s0"), "{why}");
    bench.write("go", "");
    ends_with(&bench, 0, &url, &["wait", run]);
    assert_eq!((begun(), orders().as_str()), (40, "0"));
    processes.iter_mut().for_each(|process| {
        process.kill().and_then(|()| process.wait()).map(drop).expect("it can be killed");
    });
}

/// Starts a worker, and returns it once a commit of it was not answered. None is answered before
/// `held_up` is empty.
fn unanswered_worker(bench: &Bench, url: &str) -> Child {
    let schema = url.rsplit('=').next().expect("it names one");
    let hold_up = format!(
        "CREATE TABLE {schema}.held_up (one INTEGER); INSERT INTO {schema}.held_up VALUES (1);
         CREATE FUNCTION {schema}.hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         WHILE EXISTS (SELECT FROM {schema}.held_up) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER hold_up AFTER INSERT ON {schema}.worker DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION {schema}.hold_up()"
    );
    sql(url, &hold_up);
    let arguments = ["--state", url, "worker", "--name", "one", "--lease", "2s"];
    let said = fs::File::create(bench.path("said")).expect("a file");
    let mut command = bench.command(&arguments);
    let command = command.env("XDG_STATE_HOME", bench.path("home")).stderr(said);
    let worker = command.spawn().expect("the binary runs");
    eventually("it is not answered", || bench.read("said").contains("did not answer a commit"));
    worker
}

#[test]
fn a_worker_whose_beginning_is_not_answered_begins_again() {
    let Some((bench, url)) = bench("[step.a]\nrun = \"true\"") else { return };
    let mut worker = unanswered_worker(&bench, &url);
    sql(&url, &format!("DELETE FROM {}.held_up", url.rsplit('=').next().expect("a schema")));
    eventually("it begins", || bench.read("said").contains("takes steps"));
    let run = ends_with(&bench, 0, &url, &["run", "--detach", "flow.toml"]);
    ends_with(&bench, 0, &url, &["wait", run.lines().next().expect("its id")]);
    worker.kill().and_then(|()| worker.wait()).expect("it can be killed");
}

#[test]
fn a_worker_that_cannot_begin_ends_by_a_signal() {
    let Some((bench, url)) = bench("") else { return };
    let mut worker = unanswered_worker(&bench, &url);
    signal(&worker, Signal::TERM);
    let pid = worker.id().to_string();
    eventually("it ends", || !runs(&pid));
    assert_eq!(worker.wait().expect("it has ended").signal(), Some(Signal::TERM.as_raw()));
    sql(&url, &format!("DELETE FROM {}.held_up", url.rsplit('=').next().expect("a schema")));
}

#[test]
fn a_log_is_complete_after_the_database_was_away_while_its_step_printed() {
    let Some(server) = Server::own() else { return };
    let (bench, url) = (Bench::new(), server.new_store());
    let print = |from: u32| format!("seq {from} {}; touch printed-{from}", from + 19_999);
    let wait = |file: &str| format!("until test -e {file}; do sleep 0.01; done");
    let run = [print(1), wait("two"), print(20_001), wait("three"), print(40_001)].join("; ");
    bench.write("flow.toml", &format!("[step.a]\nrun = '{run}'\n"));
    ends_with(&bench, 0, &url, &["store", "init"]);
    let command = |home: &str, arguments: &[&str]| {
        let mut command = bench.command(&[&["--state", &url], arguments].concat());
        command.env("XDG_STATE_HOME", bench.path(home)).stderr(Stdio::null());
        command
    };
    let start = |arguments: &[&str]| command("home", arguments).spawn().expect("it runs");
    let services = [start(&["serve", "--no-worker"]), start(&["worker", "--name", "one"])];
    let submitted = ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
    let run = submitted.lines().next().expect("its id");
    let log = || {
        let printed = command("elsewhere", &["log", run]).output().expect("it runs");
        let printed = stdout(&printed);
        printed.split_once(" <==\n").map(|(_, log)| log.to_owned()).unwrap_or_default()
    };
    let numbers = |to: u32| (1..=to).map(|number| format!("{number}\n")).collect::<String>();
    eventually("the first part is sent", || log() == numbers(20_000));
    server.crash();
    bench.write("two", "");
    eventually("the second part is sent", || log() == numbers(40_000));
    let suspended = Suspended::server(&server);
    bench.write("three", "");
    bench.await_file("printed-40001");
    drop(suspended);
    ends_with(&bench, 0, &url, &["wait", run]);
    eventually("the end is sent", || log() == numbers(60_000));
    for mut service in services {
        service.kill().and_then(|()| service.wait()).expect("it can be killed");
    }
}

#[test]
fn a_url_that_cannot_be_used_is_refused_without_showing_its_password() {
    let bench = Bench::new();
    for (url, code, why) in [
        ("postgres://me:secret@127.0.0.1:1/x", 2, "put the password into ~/.pgpass"),
        ("postgres://me@127.0.0.1:1/x?sslmode=disable", 69, "cannot reach database"),
        ("postgres://me@127.0.0.1:1/x?schema=A", 2, "invalid schema"),
    ] {
        let said = ends_with(&bench, code, url, &["ps"]);
        assert!(said.contains(why) && !said.contains("secret"), "{said}");
    }
}

#[test]
fn doctor_says_what_holds_and_what_is_wrong() {
    let Some((bench, url)) = bench("[step.a]\nrun = \"true\"") else { return };
    let said = ends_with(&bench, 0, &url, &["doctor"]);
    for about in ["server: ", "standby: none", "clock: ", "connections: ", "workers: 0", "disk: "] {
        assert!(said.contains(about), "{about}: {said}");
    }
    assert!(said.ends_with("nothing is wrong\n"), "{said}");
    ends_with(&bench, 0, &url, &["submit", "flow.toml"]);
    let said = ends_with(&bench, 1, &url, &["doctor", "--json"]);
    said.lines().for_each(crate::looking::json::check_line);
    assert!(said.contains("1 run waits, and no scheduler is running"), "{said}");
}

#[test]
fn an_account_may_do_what_it_was_given_and_no_more() {
    let Some((bench, url)) = bench("[step.a]\nrun = \"true\"") else { return };
    let role = format!("role_{}", url.rsplit('_').next().expect("a number"));
    let place = url.split_once("&schema=").expect("it names one").0;
    let mut created = Command::new("psql");
    created.args([place, "-c", &format!("CREATE ROLE {role} LOGIN")]);
    assert!(created.output().expect("psql is there").status.success());
    let theirs = url.replace("windlass@", &format!("{role}@"));
    let denied = "permission denied";
    assert!(ends_with(&bench, 69, &theirs, &["ps"]).contains(denied));
    assert!(ends_with(&bench, 1, &theirs, &["store", "check"]).contains("may not even look"));
    ends_with(&bench, 0, &url, &["store", "grant", &role, "--read"]);
    ends_with(&bench, 0, &theirs, &["ps"]);
    assert!(ends_with(&bench, 69, &theirs, &["emit", "e"]).contains(denied));
    let checked = ends_with(&bench, 0, &theirs, &["store", "check"]);
    assert!(
        checked.starts_with(&format!("{role} may read\nto operate, it lacks INSERT on ")),
        "{checked}"
    );
    ends_with(&bench, 0, &url, &["store", "grant", &role, "--operate"]);
    ends_with(&bench, 0, &theirs, &["emit", "e"]);
    ends_with(&bench, 0, &theirs, &["lock", "x", "--", "true"]);
    ends_with(&bench, 0, &theirs, &["limits", "set", "gpu=2"]);
    ends_with(&bench, 0, &theirs, &["run", "flow.toml"]);
    ends_with(&bench, 0, &theirs, &["submit", "flow.toml"]);
    ends_with(&bench, 0, &theirs, &["prune", "--keep", "0"]);
    let checked = ends_with(&bench, 0, &theirs, &["store", "check"]);
    assert!(checked.contains("to work, it lacks INSERT on log_chunk"), "{checked}");
    ends_with(&bench, 0, &url, &["store", "grant", &role, "--work"]);
    let said = ends_with(&bench, 0, &theirs, &["run", "--detach", "flow.toml"]);
    ends_with(&bench, 0, &theirs, &["wait", said.lines().next().expect("its id")]);
    ends_with(&bench, 0, &theirs, &["log", "last"]);
    ends_with(&bench, 0, &url, &["store", "grant", &role, "--read"]);
    assert!(ends_with(&bench, 69, &theirs, &["emit", "e"]).contains(denied), "less than before");
}
