//! One file per kind of diagnostic, next to its expected rendering.
//!
//! `UPDATE_EXPECTED=1` in the environment overwrites the expectations. Read every change as a user would
//! who has never seen the file format.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_workflow::parse;

const KINDS: usize = 60;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

/// Renders all diagnostics of a file.
fn rendered(name: &str, text: &str) -> String {
    match parse(name, text) {
        Ok(workflow) => format!("{}\n", workflow.warnings()),
        Err(errors) if errors.warnings.is_empty() => format!("{errors}\n"),
        Err(errors) => format!("{errors}\n\n{}\n", errors.warnings),
    }
}

fn check(file: &Path) -> Result<(), String> {
    let name = file.file_name().expect("it was listed").to_string_lossy().into_owned();
    let text = fs::read_to_string(file).expect("it can be read");
    let expected_in = file.with_extension("txt");
    let rendered = rendered(&name, &text);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&expected_in, &rendered).expect("it can be written");
    }
    let expected = fs::read_to_string(&expected_in).unwrap_or_default();
    if rendered == expected {
        Ok(())
    } else {
        Err(format!("{name} says\n{rendered}\nand not\n{expected}"))
    }
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(dir()).expect("it is there");
    let files = entries.map(|entry| entry.expect("it can be listed").path());
    files.filter(|file| file.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_diagnostic_is_rendered_as_expected() {
    let files = files();
    assert!(files.len() >= KINDS, "{} kinds of errors", files.len());
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_expectation_has_its_file() {
    for entry in fs::read_dir(dir()).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        assert!(path.with_extension("toml").exists(), "{}", path.display());
    }
}

#[test]
fn every_diagnostic_has_a_help_text() {
    for file in files() {
        let text = fs::read_to_string(&file).expect("it can be read");
        let name = file.display().to_string();
        let diagnostics = match parse(&name, &text) {
            Ok(workflow) => workflow.warnings().warnings.clone(),
            Err(errors) => [errors.errors, errors.warnings.warnings].concat(),
        };
        let without: Vec<_> = diagnostics.iter().filter(|d| d.help.is_none()).collect();
        assert!(without.is_empty(), "{name}: {without:?}");
    }
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_the_file() {
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
    let errors = parse("flow.toml", text).expect_err("it has errors").errors;
    let lines: Vec<_> = errors.iter().map(|m| text[..m.span.start].lines().count()).collect();
    assert_eq!(lines, [2, 6, 7, 10, 11, 12]);
}

#[test]
fn errors_beyond_the_limit_are_counted() {
    let mut text = String::new();
    for number in 0..250 {
        text += &format!("[step.s{number}]\nrun = 'true'\nafter = ['t{number}']\n");
    }
    let errors = parse("flow.toml", &text).expect_err("it has errors");
    assert_eq!((errors.errors.len(), errors.omitted), (100, 150));
    assert!(errors.to_string().ends_with("and 150 more errors"));
}

#[test]
fn a_placeholder_is_found_on_its_line_whatever_the_line_breaks_are() {
    for line_break in ["\n", "\r\n"] {
        let lines =
            ["[params]", "n = 1", "[step.a]", "run = '''", "true", "echo `echo {n}`", "'''"];
        let text = lines.join(line_break);
        let errors = parse("flow.toml", &text).expect_err("backquotes are not safe");
        assert_eq!(errors.position(&errors.errors[0]), (6, 12), "{line_break:?}");
    }
}
