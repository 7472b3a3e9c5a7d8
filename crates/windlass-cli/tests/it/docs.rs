//! Every fenced block of the documentation has a test that owns it: workflows have no errors, commands
//! run and print what stands below them, events match their schema. Blocks of Rust are doctests of the
//! library.

mod console;
mod links;
mod recipes;

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use crate::bench::{Bench, repository, stderr, stdout};
use crate::terminal::masked_line;

/// A fenced piece of a page.
pub(crate) struct Block {
    /// The page and the line, for messages.
    pub(crate) place: String,
    page: String,
    /// What stands behind the opening marks: `toml`, `sh`, `text`.
    language: String,
    pub(crate) text: String,
}

/// The test that owns a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Rust: a doctest of `windlass`, which takes in the whole page.
    Program,
    /// A workflow, or an excerpt of one in `examples/`.
    Workflow,
    /// Commands for a shell.
    Script,
    /// What the script above it prints, and more.
    Printed,
    /// A command behind `$`, and all that it prints.
    Console,
    /// Lines that `--json` prints.
    Events,
    /// The live display, held to a run on a terminal (`pictures.rs`).
    Live,
    /// What is said about the workflow above it, with a mistake in it.
    Mistake,
    /// A drawing.
    Drawing,
}

impl Block {
    pub(crate) fn owner(&self) -> Option<Kind> {
        Some(match (&self.language[..], &self.page[..]) {
            ("rust", _) => Kind::Program,
            ("toml", _) => Kind::Workflow,
            ("sh", _) => Kind::Script,
            ("console", _) => Kind::Console,
            ("json", _) => Kind::Events,
            ("text", "docs/cookbook.md") => Kind::Printed,
            ("text", "docs/output.md") => Kind::Live,
            ("text", "README.md") => Kind::Mistake,
            ("text", "ARCHITECTURE.md") => Kind::Drawing,
            _ => return None,
        })
    }
}

/// Returns the paths of the documentation pages.
fn pages() -> Vec<String> {
    let docs = fs::read_dir(repository().join("docs")).expect("there are pages");
    let names = docs.map(|page| page.expect("it can be listed").file_name());
    let docs = names.map(|name| format!("docs/{}", name.to_string_lossy()));
    let docs = docs.filter(|page| page.ends_with(".md"));
    let front = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let mut pages: Vec<_> = docs.chain(front.map(str::to_owned)).collect();
    pages.sort();
    pages
}

fn read(page: &str) -> String {
    fs::read_to_string(repository().join(page)).expect("it can be read")
}

/// Returns every block of every page, in order.
pub(crate) fn blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| page_blocks(page)).collect()
}

fn page_blocks(page: &str) -> Vec<Block> {
    let text = read(page);
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let inside = lines.by_ref().map(|(_, line)| line);
        let inside = inside.take_while(|line| line.trim_start() != "```");
        let text = inside.flat_map(|line| [line, "\n"]).collect();
        let place = format!("{page}:{}", number + 1);
        let (page, language) = (page.to_owned(), language.to_owned());
        blocks.push(Block { place, page, language, text });
    }
    blocks
}

/// Returns the blocks that one test owns; at least this many.
fn owned(kind: Kind, at_least: usize) -> Vec<Block> {
    let blocks: Vec<_> = blocks().into_iter().filter(|b| b.owner() == Some(kind)).collect();
    assert!(blocks.len() >= at_least, "{kind:?}: only {}", blocks.len());
    blocks
}

#[test]
fn no_block_is_without_a_test() {
    for block in blocks() {
        let (place, language) = (&block.place, &block.language);
        assert!(block.owner().is_some(), "{place}: no test owns a ```{language} block");
    }
}

/// Doctests of the library are whole pages: each page with a program has to be taken in.
#[test]
fn every_page_with_rust_is_a_doctest() {
    let sources =
        ["lib.rs", "capacity.rs"].map(|file| read(&format!("crates/windlass/src/{file}")));
    let pages: BTreeSet<_> = owned(Kind::Program, 25).into_iter().map(|block| block.page).collect();
    for page in pages {
        let taken_in = format!("include_str!(\"../../../{page}\")");
        assert!(sources.iter().any(|source| source.contains(&taken_in)), "{page} is no doctest");
    }
}

#[test]
fn every_line_of_json_is_an_event_of_the_schema() {
    let schema = serde_json::from_str(&read("docs/json.schema.json")).expect("it is JSON");
    let schema = jsonschema::validator_for(&schema).expect("it is a schema");
    for block in owned(Kind::Events, 1) {
        for line in block.text.lines() {
            let event = serde_json::from_str(line).expect("each line is JSON");
            assert!(schema.is_valid(&event), "{}: {line}", block.place);
        }
    }
}

