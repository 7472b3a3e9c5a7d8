//! Submitted runs while the disk of the store is full.

use super::*;
use crate::damage::in_namespace;

/// The step `loud` fills the disk, then prints more than a pipe and the leader hold.
#[test]
fn steps_wait_for_room_for_their_logs_and_no_step_is_repeated() {
    let bench = Bench::new();
    let fill = "head -c 9000000 /dev/zero > disk/filler 2> /dev/null || true";
    let flow = format!(
        "[step.loud]\nrun = 'echo loud >> record; {fill}; touch full; seq 1 100000; echo said >> record'\n\
         [step.quiet]\nrun = 'echo quiet >> record; until test -e room; do sleep 0.05; done; echo end >> record'\n\
         [step.late]\nafter = ['loud', 'quiet']\nrun = 'echo late >> record'\n"
    );
    bench.write("flow.toml", &flow);
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=4m tmpfs disk; export WINDLASS_STATE=disk/state
        "$WINDLASS" worker --name one --slots 2 2> worker & worker=$!
        "$WINDLASS" serve --no-worker 2> serve & serve=$!
        run=$("$WINDLASS" submit flow.toml 2> submit)
        until test -e full && grep -q "there is no room, so steps wait" worker; do
            sleep 0.05; kill -0 $worker
        done
        rm disk/filler; touch room
        set +e
        "$WINDLASS" wait "$run" 2> wait; echo code $?
        "$WINDLASS" log "$run/loud" | md5sum; seq 1 100000 | md5sum
        kill $worker $serve; wait"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    let said = ["worker", "serve", "wait"].map(|name| bench.read(name)).concat();
    let printed = stdout(&output);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.first(), Some(&"code 0"), "{said}{}", stderr(&output));
    assert_eq!(lines[1], lines[2], "the log is whole: {said}");
    let record = bench.read("record");
    let mut steps: Vec<_> = record.lines().collect();
    assert_eq!(steps.pop(), Some("late"));
    steps.sort_unstable();
    assert_eq!(steps, ["end", "loud", "quiet", "said"], "nothing ran twice: {said}");
}
