//! Streams that are closed or full.

use super::{GOOD, check, script};
use crate::bench::{Bench, stderr};

const VERBS: [&str; 20] = [
    "--help",
    "--version",
    "help lock",
    "run --help",
    "ps",
    "show last",
    "show last --json",
    "history",
    "log last",
    "holders",
    "events",
    "schema",
    "man",
    "completions bash",
    "graph flow.toml",
    "check flow.toml",
    "why last/a",
    "emit a:b",
    "lock x -- true",
    "run flow.toml --json",
];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("flow.toml", &GOOD.replace("true", "echo said"));
    assert_eq!(
        check("run", &script(&bench, "\"$WINDLASS\" run flow.toml; \"$WINDLASS\" emit x")),
        0
    );
    bench
}

#[test]
fn a_stream_that_is_closed_changes_nothing() {
    let bench = bench();
    for verb in VERBS {
        for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| true", "2>/dev/full"] {
            let text = format!("\"$WINDLASS\" {verb} {closed}");
            assert_eq!(check(&text, &script(&bench, &text)), 0, "{text}");
        }
    }
}

/// An incomplete write must not end with exit code 0.
#[test]
fn what_cannot_be_printed_is_a_failure() {
    let bench = bench();
    for verb in VERBS {
        // Nothing is held, so there is nothing to print; what is wrong with a file goes to stderr.
        let silent =
            ["ps", "holders", "check", "lock"].iter().any(|silent| verb.starts_with(silent));
        let text = format!("\"$WINDLASS\" {verb} > /dev/full");
        let output = script(&bench, &text);
        assert_eq!(check(&text, &output), if silent { 0 } else { 69 }, "{text}");
        assert!(silent || stderr(&output).contains("No space left"), "{text}: {}", stderr(&output));
    }
}
