//! The service under systemd: its units, its watchdog, and signals that are for others.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use super::*;

#[test]
fn systemd_accepts_the_units_that_are_printed() {
    let bench = Bench::new();
    let both = stdout(&bench.ends_with(0, &["serve", "--unit"]));
    let mut files = Vec::new();
    for unit in ["scheduler", "worker"] {
        let option = format!("--unit={unit}");
        let settings = ["--slots", "3", "--lease", "5s", "--kept-log", "2M", "--label", "zone=a"];
        let text = stdout(&bench.ends_with(0, &[&["serve", &option], &settings[..]].concat()));
        let plain = stdout(&bench.ends_with(0, &["serve", &option]));
        assert!(both.contains(&plain), "{both}");
        let state = format!("--state \"{}\"", bench.path("state").display());
        assert!(text.contains(&state) && text.contains("--lease 5000ms"), "{text}");
        for setting in ["--slots 3", "--kept-log=2M", "--label=zone=a"] {
            assert_eq!(text.contains(setting), unit == "worker", "{setting}: {text}");
        }
        let file = format!("windlass-{unit}.service");
        bench.write(&file, &text);
        files.push(bench.path(&file));
    }
    assert!(!bench.path("state").exists(), "nothing is started");
    // Not every system has it.
    let mut verify = Command::new("systemd-analyze");
    verify.env("XDG_RUNTIME_DIR", bench.path("."));
    let Ok(output) = verify.args(["--user", "verify"]).args(&files).output() else { return };
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_worker_beats_the_watchdog_of_its_unit() {
    let bench = Bench::new();
    let socket = UnixDatagram::bind(bench.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let mut worker =
        bench.script("WATCHDOG_PID=$$; export WATCHDOG_PID; exec \"$WINDLASS\" worker --name one");
    worker.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "200000");
    let mut worker = worker.stderr(Stdio::null()).spawn().expect("it runs");
    let mut told = Vec::new();
    while told.len() < 4 {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).expect("it beats");
        told.push(String::from_utf8_lossy(&text[..length]).into_owned());
    }
    assert_eq!(told, ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
    signal(&worker, Signal::TERM);
    assert!(worker.wait().expect("it ends").success());
}

#[test]
fn a_closed_terminal_ends_neither_scheduler_nor_worker() {
    let service = Service::with(
        "[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n",
        "1",
    );
    let run = service.submit(&[]);
    service.bench.await_file("began");
    for process in &service.processes {
        signal(process, Signal::HUP);
    }
    service.bench.write("go", "");
    service.wait(&run, 0);
    let again = service.submit(&[]);
    service.wait(&again, 0);
    assert!(!service.said().contains("takes no new steps"), "{}", service.said());
}
