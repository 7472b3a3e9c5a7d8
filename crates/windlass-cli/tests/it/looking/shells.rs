//! Completions, manual pages, pictures and help.

use std::io::Write;
use std::process::{Command, Stdio};

use super::stage::{NIGHTLY, Stage};
use crate::bench::{Bench, repository, stderr, stdout};

/// Returns the completions for the last of `words`.
pub(crate) fn offered(bench: &Bench, words: &[&str]) -> Vec<String> {
    let mut command = bench.command(&["--", "windlass"]);
    command.args(words).env("WINDLASS_COMPLETE", "fish");
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let words = stdout(&output);
    let words = words.lines().filter_map(|line| line.split('\t').next());
    words.filter(|word| !word.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn a_shell_is_offered_verbs_runs_and_steps() {
    let mut stage = Stage::new();
    stage.submit("3fa9c2d1", "nightly", NIGHTLY);
    stage.abandon();
    let bench = &stage.bench;
    assert_eq!(offered(bench, &["hist"]), ["history"]);
    assert_eq!(offered(bench, &["show", "3"]), ["3fa9c2d1"]);
    assert_eq!(offered(bench, &["why", ""]), ["last/", "3fa9c2d1/"]);
    let steps = ["3fa9/test", "3fa9/test[linux]", "3fa9/test[macos]"];
    assert_eq!(offered(bench, &["log", "3fa9/te"]), steps);
    assert_eq!(offered(bench, &["show", "3fa9/te"]), steps);
    assert!(offered(bench, &["why", "nothing/"]).is_empty(), "and nothing is said of mistakes");
}

#[test]
fn completions_read_the_store_that_the_command_line_names() {
    let mut stage = Stage::new();
    stage.submit("3fa9c2d1", "nightly", NIGHTLY);
    let state = stage.bench.path("state");
    let elsewhere = Bench::new();
    let state = state.to_str().expect("a plain path");
    assert_eq!(offered(&elsewhere, &["--state", state, "show", "3f"]), ["3fa9c2d1"]);
}

#[test]
fn scripts_for_shells_are_read_by_those_shells() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.call(&["completions", shell]);
        assert!(script.status.success() && script.stdout.len() > 100, "{}", stderr(&script));
        let flag = if shell == "fish" { "--no-execute" } else { "-n" };
        let child = Command::new(shell).arg(flag).stdin(Stdio::piped()).spawn();
        // Only where the shell is there.
        let Ok(mut child) = child else { continue };
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(&script.stdout).expect("it listens");
        drop(stdin);
        assert!(child.wait().expect("it ends").success(), "{shell}");
    }
}

#[test]
fn bash_completes_with_the_script() {
    let mut stage = Stage::new();
    stage.submit("3fa9c2d1", "nightly", NIGHTLY);
    let script = "PATH=$(dirname \"$WINDLASS\"):$PATH; bash -c '\
        source <(windlass completions bash); \
        COMP_WORDS=(windlass show 3f); COMP_CWORD=2; COMP_TYPE=9; \
        _clap_complete_windlass windlass 3f show; echo \"${COMPREPLY[@]}\"'";
    let output = stage.bench.script(script).output().expect("it runs");
    assert_eq!(stdout(&output).trim(), "3fa9c2d1", "{}", stderr(&output));
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let bench = Bench::new();
    let page = stdout(&bench.call(&["man"]));
    assert!(page.contains(".TH windlass 1") && page.contains("windlass\\-why(1)"), "{page}");
    let pages = bench.path("pages");
    bench.ends_with(0, &["man", "--dir", pages.to_str().expect("a plain path")]);
    for verb in verbs(&bench) {
        let page = bench.read(&format!("pages/windlass-{verb}.1"));
        assert!(page.contains("windlass"), "{verb}: {page}");
        assert!(page.contains("Example"), "{verb} has no example: {page}");
    }
    let nowhere = bench.ends_with(2, &["man", "--dir", "/dev/null/man"]);
    assert!(stderr(&nowhere).contains("cannot write manual pages to /dev/null/man"));
}

#[test]
fn the_help_of_every_verb_has_an_example_that_calls_it() {
    let bench = Bench::new();
    for verb in verbs(&bench) {
        let help = stdout(&bench.call(&[&verb, "--help"]));
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{verb}: {help}"));
        assert!(examples.contains(&format!("windlass {verb}")), "{verb}: {help}");
    }
}

#[test]
fn every_verb_has_a_line_in_the_guide() {
    let guide = std::fs::read_to_string(repository().join("docs/command.md")).expect("it is there");
    for verb in verbs(&Bench::new()) {
        assert!(guide.contains(&format!("`{verb}")), "docs/command.md does not tell of {verb}");
    }
}

/// Returns the verbs as the help lists them.
fn verbs(bench: &Bench) -> Vec<String> {
    let help = stdout(&bench.call(&["--help"]));
    let (_, listed) = help.split_once("Commands:\n").expect("it lists verbs");
    let (listed, _) = listed.split_once("\n\n").expect("options follow");
    let verb = |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned());
    listed.lines().filter_map(verb).filter(|verb| !verb.is_empty()).collect()
}

#[test]
fn the_picture_is_one_file_in_which_no_name_is_a_tag() {
    let mut stage = Stage::new();
    let flow = "[step.a]\neach = { v = [\"<x>&\"] }\nrun = 'true'\nretry = { count = 1 }\n";
    stage.submit("bad00001", "evil", flow);
    stage.journal("0 retry a[<x>&] 1 \"no\"\n1000 start a[<x>&]\n5000 success a[<x>&]");
    stage.end(5000, "succeeded");
    let bench = &stage.bench;
    bench.ends_with(0, &["show", "last", "--svg", "run.svg"]);
    let picture = bench.read("run.svg");
    assert!(picture.starts_with("<svg xmlns") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("prefers-color-scheme: dark"));
    let tooltip =
        "<title>a[&lt;x&gt;&amp;], attempt 1, 0 ms: retry: exit code 1: &quot;no&quot;</title>";
    assert!(picture.contains(tooltip), "{picture}");
    assert!(!picture.contains("<x>"), "{picture}");
    let bars = picture.matches("class=\"success critical\"").count();
    assert_eq!(bars, 1, "{picture}");
}
