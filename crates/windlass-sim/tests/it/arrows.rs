//! Which crates may depend on which.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Each crate of the workspace, and those it may depend on outside its tests.
const ARROWS: [(&str, &[&str]); 10] = [
    ("windlass-core", &[]),
    ("windlass-pool", &[]),
    ("windlass", &["windlass-core", "windlass-pool"]),
    ("windlass-workflow", &["windlass-core"]),
    ("windlass-store", &["windlass-core"]),
    ("windlass-server", &["windlass", "windlass-core", "windlass-store", "windlass-workflow"]),
    ("windlass-cli", &["windlass-server", "windlass-workflow"]),
    ("windlass-sim", &["windlass-core", "windlass-store"]),
    // The same sources as server and command, with points at which the process kills itself.
    ("windlass-faulty", &["windlass-server-faulty", "windlass-workflow"]),
    ("windlass-server-faulty", &["windlass-core", "windlass-store", "windlass-workflow"]),
];

#[test]
fn every_crate_depends_only_on_those_it_may() {
    let metadata = metadata();
    let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages are listed") {
        let name = package["name"].as_str().expect("a package has a name");
        if !name.starts_with("windlass-bench") {
            crates.insert(name, ordinary_dependencies(package));
        }
    }
    let known: Vec<_> = crates.keys().copied().collect();
    let mut allowed = BTreeMap::from(ARROWS);
    assert_eq!(known, allowed.keys().copied().collect::<Vec<_>>(), "the crates of the workspace");
    for (name, dependencies) in crates {
        let allowed = allowed.remove(name).expect("compared above");
        for dependency in dependencies {
            let ours = dependency.starts_with("windlass");
            assert!(
                !ours || allowed.contains(&dependency),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

fn metadata() -> Value {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn ordinary_dependencies(package: &Value) -> Vec<&str> {
    let dependencies = package["dependencies"].as_array().expect("dependencies are listed");
    let ordinary = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
    ordinary.map(|dependency| dependency["name"].as_str().expect("a name")).collect()
}