#[test]
fn every_workflow_in_the_docs_has_neither_errors_nor_warnings() {
    let bench = Bench::new();
    for Block { place, text, .. } in owned(Kind::Workflow, 12) {
        bench.write("flow.toml", &text);
        let output = bench.call(&["check", "flow.toml"]);
        let said = stderr(&output);
        assert!(output.status.success() && said.lines().count() == 1, "{place}: {said}");
    }
}

/// The workflow of the front page, with a letter in the wrong place.
#[test]
fn the_error_on_the_front_page_is_printed_as_shown() {
    let bench = Bench::new();
    let workflow = owned(Kind::Workflow, 1).into_iter().find(|block| block.page == "README.md");
    let workflow = workflow.expect("there is one").text.replace("[\"train\"]", "[\"trian\"]");
    bench.write("nightly.toml", &workflow);
    let said = stderr(&bench.call(&["check", "nightly.toml"]));
    for block in owned(Kind::Mistake, 1) {
        assert!(said.starts_with(&block.text), "{}: it says\n{said}", block.place);
    }
}

/// Every dependency in the manifests has its reason on the page.
#[test]
fn every_dependency_has_its_reason() {
    let page = read("docs/dependencies.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let told: BTreeSet<_> = rows.flat_map(|names| names.split([' ', ','])).collect();
    let benchmarks =
        ["dag", "pool", "capacity"].map(|name| format!("benchmarks/{name}/Cargo.toml"));
    let manifests = ["Cargo.toml", "fuzz/Cargo.toml"].map(str::to_owned);
    for manifest in manifests.into_iter().chain(benchmarks) {
        for name in dependencies(&read(&manifest)) {
            let known = name.starts_with("windlass") || told.contains(&name[..]);
            assert!(known, "{manifest}: {name} has no reason in docs/dependencies.md");
        }
    }
}

/// Returns the names in all tables of dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if let Some((name, _)) = line.split_once([' ', '.', '=']).filter(|_| inside) {
            names.extend(
                name.chars().next().filter(char::is_ascii_lowercase).map(|_| name.to_owned()),
            );
        }
    }
    names
}

/// An excerpt begins with `# from FILE`; its lines stand in that file, in this order.
#[test]
fn excerpts_are_lines_of_the_examples() {
    let mut files = BTreeSet::new();
    for Block { place, text, .. } in owned(Kind::Workflow, 1) {
        let Some(rest) = text.strip_prefix("# from ") else { continue };
        let (file, lines) = rest.split_once('\n').expect("more than a name");
        let example = fs::read_to_string(repository().join(file)).expect("there is such a file");
        let mut there = example.lines();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            assert!(
                there.any(|other| other == line),
                "{place}: not in {file}, or not here: {line}"
            );
        }
        files.insert(file.to_owned());
    }
    assert!(files.len() >= 6, "{files:?}");
}

/// Lines that do not run as they stand, and what is run instead of them.
const INSTEAD: &[(&str, &str)] = &[
    // Waits for a user in another terminal.
    (
        "windlass run examples/release.toml -p version=1.4.0",
        "windlass run examples/release.toml -p version=1.4.0 &
         until windlass why last/publish | grep -q 'has not passed'; do sleep 0.01; done",
    ),
    // A test starts nothing under systemd.
    (
        "systemctl --user enable --now windlass-scheduler windlass-worker",
        "test -s ~/.config/systemd/user/windlass-worker.service",
    ),
    ("loginctl enable-linger", "true"),
    // Only root makes the machine's store, and a test makes none there.
    (
        "sudo windlass store init --system --group ops",
        "windlass store init --state shared --group $(id -g)",
    ),
    ("windlass --system lock deploy -- ./deploy.sh", "windlass --state shared lock deploy -- true"),
    (
        "windlass store init --state /srv/ci/windlass --group ci",
        "windlass store init --state ci --group $(id -g)",
    ),
    // There is no such database; `database.rs` has its tests.
    ("export WINDLASS_STATE='postgres://windlass@db/windlass'", "export WINDLASS_STATE=database"),
    (
        "export WINDLASS_STATE='postgres://windlass@db1,db2/windlass'",
        "export WINDLASS_STATE=database",
    ),
    // On machines of their own, without end.
    ("windlass serve --no-worker", "windlass serve --no-worker --idle 2s &"),
    ("windlass worker --slots 16", "windlass worker --slots 16 --idle 2s &"),
    // Never ends by itself.
    ("windlass events -f 'approval:**'", "windlass events 'approval:**'"),
    ("windlass store grant monitor --read", "true"),
    ("windlass store grant alice --operate", "true"),
    ("windlass store grant fleet --work", "true"),
    ("windlass store check", "true"),
    // No worker is running; `elsewhere.rs` has their tests.
    ("windlass workers cordon gpu1", "windlass workers"),
    ("windlass workers uncordon gpu1", "windlass workers"),
    ("windlass workers drain gpu1", "windlass workers list"),
    // For interactive shells, and for users who have jq.
    ("source <(windlass completions bash)", "windlass completions bash > /dev/null"),
    ("source <(windlass completions zsh)", "windlass completions zsh > /dev/null"),
    (
        "windlass why last/deploy --json | jq -r '.reasons[] | select(.kind == \"lock\") | .holders[]'",
        "windlass run deploy.toml; windlass why last/deploy --json",
    ),
];

