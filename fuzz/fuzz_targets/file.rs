//! Any bytes as a workflow file: a workflow, or mistakes that can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_workflow::{GraphFormat, graph, parse};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse("fuzz.toml", text) {
        Ok(workflow) => {
            let _ = workflow.warnings().to_string();
            let _ = workflow.bind([]);
            for format in
                [GraphFormat::Text, GraphFormat::Dot, GraphFormat::Mermaid, GraphFormat::Json]
            {
                let _ = graph(workflow.plan(), format);
            }
        }
        Err(mistakes) => assert!(!mistakes.to_string().is_empty()),
    }
});
