//! Every example in the repository is a workflow without errors or warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use windlass_workflow::{GraphFormat, Plan, Step, graph, parse};

pub(crate) fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = |dir| fs::read_dir(root.join(dir)).expect("there are examples");
    let entries = entries("examples").chain(entries("docs"));
    let examples = entries.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> =
        examples.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.push(root.join("crates/windlass-cli/src/starter.toml"));
    files.sort();
    files
}

#[test]
fn every_example_has_neither_errors_nor_warnings() {
    let files = files();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let name = file.display().to_string();
        let workflow = parse(&name, &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(workflow.warnings().is_empty(), "{}", workflow.warnings());
        workflow.bind([]).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        for format in [GraphFormat::Text, GraphFormat::Dot, GraphFormat::Mermaid, GraphFormat::Json]
        {
            assert!(!graph(workflow.plan(), format).is_empty(), "{name}");
        }
    }
}

/// TOML 1.0 has no line breaks within `{ }`, no comma after the last entry of one, and no `\e`.
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

/// Returns the steps and guards of a plan by name, to compare plans whose files have another order.
fn by_name(plan: &Plan) -> BTreeMap<String, String> {
    let guard = |index: &usize| plan.guards[*index].name.clone();
    let step = |step: &Step| {
        let after = step.after.iter().map(|edge| (each_name(&plan.steps[edge.step]), edge.kind));
        let after: BTreeSet<_> = after.collect();
        let guards: BTreeSet<_> =
            step.gate.guards.iter().chain(&step.ending.ensures).map(guard).collect();
        let each: BTreeMap<_, _> = step.each.iter().cloned().collect();
        let start = (&step.gate.when, step.priority);
        let needs = (&step.needs.resources, &step.needs.locks);
        let execution = (&step.execution.run, &step.execution.env, &step.execution.dir);
        let end = (&step.ending.retry, step.ending.timeout, step.ending.grace);
        format!("{after:?} {guards:?} {each:?} {start:?} {needs:?} {execution:?} {end:?}")
    };
    let mut all: BTreeMap<_, _> = plan.steps.iter().map(|s| (each_name(s), step(s))).collect();
    all.extend(plan.guards.iter().map(|guard| (guard.name.clone(), format!("{guard:?}"))));
    all
}

/// Returns a name of a step that does not depend on the order of its variables.
fn each_name(step: &Step) -> String {
    let each: BTreeMap<_, _> = step.each.iter().cloned().collect();
    format!("{} {each:?}", step.declared)
}

#[test]
fn an_example_written_out_by_another_program_is_the_same_workflow() {
    // Examples that name an instance, `extract[eu,orders]`, have their variables in the order of their names,
    // which is the order in which they come back.
    for file in files() {
        let text = fs::read_to_string(&file).expect("it can be read");
        let table: toml::Table = toml::from_str(&text).expect("examples are TOML");
        let again = toml::to_string(&table).expect("what was read can be written");
        assert_ne!(text, again);
        let [plan, other] = [text, again].map(|text| {
            let workflow = parse("flow.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
            workflow.bind([]).unwrap_or_else(|errors| panic!("{errors}"))
        });
        assert_eq!(by_name(&plan), by_name(&other), "{}", file.display());
    }
}
