//! Workflow files that are broken, odd, endless, or no files at all.

use std::fs;
use std::os::unix::fs::symlink;

use super::{GOOD, call, check};
use crate::bench::{Bench, stderr};

/// Returns names of files, their contents, and the exit codes of `check`.
fn table() -> Vec<(&'static str, Vec<u8>, i32)> {
    let mut table: Vec<(&str, Vec<u8>, i32)> = Vec::new();
    let mut add = |name, bytes: &[u8], code| table.push((name, bytes.to_vec(), code));
    add("empty", b"", 2);
    add("truncated", b"[step.a]\nrun = 'tr", 2);
    add("half_a_table", b"[step.a", 2);
    add("binary", &(0..=255).cycle().take(5000).collect::<Vec<u8>>(), 2);
    add("zeros", &[0; 4096], 2);
    add("a_zero", b"[step.a]\nrun = 'a\0b'\n", 2);
    add("latin", b"[step.a]\nrun = 'caf\xe9'\n", 2);
    add("bom", &[b"\xef\xbb\xbf", GOOD.as_bytes()].concat(), 0);
    add("crlf", GOOD.replace('\n', "\r\n").as_bytes(), 0);
    add("carriage_returns", GOOD.replace('\n', "\r").as_bytes(), 2);
    add("wide", &GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(), 2);
    add("deep_lists", &[b"a = ".to_vec(), vec![b'['; 100_000]].concat(), 2);
    add(
        "deep_tables",
        ("[step.a]\nrun = 'true'\nenv = ".to_owned() + &"{a=".repeat(50_000)).as_bytes(),
        2,
    );
    add("deep_keys", ("[a".to_owned() + &".a".repeat(50_000) + "]").as_bytes(), 2);
    add("long_line", ("#".to_owned() + &"x".repeat(4_000_000) + "\n" + GOOD).as_bytes(), 0);
    add(
        "many_mistakes",
        (0..5000).map(|n| format!("[step.s{n}]\nrn = 'true'\n")).collect::<String>().as_bytes(),
        2,
    );
    add(
        "long_cycle",
        (0..3000)
            .map(|n| format!("[step.s{n}]\nafter = ['s{}']\nrun = 'true'\n", (n + 1) % 3000))
            .collect::<String>()
            .as_bytes(),
        2,
    );
    add("own_tail", b"[step.a]\nafter = ['a']\nrun = 'true'\n", 2);
    add("twice", b"[step.a]\nrun = 'true'\n[step.a]\nrun = 'true'\n", 2);
    add("too_many", b"[step.a]\nrun = 'true'\neach = { a = [1,2,3,4,5,6,7,8,9,0], b = [1,2,3,4,5,6,7,8,9,0], c = [1,2,3,4,5,6,7,8,9,0], d = [1,2,3,4,5,6,7,8,9,0], e = [1,2,3,4,5,6,7,8,9,0] }\n", 2);
    for (name, key) in [
        ("huge_number", "concurrency = 1000000000000000000"),
        ("larger_number", "concurrency = 99999999999999999999999999"),
        ("negative", "concurrency = -1"),
        ("a_date", "concurrency = 1979-05-27"),
        ("no_deadline", "deadline = '-1s'"),
        ("not_a_number", "resource = { x = nan }"),
        ("infinite", "resource = { x = inf }"),
        ("astronomic", "resource = { x = 1e308 }"),
        ("large_size", "resource = { x = '99999999999999999999T' }"),
        ("large_rate", "resource = { x = { rate = '999999999999999999999/s' } }"),
        ("large_burst", "resource = { x = { rate = '1/s', burst = 1e300 } }"),
        ("large_semaphore", "semaphore = { x = { capacity = 99999999999999 } }"),
        ("negative_semaphore", "semaphore = { x = { capacity = -1 } }"),
    ] {
        table.push((name, format!("{key}\n{GOOD}").into_bytes(), 2));
    }
    for (name, key, code) in [
        ("long_time", "timeout = '99999999999999999999d'", 2),
        ("longest_time", "timeout = '18446744073709551615ms'", 0),
        ("negative_time", "timeout = '-1s'", 2),
        ("many_retries", "retry = { count = 99999999999 }", 2),
        ("no_lock", "lock = ''", 2),
        ("lock_with_a_line_break", r#"lock = "a\nb""#, 2),
        ("variable_with_an_equals_sign", "env = { 'A=B' = 'x' }", 2),
        ("variable_without_a_name", "env = { '' = 'x' }", 2),
        ("variable_with_a_zero", r#"env = { A = "a\u0000b" }"#, 2),
        ("priority_of_all", "priority = 9223372036854775807", 0),
        ("priority_of_a_fraction", "priority = 1e10", 2),
        ("empty_shell", "shell = ''", 2),
        ("directory_with_a_zero", r#"dir = "a\u0000b""#, 2),
        ("guard_that_is_none", "guard = ['x']", 2),
    ] {
        table.push((name, format!("{GOOD}{key}\n").into_bytes(), code));
    }
    for (name, step) in [
        ("nameless", "''"),
        ("bell", r#""a\u0007b""#),
        ("turned_around", "\"\u{202e}abc\""),
        ("smile", "\"\u{1f600}\""),
        ("two_lines", r#""a\nb""#),
        ("upwards", "'../../x'"),
        ("like_a_flag", "'-rf *'"),
    ] {
        table.push((name, format!("[step.{step}]\nrun = 'true'\n").into_bytes(), 2));
    }
    for (name, run) in
        [("no_words", "[]"), ("empty_word", "['']"), ("no_command", "''"), ("a_number", "3")]
    {
        table.push((name, format!("[step.a]\nrun = {run}\n").into_bytes(), 2));
    }
    table
}

#[test]
fn every_invalid_file_is_reported_with_its_name() {
    let bench = Bench::new();
    for (name, bytes, expected) in table() {
        let file = format!("{name}.toml");
        fs::write(bench.path(&file), bytes).expect("it can be written");
        for verb in ["check", "run", "graph"] {
            let what = format!("{verb} {file}");
            let output = call(&bench, &[verb, &file]);
            assert_eq!(check(&what, &output), expected, "{what}: {}", stderr(&output));
            assert!(
                expected == 0 || stderr(&output).contains(&file),
                "{what}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn paths_that_are_no_files_are_reported_with_their_names() {
    let bench = Bench::new();
    symlink("loop", bench.path("loop")).expect("it can be made");
    let long = "a".repeat(5000);
    for file in [
        "loop",
        ".",
        "/",
        "nothing",
        "/dev/null",
        "/dev/zero",
        "/dev/random",
        "/proc/self/mem",
        &long,
    ] {
        for verb in ["check", "run", "graph"] {
            let output = call(&bench, &[verb, file]);
            let what = format!("{verb} {}", &file[..file.len().min(20)]);
            assert_eq!(check(&what, &output), 2, "{what}");
            assert!(stderr(&output).contains(&file[..file.len().min(480)]), "{}", stderr(&output));
        }
    }
    for file in ["\u{1b}[31m", "a\nb", "\u{202e}x", "-"] {
        assert_eq!(check(file, &call(&bench, &["check", "--", file])), 2, "{file:?}");
    }
}

#[test]
fn a_workflow_is_read_from_a_pipe() {
    let bench = Bench::new();
    bench.write("flow.toml", GOOD);
    let output = super::script(&bench, "cat flow.toml | \"$WINDLASS\" run /dev/stdin");
    assert_eq!(check("a pipe", &output), 0, "{}", stderr(&output));
}

/// Names that a file may have, and that everything which shows them has to bear.
#[test]
fn long_names_of_any_kind_are_shown_without_harm() {
    let bench = Bench::new();
    let long = "a".repeat(1024);
    // A workflow without a name is called after its file.
    let file = "x\u{1b}[2Jy\u{202e}\nz.toml";
    bench.write(file, &format!("[step.{long}]\nrun = 'true'\n"));
    assert!(call(&bench, &["run", file, "--output", "quiet"]).status.success());
    let step = format!("last/{long}");
    for verb in [
        &["show", "last"][..],
        &["history"],
        &["log", "last"],
        &["why", &step],
        &["show", "nothing-like-it"],
        &["show", "last", "--svg", "x.svg"],
        &["show", "last", "--json"],
        &["prune", "--keep", "0", "--dry-run"],
        &["graph", "flow.toml"],
        &["check", "flow.toml"],
    ] {
        let output = call(&bench, verb);
        check(&verb[..verb.len().min(1)].join(" "), &output);
        assert!(!output.stdout.contains(&0x1b), "{verb:?}");
    }
}
