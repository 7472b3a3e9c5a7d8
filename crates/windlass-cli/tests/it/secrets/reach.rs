//! What a step may change in a store that others use, too.

use super::*;

/// Calls each of these lines in a step, and returns how each has ended and what it has said.
fn called_in_step(
    bench: &Bench,
    call: impl Fn(&[&str]) -> Command,
    lines: &[String],
) -> Vec<String> {
    let script: Vec<_> = lines
        .iter()
        .enumerate()
        .map(|(line, verb)| format!("{verb} > said-by-{line} 2>&1; echo \"$?\" > code-{line}"))
        .collect();
    let script = format!("set +e\n{}\n", script.join("\n"));
    bench.write("step.sh", &script);
    bench.write("calls.toml", "[step.calls]\nrun = 'sh step.sh'\n");
    let run = call(&["run", "calls.toml"]).output().expect("the binary runs");
    assert!(run.status.success(), "{}", stderr(&run));
    let ended = |line: usize| {
        let (code, said) = (format!("code-{line}"), format!("said-by-{line}"));
        format!("{}: {}", bench.read(&code).trim(), bench.read(&said))
    };
    (0..lines.len()).map(ended).collect()
}

/// Returns what would change a run of others, or what belongs to all.
fn too_far(other: &str) -> Vec<String> {
    [
        "cancel OTHER",
        "cancel OTHER/a",
        "pause OTHER",
        "unpause OTHER",
        "retry OTHER",
        "resume OTHER",
        "resume --all",
        "approve OTHER/a",
        "reject OTHER/a",
        "queue default --slots 2",
        "edit default/1 --priority 5",
        "move default/1 --first",
        "remove default/1",
        "prune --dry-run",
        "limits set gpu=2",
        "limits remove gpu",
        "workers cordon one",
        "workers uncordon one",
        "store init",
        "store grant windlass --read",
    ]
    .map(|verb| format!("\"$WINDLASS\" {}", verb.replace("OTHER", other)))
    .to_vec()
}

#[test]
fn a_step_changes_no_run_but_its_own_in_a_store_that_others_use() {
    let Some(guarded) = Guarded::new(Given::Variable) else { return };
    guarded.bench.write("other.toml", "[step.a]\nrun = 'sleep 600'\n");
    guarded.ends_with(0, &["add", "--", "sleep", "600"]);
    let other = guarded.ends_with(0, &["submit", "other.toml"]);
    let other = other.lines().next().expect("its id");
    let refused = too_far(other);
    let own = [
        "\"$WINDLASS\" emit e",
        "\"$WINDLASS\" ps",
        "\"$WINDLASS\" limits",
        "\"$WINDLASS\" workers",
        "\"$WINDLASS\" pause \"$WINDLASS_RUN\"",
        "\"$WINDLASS\" unpause \"$WINDLASS_RUN\"",
        "\"$WINDLASS\" lock x -- true",
        "\"$WINDLASS\" submit other.toml > inner && \"$WINDLASS\" pause \"$(cat inner)\"",
        &format!("\"$WINDLASS\" show {other}"),
        &format!("env -u WINDLASS_RUN \"$WINDLASS\" pause {other}"),
    ];
    let own = own.map(str::to_owned);
    let lines = [&refused[..], &own].concat();
    let ended = called_in_step(&guarded.bench, |verb| guarded.command(verb), &lines);
    for (line, ended) in lines.iter().zip(&ended).take(refused.len()) {
        let said = "may change its own run and those that it has started, but not ";
        assert!(ended.starts_with("2: ") && ended.contains(said), "{line}: {ended}");
    }
    for (line, ended) in lines.iter().zip(&ended).skip(refused.len()) {
        assert!(ended.starts_with("0: "), "{line}: {ended}");
    }
    let runs = guarded.ends_with(0, &["ps"]);
    let paused: Vec<_> = runs.lines().filter(|line| line.contains("paused")).collect();
    assert_eq!(paused.len(), 2, "only those that were meant: {runs}");
    assert_eq!(guarded.ends_with(0, &["limits", "--json"]), "", "nothing else was changed");
}

#[test]
fn a_step_in_the_store_of_its_user_may_change_what_that_user_may() {
    let bench = Bench::new();
    let ended = called_in_step(&bench, |verb| bench.command(verb), &too_far("0000"));
    for ended in ended {
        assert!(!ended.contains("may change its own run"), "{ended}");
    }
}
