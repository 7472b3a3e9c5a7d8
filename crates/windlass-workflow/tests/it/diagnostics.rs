//! One file per kind of mistake, beside what is said about it.
//!
//! With `UPDATE_EXPECTED=1` in the environment, what is said now becomes what is expected; read
//! every change as someone would who has never seen the file format.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_workflow::parse;

const KINDS: usize = 60;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

/// Everything that is said about a file.
fn said(name: &str, text: &str) -> String {
    match parse(name, text) {
        Ok(workflow) => format!("{}\n", workflow.warnings()),
        Err(mistakes) if mistakes.warnings.is_empty() => format!("{mistakes}\n"),
        Err(mistakes) => format!("{mistakes}\n\n{}\n", mistakes.warnings),
    }
}

fn check(file: &Path) -> Result<(), String> {
    let name = file.file_name().expect("it was listed").to_string_lossy().into_owned();
    let text = fs::read_to_string(file).expect("it can be read");
    let expected_in = file.with_extension("txt");
    let said = said(&name, &text);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&expected_in, &said).expect("it can be written");
    }
    let expected = fs::read_to_string(&expected_in).unwrap_or_default();
    if said == expected { Ok(()) } else { Err(format!("{name} says\n{said}\nand not\n{expected}")) }
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(dir()).expect("it is there");
    let files = entries.map(|entry| entry.expect("it can be listed").path());
    files.filter(|file| file.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_kind_of_mistake_is_told_as_expected() {
    let files = files();
    assert!(files.len() >= KINDS, "{} kinds of mistakes", files.len());
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_expectation_is_left_without_its_file() {
    for entry in fs::read_dir(dir()).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        assert!(path.with_extension("toml").exists(), "{}", path.display());
    }
}

#[test]
fn every_mistake_comes_with_a_suggestion() {
    for file in files() {
        let text = fs::read_to_string(&file).expect("it can be read");
        let name = file.display().to_string();
        let told = match parse(&name, &text) {
            Ok(workflow) => workflow.warnings().warnings.clone(),
            Err(mistakes) => [mistakes.errors, mistakes.warnings.warnings].concat(),
        };
        let without: Vec<_> = told.iter().filter(|told| told.help.is_none()).collect();
        assert!(without.is_empty(), "{name}: {without:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = r#"
concurrency = 0
[resource]
gpu = 2
[step.a]
run = " "
use = { gpus = 1 }
[step.b]
run = "true"
use = { gpu = 3 }
retry = { count = 1, delay = "5" }
lock = 7
"#;
    let mistakes = parse("flow.toml", text).expect_err("it has mistakes").errors;
    let lines: Vec<_> = mistakes.iter().map(|m| text[..m.span.start].lines().count()).collect();
    assert_eq!(lines, [2, 6, 7, 10, 11, 12]);
}

#[test]
fn more_mistakes_than_anyone_reads_are_counted() {
    let mut text = String::new();
    for number in 0..250 {
        text += &format!("[step.s{number}]\nrun = 'true'\nafter = ['t{number}']\n");
    }
    let mistakes = parse("flow.toml", &text).expect_err("it has mistakes");
    assert_eq!((mistakes.errors.len(), mistakes.omitted), (100, 150));
    assert!(mistakes.to_string().ends_with("and 150 more mistakes"));
}
