//! The cookbook's recipes run whichever shell is called `sh`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Block, read};
use crate::bench::{Bench, stderr, stdout};

/// Returns the shells that some systems call `sh`, as far as this one has them.
fn shells() -> Vec<&'static str> {
    ["dash", "bash"].into_iter().filter(|shell| program(shell).is_some()).collect()
}

/// Returns the shells with which a block is run: all of them if it is a recipe.
pub(super) fn shells_for(block: &Block) -> Vec<&'static str> {
    let is_recipe = block.page == "docs/cookbook.md" && !shells().is_empty();
    if is_recipe { shells() } else { vec!["sh"] }
}

/// Lets `sh` be this shell for what finds `bin` in its path.
pub(super) fn install(bench: &Bench, shell: &str) {
    if shell != "sh" {
        let file = program(shell).expect("it was there before");
        symlink(file, bench.path("bin/sh")).expect("it can be linked");
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| Path::is_file(file))
}

/// Returns the text of `when` in the table for users of make.
fn up_to_date() -> String {
    let page = read("docs/cookbook.md");
    let row = page.lines().find(|line| line.starts_with("| a target that is up to date"));
    let row = row.expect("the table has it");
    let (_, rest) = row.split_once("`when = \"").expect("the row has a condition");
    rest.split_once("\"`").expect("the condition ends").0.to_owned()
}

#[test]
fn a_step_is_left_out_only_once_its_file_is_newer_than_its_source() {
    for shell in shells() {
        let bench = Bench::new();
        std::fs::create_dir(bench.path("bin")).expect("it can be made");
        install(&bench, shell);
        let when = up_to_date();
        bench.write("flow.toml", &format!("[step.a]\nwhen = '{when}'\nrun = 'cp src out'\n"));
        let ran = |before: &str| {
            let run = "export PATH=\"$PWD/bin:$PATH\"; \"$WINDLASS\" run flow.toml";
            let output = bench.script(&format!("{before}; {run}")).output().expect("it runs");
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success(), "{shell}: {said}");
            !said.contains("a: skipped")
        };
        assert!(ran("touch -d 2001-01-01 src"), "{shell}: it was never made");
        assert!(!ran("true"), "{shell}: it is newer");
        assert!(ran("touch -d 2001-01-02 out; touch -d 2001-01-03 src"), "{shell}: it is older");
    }
}
