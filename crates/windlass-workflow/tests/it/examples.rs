//! Every example in the repository is a workflow without mistakes or warnings.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_workflow::{GraphFormat, graph, parse};

pub(crate) fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = fs::read_dir(root.join("examples")).expect("there are examples");
    let examples = entries.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> =
        examples.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.push(root.join("crates/windlass-cli/src/starter.toml"));
    files.sort();
    files
}

#[test]
fn every_example_has_neither_mistakes_nor_warnings() {
    let files = files();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let name = file.display().to_string();
        let workflow = parse(&name, &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert!(workflow.warnings().is_empty(), "{}", workflow.warnings());
        workflow.bind([]).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        for format in [GraphFormat::Text, GraphFormat::Dot, GraphFormat::Mermaid, GraphFormat::Json]
        {
            assert!(!graph(workflow.plan(), format).is_empty(), "{name}");
        }
    }
}

/// TOML 1.0 has no line breaks within `{ }`, no comma behind the last entry of one, and no `\e`.
#[test]
fn examples_are_written_in_toml_that_every_editor_accepts() {
    for file in files() {
        let text = fs::read_to_string(&file).expect("it can be read");
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let inline = line.split_once("= {").map(|(_, rest)| rest);
            let closed = inline.is_none_or(|rest| rest.contains('}') && !rest.contains(", }"));
            assert!(closed && !line.contains("\\e"), "{}: {line}", file.display());
        }
    }
}
