//! Limits of the system that leave no room: open files, file sizes, processes, directories.

use super::{GOOD, call, check, script};
use crate::bench::{Bench, stderr};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("flow.toml", &GOOD.replace("true", "head -c 300000 /dev/zero; true"));
    assert_eq!(check("emit", &call(&bench, &["emit", "begun"])), 0);
    bench
}

#[test]
fn without_open_files_nothing_breaks_and_nothing_is_taken_from_others() {
    let bench = bench();
    let mut holder = bench.start(&["lock", "mine", "--", "sh", "-c", "touch held; exec sleep 600"]);
    bench.await_file("held");
    for files in (4..44).step_by(3) {
        for verb in ["run flow.toml", "ps", "emit a:b", "lock free -- true"] {
            let text = format!("ulimit -n {files}; \"$WINDLASS\" {verb}");
            let code = check(&text, &script(&bench, &text));
            assert!([0, 1, 69, 126].contains(&code), "{text}: {code}");
        }
        let text = format!("ulimit -n {files}; \"$WINDLASS\" lock mine --wait 0s -- touch stolen");
        let code = check(&text, &script(&bench, &text));
        assert!([69, 75].contains(&code), "{text}: {code}");
    }
    assert!(!bench.path("stolen").exists(), "its holder lives");
    assert!(holder.try_wait().expect("it is ours").is_none(), "it was not ended");
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
}

#[test]
fn a_limit_on_file_sizes_ends_with_69_and_the_run_resumes_without_it() {
    let bench = bench();
    for blocks in [0, 1, 8, 64] {
        for verb in ["run flow.toml", "emit a:b", "ps"] {
            let text = format!("ulimit -f {blocks}; \"$WINDLASS\" {verb}");
            let code = check(&text, &script(&bench, &text));
            assert!([0, 1, 69].contains(&code), "{text}: {code}");
        }
    }
    let output = call(&bench, &["emit", "again"]);
    assert_eq!(check("emit", &output), 0, "{}", stderr(&output));
    // The command meets the limit as it would without windlass.
    let own = "ulimit -f 1; \"$WINDLASS\" lock x -- sh -c 'head -c 100000 /dev/zero > big'; echo $? > code";
    script(&bench, own);
    assert_ne!(bench.read("code"), "0\n");
}

#[test]
fn a_state_directory_that_is_none_is_69_with_its_name() {
    let bench = bench();
    bench.write("file", "");
    let make = "ln -s loop loop; ln -s nowhere dangling; mkdir gone; echo no > notdb; mkdir odd; mkdir odd/store.db";
    assert!(bench.script(make).status().expect("it runs").success());
    for state in ["file", "/dev/null", "loop", "dangling", "file/below", "/proc/nothing", "odd"] {
        let output = call(&bench, &["--state", state, "lock", "x", "--", "touch", "ran"]);
        assert_eq!(check(state, &output), 69, "{state}");
        assert!(stderr(&output).contains(state), "{state}: {}", stderr(&output));
    }
    let text = "cd gone; rmdir ../gone; \"$WINDLASS\" run ../flow.toml";
    let output = script(&bench, text);
    assert_eq!(check(text, &output), 2, "{}", stderr(&output));
    assert!(!bench.path("ran").exists());
}

/// Runs a script as a user without rights; none where this test may not become one.
fn as_nobody(bench: &Bench, text: &str) -> Option<std::process::Output> {
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
    let open = "chmod 777 . && chmod -R a+rX .";
    let may = format!("{open} && {nobody} \"$WINDLASS\" --version");
    let may = bench.script(&may).output().expect("a shell runs").status.success();
    may.then(|| script(bench, &format!("{nobody} bash -c '{text}'")))
}

#[test]
fn missing_permissions_are_reported() {
    let bench = bench();
    bench.write("secret.toml", GOOD);
    let Some(output) = as_nobody(&bench, "\"$WINDLASS\" emit a:b") else { return };
    assert_eq!(check("another's state", &output), 69);
    assert!(stderr(&output).contains("Permission denied"), "{}", stderr(&output));
    assert!(
        bench
            .script("chmod 000 secret.toml; mkdir own; chmod 777 own")
            .status()
            .expect("sh")
            .success()
    );
    let own = "export WINDLASS_STATE=$PWD/own/state;";
    let told = |text: &str| {
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
        script(&bench, &format!("{nobody} bash -c '{own} {text}'"))
    };
    let output = told("\"$WINDLASS\" run secret.toml");
    assert_eq!(check("an unreadable file", &output), 2);
    assert!(stderr(&output).contains("secret.toml"), "{}", stderr(&output));
    for processes in 1..8 {
        for verb in ["run flow.toml", "lock x -- true", "emit a:b"] {
            let text = format!("ulimit -u {processes}; exec \"$WINDLASS\" {verb}");
            let code = check(&text, &told(&text));
            assert!([0, 1, 69, 126].contains(&code), "{text}: {code}");
        }
    }
}

/// A user of its own has no processes but those of this test.
#[test]
fn without_room_for_a_process_steps_wait_until_others_have_ended() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "concurrency = 12\n[step.s]\neach = { n = [1,2,3,4,5,6,7,8,9,10,11,12] }\nrun = ['sleep', '0.3']\n",
    );
    let user = 200_000 + std::process::id();
    let other = format!("setpriv --reuid={user} --regid={user} --clear-groups --");
    let may = format!("chmod 777 . && {other} \"$WINDLASS\" --version");
    if !bench.script(&may).output().expect("a shell runs").status.success() {
        return;
    }
    let own = "WINDLASS_STATE=$PWD/own exec prlimit --nproc=12:12 \"$WINDLASS\" run flow.toml";
    let output = bench.script(&format!("{other} sh -c '{own}'")).output().expect("a shell runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("there is no room for another process"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("12 succeeded"), "{}", stderr(&output));
}

/// The first step leaves its leader no file to open, and the second one prints a moment later, which
/// then cannot be written. The end of the first is stored by then, or it is not.
#[test]
fn a_run_that_stops_for_lack_of_files_has_shown_what_is_stored() {
    for moment in ["0", "0.005", "0.01", "0.02", "0.03"] {
        let bench = Bench::new();
        let none = "prlimit --pid $PPID --nofile=3:3; touch ended";
        let print = format!("until test -e ended; do sleep 0.002; done; sleep {moment}; echo said");
        bench.write(
            "flow.toml",
            &format!(
                "concurrency = 2\n[step.b]\nrun = '{print}; sleep 600'\n[step.a]\nrun = '{none}'\n"
            ),
        );
        let output = call(&bench, &["run", "flow.toml"]);
        assert_eq!(check("run", &output), 69, "{}", stderr(&output));
        assert!(stderr(&output).contains("Too many open files"), "{}", stderr(&output));
        let shown = crate::bench::stdout(&call(&bench, &["show", "last", "--json"]));
        let stored = shown.contains("\"step\":\"a\",\"state\":\"success\"");
        let told = stderr(&output).contains("a: succeeded");
        assert_eq!(stored, told, "{moment}: {}{shown}", stderr(&output));
    }
}
