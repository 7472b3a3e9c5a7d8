//! Many runs at once, submitted by several shells and led by some in the foreground, under common limits.

use std::collections::BTreeMap;

use super::*;
use crate::bench::rounds;

/// How many commands the worker executes at a time.
const SLOTS: usize = 8;

/// Each step takes a file lock of the kernel for each limit that it is under, and says if it finds none free:
/// one file for a lock, and as many as there are slots otherwise.
const STEP: &str = r#"
take() { # LIMIT SLOTS
    i=0
    while test $i -lt $2; do
        eval "exec $fd> guard/$1.$i"
        flock -n $fd && fd=$((fd + 1)) && return
        i=$((i + 1))
    done
    echo "$WINDLASS_RUN/$WINDLASS_STEP: more than $2 of $1" >> overlap
}
fd=4
test "$1" = foreground || take slots 8
case $2 in
    used) take "r.$WINDLASS_RUN" 2 ;;
    locked) take l 1 ;;
    counted) take s 3 ;;
    boarded) take "board.$WINDLASS_SHARED_BOARD" 1 ;;
esac
echo "$WINDLASS_RUN $WINDLASS_STEP" >> record
"#;

/// How many kinds of steps there are.
const KINDS: usize = 6;

/// A workflow of `KINDS * each` steps.
fn flow(each: usize) -> String {
    let numbers: Vec<_> = (0..each).map(|n| format!("'{n}'")).collect();
    let numbers = numbers.join(", ");
    let mut text =
        "[params]\nwho = 'served'\n[resource]\nr = 2\n[semaphore.s]\ncapacity = 3\n".to_owned();
    let kinds: [_; KINDS] = [
        ("first", ""),
        ("used", "after = ['first']\nuse = { r = 1 }\n"),
        ("locked", "lock = 'l'\n"),
        ("counted", "after = ['locked']\nsemaphore = { s = 1 }\n"),
        ("boarded", "after = ['first']\nuse = { 'shared.board' = 1 }\n"),
        ("last", "after = ['used', 'counted', 'boarded']\n"),
    ];
    for (kind, more) in kinds {
        text += &format!(
            "[step.{kind}]\neach.n = [{numbers}]\n{more}run = 'sh step.sh {{who}} {kind}'\n"
        );
    }
    text
}

#[test]
fn many_runs_at_once_keep_all_limits_and_end() {
    let (served, foreground, each) = (rounds(3, 45), rounds(1, 5), rounds(2, 9));
    let service = Service::with(&flow(each), &SLOTS.to_string());
    fs::create_dir(service.bench.path("guard")).expect("a directory");
    service.bench.write("step.sh", STEP);
    // All runs share these, each item is for one step at a time.
    service.bench.ends_with(0, &["limits", "set", "board", "--items", "a,b,c"]);
    let shell = |place: usize| {
        let script = format!(
            "i=0; while test $i -lt {served}; do \"$WINDLASS\" submit flow.toml >> ids-{place} 2> told-{place}; i=$((i + 1)); done\n\
             i=0; while test $i -lt {foreground}; do \"$WINDLASS\" run flow.toml -p who=foreground \
             --output quiet || echo $? >> failed; i=$((i + 1)); done"
        );
        service.bench.script(&script).spawn().expect("sh runs")
    };
    let shells: Vec<_> = (0..4).map(shell).collect();
    for mut shell in shells {
        assert!(shell.wait().expect("it ends").success());
    }
    let ids: String = (0..4).map(|place| service.bench.read(&format!("ids-{place}"))).collect();
    let ids: Vec<_> = ids.lines().collect();
    assert_eq!(ids.len(), 4 * served, "every submission was answered");
    let output = service.bench.call(&[&["wait"][..], &ids].concat());
    assert!(output.status.success(), "{}\n{}", stderr(&output), service.said());

    for wrong in ["overlap", "failed"] {
        let said = fs::read_to_string(service.bench.path(wrong)).unwrap_or_default();
        assert_eq!(said, "", "{wrong}");
    }
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for line in service.bench.read("record").lines() {
        *ran.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(
        ran.len(),
        4 * (served + foreground) * KINDS * each,
        "every step of every run has run"
    );
    assert!(ran.values().all(|times| *times == 1), "once");
}
