//! Handing a lock over to a waiter, and a long queue of waiting processes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use windlass_store::{Answer, Claim, Claimed, HolderId, Name, Need, Store, Token, Topic, Wakeup};

use windlass_bench_report::Table;

fn needs() -> [Need; 1] {
    [Need::one(Name::Lock("x".to_owned()))]
}

/// Measures the time from a release to the acquisition by a waiter that sleeps until it is notified, with
/// two connections that share nothing, like two processes.
pub(crate) fn hand_over(rounds: usize, table: &mut Table) {
    let dir = tempfile::tempdir().expect("a directory");
    let (tell, told) = mpsc::channel();
    let (ready, begun) = mpsc::channel();
    let (start, started) = mpsc::channel::<()>();
    let place = dir.path().to_owned();
    let waiter = thread::spawn(move || {
        let mut store = Store::open(&place).expect("a store");
        let (holder, wakeup) =
            (HolderId::new("b"), store.register(&Topic::Turn).expect("a wake-up"));
        while started.recv().is_ok() {
            let token = wait(&mut store, &holder, &wakeup, &ready);
            let had = Instant::now();
            give_back(&mut store, &holder, token);
            tell.send(had).expect("the receiver lives");
        }
    });
    let mut store = Store::open(dir.path()).expect("a store");
    let (holder, wakeup) = (HolderId::new("a"), store.register(&Topic::Turn).expect("a wake-up"));
    let (never, _heard) = mpsc::channel();
    let mut delays = Vec::new();
    for _ in 0..rounds {
        let token = wait(&mut store, &holder, &wakeup, &never);
        start.send(()).expect("the other lives");
        begun.recv().expect("the other waits");
        // Gives the waiter time to fall asleep.
        thread::sleep(Duration::from_millis(2));
        let began = Instant::now();
        give_back(&mut store, &holder, token);
        delays.push(told.recv().expect("the other has it").duration_since(began));
    }
    drop(start);
    waiter.join().expect("no panic");
    table.add_delays("hand-over to a waiter, release included", "windlass-store", &delays);
}

/// Acquires lock x, and waits for its wake-up if necessary; sends a message when it begins to wait.
fn wait(store: &mut Store, holder: &HolderId, wakeup: &Wakeup, begun: &mpsc::Sender<()>) -> Token {
    let needs = needs();
    let mut told = false;
    loop {
        wakeup.drain();
        let claim = Claim { wakeup: Some(wakeup.name()), ..Claim::new(holder, &needs) };
        match store.transact_leases(|t| t.leases().claim(&claim)).expect("it works") {
            Claimed::Held(holds) => return holds[0].token,
            Claimed::Refused(_) if !told => {
                told = true;
                let _ = begun.send(());
            }
            Claimed::Refused(_) => {}
        }
        let mut fds = [PollFd::new(wakeup, PollFlags::IN)];
        poll(&mut fds, None).expect("it can be polled");
    }
}

fn give_back(store: &mut Store, holder: &HolderId, token: Token) {
    let name = needs()[0].name.clone();
    let released = store.transact_leases(|t| t.leases().release(&name, holder, token));
    assert_eq!(released.expect("it works"), Answer::Released);
}

/// Measures the processor time of commands that wait for one lock, and the time of each hand-over once
/// the first holder releases it.
pub(crate) fn long_line(windlass: &Path, waiters: usize, table: &mut Table) {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, gate) = (dir.path().join("state"), dir.path().join("go"));
    let start = |command: &[&str]| -> Child {
        let mut child = Command::new(windlass);
        child.args(["lock", "x", "--"]).args(command).env("WINDLASS_STATE", &state);
        child.current_dir(dir.path()).stdin(Stdio::null()).spawn().expect("it starts")
    };
    let hold = "touch held; while ! test -e go; do sleep 0.05; done";
    let mut line = Line(vec![start(&["sh", "-c", hold])]);
    while !dir.path().join("held").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let mut store = Store::open(&state).expect("a store");
    let began = Instant::now();
    line.0.extend((0..waiters).map(|_| start(&["true"])));
    while waiting(&mut store) < waiters {
        let ended = line.0.iter_mut().find_map(|child| child.try_wait().expect("it can be asked"));
        assert!(ended.is_none(), "it did not wait: {ended:?}");
        thread::sleep(Duration::from_millis(50));
    }
    let name = format!("a line of {waiters} commands");
    table.add_delays(&format!("{name}, until all wait"), "windlass lock", &[began.elapsed()]);
    let watched = Duration::from_secs(5);
    let before = used(&line.0[1..]);
    thread::sleep(watched);
    let share = (used(&line.0[1..]) - before) / watched.as_secs_f64() * 100.0;
    table.add(
        &format!("{name}, all together while waiting"),
        "windlass lock",
        "% of a CPU",
        vec![share],
    );
    let began = Instant::now();
    fs::write(gate, "").expect("a file");
    for child in &mut line.0 {
        assert!(child.wait().expect("it ends").success());
    }
    let each = began.elapsed() / u32::try_from(waiters).expect("not so many");
    table.add_delays(&format!("{name}, per command once it moves"), "windlass lock", &[each]);
}

/// Processes that are killed when this value is dropped.
struct Line(Vec<Child>);

impl Drop for Line {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Most have ended already.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

fn waiting(store: &mut Store) -> usize {
    store.overview().expect("it can be read").iter().map(|view| view.waiters.len()).sum()
}

/// Returns the processor seconds that these processes have used.
fn used(children: &[Child]) -> f64 {
    let ticks = children.iter().map(|child| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let fields: Vec<_> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |place: usize| fields.get(place).and_then(|f| f.parse::<f64>().ok());
        number(11).unwrap_or_default() + number(12).unwrap_or_default()
    });
    ticks.sum::<f64>() / 100.0
}
