//! The JSON Schema of workflow files, generated from the types that deserialize them.

use schemars::generate::SchemaSettings;

use crate::file::File;

/// Returns the JSON Schema of workflow files, for editors.
///
/// ```
/// let schema = windlass_workflow::json_schema();
/// assert!(schema.contains("\"concurrency\""));
/// ```
#[must_use]
pub fn json_schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<File>();
    serde_json::to_string_pretty(&schema).expect("a schema has a JSON form")
}
