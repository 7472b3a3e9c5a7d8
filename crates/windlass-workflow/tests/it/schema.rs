//! The JSON Schema and the reader agree.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;
use windlass_workflow::json_schema;

use crate::examples;

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(&json_schema()).expect("it is JSON");
    jsonschema::draft7::meta::validate(&schema).expect("it is a schema");
    jsonschema::validator_for(&schema).expect("it can be used")
}

fn as_json(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(text).ok()?;
    serde_json::to_value(table).ok()
}

#[test]
fn every_example_matches_the_schema() {
    let validator = validator();
    for file in examples::files() {
        let text = fs::read_to_string(&file).expect("it can be read");
        let value = as_json(&text).expect("examples are TOML");
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
    }
}

/// Checks the files whose errors an editor can find with the schema, by the beginning of their names.
#[test]
fn files_of_the_wrong_shape_do_not_match_the_schema() {
    let validator = validator();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let mut seen = 0;
    for entry in fs::read_dir(dir).expect("it is there") {
        let file = entry.expect("it can be listed").path();
        let name = file.file_name().expect("it was listed").to_string_lossy().into_owned();
        let shape = ["unknown-key", "unknown-table", "type-", "word-", "missing-"];
        // The schema does not restrict values beyond their types.
        let beyond = ["type-nul.toml", "type-date.toml", "type-big-number.toml"];
        let chosen = shape.iter().any(|start| name.starts_with(start)) && name.ends_with(".toml");
        if !chosen || beyond.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("it can be read");
        let value = as_json(&text).expect("it is TOML");
        assert!(!validator.is_valid(&value), "{name} fits the schema");
        seen += 1;
    }
    assert!(seen >= 20, "{seen} files of the wrong shape");
}

#[test]
fn every_key_has_a_description() {
    let schema: Value = serde_json::from_str(&json_schema()).expect("it is JSON");
    let mut tables = vec![&schema];
    tables.extend(schema["definitions"].as_object().into_iter().flat_map(|all| all.values()));
    assert!(tables.len() > 5, "{}", tables.len());
    for table in tables {
        for (key, described) in table["properties"].as_object().into_iter().flatten() {
            assert!(described["description"].is_string(), "{key} has no description: {described}");
        }
    }
}
