//! One store for several users: what they share, what is whose, and what root leaves behind.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};
use crate::service::end_background_service;
use crate::users::{ALICE, BOB, GROUP, Users, below};

/// Holds the lock x from the file `held` until there is a file `release`.
const HOLD: &str = "umask 077; exec \"$WINDLASS\" lock x --heartbeat-timeout 2s -- sh -c \
                    'touch held; while ! test -e release; do sleep 0.02; done'";

#[test]
fn two_users_of_a_shared_store_never_hold_a_lock_at_once() {
    let Some(users) = Users::sharing() else { return };
    let mut alice = users.script(ALICE, HOLD).spawn().expect("it starts");
    users.bench.await_file("held");
    let refused = users.call(BOB, &["lock", "-n", "x", "--", "touch", "stolen"]);
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    let state = users.bench.path("state").display().to_string();
    assert!(stderr(&refused).contains(&state), "it names the store: {}", stderr(&refused));
    let held = users.call(BOB, &["holders", "--json"]);
    assert!(stdout(&held).contains(r#""state":"held""#), "{}", stdout(&held));
    assert!(stdout(&held).contains(&format!(r#""user":"user {ALICE}""#)), "{}", stdout(&held));

    let waits = users.command(BOB, &["lock", "x", "--", "touch", "later"]).spawn();
    let waits = waits.expect("it starts");
    eventually("Bob stands in line", || {
        stdout(&users.call(BOB, &["holders"])).contains("wanted by")
    });
    users.bench.write("release", "");
    assert!(alice.wait().expect("it ends").success());
    assert!(waits.wait_with_output().expect("it ends").status.success());
    assert!(users.bench.path("later").exists() && !users.bench.path("stolen").exists());
}

#[test]
fn what_one_member_makes_all_others_can_use() {
    let Some(users) = Users::sharing() else { return };
    let flow = "[step.a]\nlock = 'x'\nrun = 'echo hello; echo k=v >> $WINDLASS_OUTPUT'\n";
    users.bench.write("flow.toml", flow);
    for (uid, umask) in [(ALICE, "077"), (BOB, "0177"), (ALICE, "000")] {
        let umask = format!("umask {umask}; exec \"$WINDLASS\" run flow.toml");
        let run = users.script(uid, &umask).output().expect("it runs");
        assert!(run.status.success(), "{uid}: {}", stderr(&run));
        let log = users.call(BOB, &["log", "last"]);
        assert!(stdout(&log).contains("hello"), "{uid}: {}", stderr(&log));
    }
    // A fifo lasts as long as its listener, which first makes it and then opens it to the others.
    let mut follows = users.script(ALICE, "umask 0777; exec \"$WINDLASS\" events -f");
    let mut follows = follows.spawn().expect("it starts");
    eventually("a wake-up is registered", || {
        below(&users.bench.path("state/wakeups")).iter().any(|path| {
            let found = fs::symlink_metadata(path).expect("it is there");
            found.file_type().is_fifo() && found.mode() & 0o7777 == 0o660
        })
    });
    for path in below(&users.bench.path("state")) {
        let found = fs::symlink_metadata(&path).expect("it is there");
        let expected = if found.is_dir() { 0o2770 } else { 0o660 };
        let seen = (found.mode() & 0o7777, found.gid());
        assert_eq!(seen, (expected, GROUP), "{:o} {}", found.mode(), path.display());
    }
    signal(&follows, Signal::TERM);
    follows.wait().expect("it ends");
}

#[test]
fn a_run_is_steered_by_its_owner_and_seen_by_all() {
    let Some(users) = Users::sharing() else { return };
    users.bench.write("flow.toml", GUARDED);
    let run = users.command(ALICE, &["run", "flow.toml"]).spawn().expect("it starts");
    let seen = || stdout(&users.call(BOB, &["ps"]));
    eventually("the step waits", || seen().contains("waiting: a (guard ok)"));
    let id = users.bench.run_id();
    let refused = |verb: &[&str]| {
        let output = users.call(BOB, verb);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {}", stderr(&output));
        let told = format!("belongs to user {ALICE}");
        assert!(stderr(&output).contains(&told), "{verb:?}: {}", stderr(&output));
    };
    refused(&["cancel", &id]);
    refused(&["cancel", &format!("{id}/a")]);
    let approved = users.call(BOB, &["approve", &format!("{id}/a")]);
    assert!(approved.status.success(), "{}", stderr(&approved));
    let ended = run.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(stdout(&users.call(BOB, &["log", "last/a"])).contains("done"));
    refused(&["retry", &id]);

    let kept = users.call(BOB, &["prune", "--keep", "0"]);
    assert!(stderr(&kept).contains("kept 1 run of other users"), "{}", stderr(&kept));
    assert!(users.call(BOB, &["show", &id]).status.success());
    let retried = users.bench.call(&["retry", &id]);
    assert_eq!(retried.status.code(), Some(1), "root may: {}", stderr(&retried));
    let pruned = users.call(ALICE, &["prune", "--keep", "0"]);
    assert!(stderr(&pruned).starts_with("deleted 1 run"), "{}", stderr(&pruned));
    assert_eq!(users.call(BOB, &["show", &id]).status.code(), Some(2));
}

#[test]
fn who_submits_to_the_worker_of_another_user_is_told() {
    let Some(users) = Users::sharing() else { return };
    let add = |user| {
        let output = users.call(user, &["add", "-q", &format!("of-{user}"), "--", "true"]);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(add(ALICE), "", "her command starts her own worker");
    assert!(users.call(ALICE, &["wait", &format!("of-{ALICE}")]).status.success());
    let told = format!("warning: user {ALICE} has started the worker of this store");
    let said = add(BOB);
    assert!(said.contains(&told), "{said}");
    assert_eq!(add(ALICE), "");
    end_background_service(&users.bench);
}

const GUARDED: &str = "
[guard.ok]
condition = 'false'
retry = { max = 9, interval = '1h' }
[step.a]
run = 'echo done'
guard = 'ok'
[step.b]
run = 'exit 1'
";

#[test]
fn what_another_user_has_left_running_keeps_the_name_until_its_lease_is_over() {
    let Some(users) = Users::sharing() else { return };
    let left = "echo $$ > wrapper; exec \"$WINDLASS\" lock x --heartbeat-timeout 4s -- sh -c \
                'setsid sleep 300 & echo $! > left; touch held; wait'";
    let mut alice = users.script(ALICE, left).spawn().expect("it starts");
    users.bench.await_file("held");
    signal(&alice, Signal::KILL);
    alice.wait().expect("it was killed");
    let pid = users.bench.read("left");
    assert!(runs(&pid), "it is left");

    let refused = users.call(BOB, &["lock", "-n", "x", "--", "true"]);
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    let told = format!("only user {ALICE} or root may end");
    assert!(stderr(&refused).contains(&told), "{}", stderr(&refused));
    let waited = users.call(BOB, &["lock", "x", "--wait", "60s", "--", "true"]);
    assert!(waited.status.success(), "the lease is over: {}", stderr(&waited));
    assert!(runs(&pid), "a user ends only processes of his own");
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().expect("it runs").success());
}

#[test]
fn root_ends_what_a_user_has_left_running() {
    let Some(users) = Users::sharing() else { return };
    let left =
        "exec \"$WINDLASS\" lock x -- sh -c 'setsid sleep 300 & echo $! > left; touch held; wait'";
    let mut alice = users.script(ALICE, left).spawn().expect("it starts");
    users.bench.await_file("held");
    signal(&alice, Signal::KILL);
    alice.wait().expect("it was killed");
    users.bench.ends_with(0, &["lock", "-n", "x", "--", "true"]);
    assert!(!runs(&users.bench.read("left")));
}

#[test]
fn one_call_by_root_leaves_nothing_that_the_user_cannot_use() {
    let Some(users) = Users::new() else { return };
    let home = users.private_dir(ALICE, "home");
    let state = home.join("state/windlass");
    let state_text = state.display().to_string();
    let flow = "[step.a]\nlock = 'x'\nrun = 'echo hello'\n[step.b]\nrun = 'exit 1'\n";
    users.bench.write("flow.toml", flow);
    users.bench.ends_with(1, &["--state", &state_text, "run", "flow.toml"]);
    for path in below(&home) {
        let found = fs::symlink_metadata(&path).expect("it is there");
        assert_eq!((found.uid(), found.gid()), (ALICE, ALICE), "{}", path.display());
        assert_eq!(found.mode() & 0o077, 0, "{}", path.display());
    }
    let call = |verb: &[&str]| users.call(ALICE, &[&["--state", &state_text], verb].concat());
    for (verb, code) in [
        (&["lock", "x", "--", "true"][..], 0),
        (&["log", "last"], 0),
        (&["retry", "last"], 1),
        (&["run", "flow.toml"], 1),
        (&["prune", "--keep", "0"], 0),
    ] {
        let output = call(verb);
        assert_eq!(output.status.code(), Some(code), "{verb:?}: {}", stderr(&output));
    }
    assert!(!state.join("runs").read_dir().is_ok_and(|mut runs| runs.next().is_some()));
}

#[test]
fn a_holder_that_cannot_be_seen_does_not_count_as_gone() {
    let Some(users) = Users::sharing() else { return };
    if users.call_blind(BOB, &["--version"]).is_none() {
        return;
    }
    users
        .bench
        .write("flow.toml", "[step.a]\nrun = 'while ! test -e release; do sleep 0.02; done'\n");
    let mut alice = users.script(ALICE, HOLD).spawn().expect("it starts");
    let mut run = users.command(ALICE, &["run", "flow.toml"]).spawn().expect("it starts");
    users.bench.await_file("held");
    eventually("the run has begun", || stdout(&users.call(ALICE, &["ps"])).contains("running"));
    let blind = |arguments: &[&str]| users.call_blind(BOB, arguments).expect("as before");
    let refused = blind(&["lock", "-n", "x", "--", "touch", "stolen"]);
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    let seen = |verb| stdout(&blind(&[verb]));
    assert!(seen("holders").contains("held by"), "{}", seen("holders"));
    assert!(seen("ps").contains("running"), "{}", seen("ps"));
    assert!(!users.bench.path("stolen").exists());
    users.bench.write("release", "");
    assert!(alice.wait().expect("it ends").success());
    assert!(run.wait().expect("it ends").success());
}

#[test]
fn the_machines_store_is_chosen_by_a_flag_and_made_on_purpose() {
    let Some(users) = Users::new() else { return };
    let in_own_var = |script: &str| {
        let mut command =
            users.bench.script(&format!("mount -t tmpfs none /var/lib || exit 99\n{script}"));
        let mut unshared = Command::new("unshare");
        unshared.arg("-m").arg(command.get_program()).args(command.get_args());
        unshared.current_dir(users.bench.path("."));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => unshared.env(name, value),
                None => unshared.env_remove(name),
            };
        }
        command.env_clear();
        unshared.output().expect("unshare runs")
    };
    let bob = format!("setpriv --reuid={BOB} --regid={BOB} --groups={GROUP} ./windlass");
    let output = in_own_var(&format!(
        "./windlass --system lock x -- true && exit 98
         umask 077
         ./windlass store init --system --group {GROUP} --json
         ./windlass --system lock acquire x --holder root-1
         {bob} --system lock acquire x --holder bob-1 && exit 97
         {bob} --system holders x
         {bob} lock acquire x --holder bob-1 --state /tmp --system && exit 96
         ./windlass holders
         exit 0"
    ));
    if output.status.code() == Some(99) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    assert!(said.contains(r#""dir":"/var/lib/windlass""#), "{said}");
    assert!(said.contains(r#""group":"71199""#), "{said}");
    assert!(said.contains("Acquired 1\nBusy root-1\nlock \"x\": held by root-1"), "{said}");
    let told = stderr(&output);
    assert!(told.contains("windlass store init --system --group NAME"), "{told}");
    assert!(told.contains("store: /var/lib/windlass"), "{told}");
    assert!(!users.bench.path("state").exists(), "nothing was made elsewhere");
}

#[test]
fn a_read_only_store_can_be_looked_at() {
    let Some(users) = Users::new() else { return };
    users.bench.write("flow.toml", "[step.a]\nrun = 'echo hello; touch began; sleep 0.1'\n");
    let home = users.private_dir(ALICE, "home");
    let state = home.join("state").display().to_string();
    let call = |verb: &[&str]| users.call(ALICE, &[&["--state", &state], verb].concat());
    assert!(call(&["run", "flow.toml"]).status.success());
    assert!(call(&["lock", "acquire", "x", "--holder", "a"]).status.success());
    let status = Command::new("chmod").args(["-R", "a-w", &state]).status();
    assert!(status.expect("chmod runs").success());
    for (verb, said) in [
        (&["ps"][..], ""),
        (&["history"], "succeeded"),
        (&["show", "last"], "flow"),
        (&["log", "last"], "hello"),
        (&["holders"], "held by a"),
        (&["events"], ""),
        (&["wait", "last"], ""),
    ] {
        let output = call(verb);
        assert!(output.status.success(), "{verb:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(said), "{verb:?}: {}", stdout(&output));
    }
    let refused = call(&["lock", "x", "--", "true"]);
    assert_eq!(refused.status.code(), Some(69), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("read-only") || stderr(&refused).contains("denied"));
}

#[test]
fn verbs_that_only_look_create_nothing() {
    let bench = Bench::new();
    let typo = bench.path("typo").display().to_string();
    for verb in [
        &["ps"][..],
        &["holders"],
        &["history"],
        &["show", "last"],
        &["log", "last"],
        &["why", "last/a"],
        &["events"],
        &["prune"],
        &["cancel", "last"],
        &["resume", "last"],
    ] {
        let output = bench.call(&[&["--state", &typo], verb].concat());
        assert_eq!(output.status.code(), Some(69), "{verb:?}: {}", stderr(&output));
        let told = format!("there is no store in {typo}");
        assert!(stderr(&output).contains(&told), "{verb:?}: {}", stderr(&output));
    }
    // A user who has no store so far has made no mistake.
    let mut own = bench.command(&["ps"]);
    let own = own.env_remove("WINDLASS_STATE").env("XDG_STATE_HOME", &typo).env("HOME", &typo);
    let own = own.output().expect("the binary runs");
    assert!(own.status.success(), "{}", stderr(&own));
    assert!(stderr(&own).contains("no runs are running"), "{}", stderr(&own));
    assert!(!bench.path("typo").exists());
}

#[test]
fn what_a_run_leaves_in_an_open_directory_is_for_its_owner_alone() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nlock = 'x'\nrun = 'echo hello; echo k=v >> $WINDLASS_OUTPUT'\n\
         [step.b]\nafter = ['a']\nrun = 'exit 1'\nfinally = 'echo finally'\n",
    );
    let run = "umask 000; mkdir -m 755 state; \"$WINDLASS\" run flow.toml";
    let run = bench.script(run).output().expect("sh runs");
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    let made = below(&bench.path("state"));
    assert!(made.iter().any(|path| path.extension().is_some_and(|end| end == "out")), "{made:?}");
    for path in made {
        let found = fs::symlink_metadata(&path).expect("it is there");
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.mode() & 0o7777, expected, "{}", path.display());
    }
}