/// Returns a directory for the commands of the pages: the examples, and scripts that do nothing.
fn stage() -> Bench {
    let bench = Bench::new();
    for dir in ["examples", "bin", ".config/fish/completions"] {
        fs::create_dir_all(bench.path(dir)).expect("it can be made");
    }
    for entry in fs::read_dir(repository().join("examples")).expect("there are examples") {
        let file = entry.expect("it can be listed").path();
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "toml") {
            fs::copy(&file, bench.path(&format!("examples/{name}"))).expect("it can be copied");
        }
    }
    let flow = "[params]\nenv = 'prod'\n[step.deploy]\nrun = 'echo {env}'\nguard = 'approved'\n\
        [guard.approved]\ncondition = 'true'\n";
    bench.write("deploy.toml", flow);
    let make = "for name in deploy.sh migrate.sh bin/make; do echo '#!/bin/sh' > $name; chmod +x $name; done
        ln -s \"$WINDLASS\" bin/windlass";
    assert!(bench.script(make).status().expect("it runs").success());
    bench
}

/// Lines that are not run: they belong to another program, or would run all of these tests.
const NOT_RUN: &[&str] = &["flock /tmp/deploy.lock ./deploy.sh", "./test"];

/// Returns the lines of a block, as a script.
fn script(text: &str) -> String {
    let mut script = "export HOME=\"$PWD\" PATH=\"$PWD/bin:$PATH\" BUILD_ID=17\n".to_owned();
    for line in text.lines() {
        let line = line.split("  #").next().unwrap_or(line).trim_end();
        if NOT_RUN.contains(&line) {
            continue;
        }
        let instead = INSTEAD.iter().find(|(written, _)| *written == line);
        let line = instead.map_or(line, |(_, instead)| instead);
        script += &line.replace("cargo run -p windlass-cli --", "windlass");
        script += "\n";
    }
    script + "wait\n"
}

#[test]
fn every_command_in_the_docs_runs_and_prints_what_is_shown_below_it() {
    let blocks = blocks();
    let mut owned = BTreeSet::new();
    for (place, block) in blocks.iter().enumerate() {
        if block.owner() != Some(Kind::Script) {
            continue;
        }
        let below = blocks.get(place + 1).filter(|next| next.owner() == Some(Kind::Printed));
        for shell in recipes::shells_for(block) {
            let stage = stage();
            recipes::install(&stage, shell);
            let output = stage.script(&script(&block.text)).output().expect("a shell runs");
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success(), "{} with {shell}: {said}", block.place);
            if let Some(shown) = below {
                check_shown(shown, &output);
                owned.insert(&shown.place);
            }
        }
    }
    let shown = blocks.iter().filter(|block| block.owner() == Some(Kind::Printed));
    assert_eq!(shown.map(|block| &block.place).collect::<BTreeSet<_>>(), owned, "under a script");
}

/// Checks that each shown line was printed, apart from ids and times.
fn check_shown(shown: &Block, output: &Output) {
    let said = stdout(output) + &stderr(output);
    let printed: BTreeSet<_> = said.lines().map(plain).collect();
    for line in shown.text.lines() {
        assert!(printed.contains(&plain(line)), "{}: {line:?} is not in\n{said}", shown.place);
    }
}

/// Returns a line without what differs from run to run: ids, durations and the number of the GPU.
fn plain(line: &str) -> String {
    let line = masked_line(line);
    let line = line.split(" on GPU ").next().unwrap_or(&line);
    let id = |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| match word.split_once('/') {
        Some((run, step)) if id(run) => format!("RUN/{step}"),
        _ if id(word) => "RUN".to_owned(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
