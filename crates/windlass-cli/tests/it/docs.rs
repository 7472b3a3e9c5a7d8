//! What the documentation shows is so: its workflows have no mistakes, its commands run, and they
//! print what stands below them.

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use crate::bench::{Bench, repository, stderr, stdout};

/// A fenced piece of a page.
struct Block {
    /// The page and the line, for messages.
    place: String,
    /// What stands behind the opening marks: `toml`, `sh`, `text`.
    kind: String,
    text: String,
}

/// Every block of every page, in order.
fn blocks() -> Vec<Block> {
    let pages = fs::read_dir(repository().join("docs")).expect("there are pages");
    let mut pages: Vec<_> = pages.map(|page| page.expect("it can be listed").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(repository().join("README.md"));
    pages.sort();
    pages.iter().flat_map(|page| page_blocks(page)).collect()
}

fn page_blocks(page: &std::path::Path) -> Vec<Block> {
    let name = page.file_name().expect("a file").to_string_lossy().into_owned();
    let text = fs::read_to_string(page).expect("it can be read");
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let text = inside.flat_map(|line| [line, "\n"]).collect();
        blocks.push(Block { place: format!("{name}:{}", number + 1), kind: kind.to_owned(), text });
    }
    blocks
}

#[test]
fn every_workflow_in_the_docs_has_neither_mistakes_nor_warnings() {
    let bench = Bench::new();
    let files: Vec<_> = blocks().into_iter().filter(|block| block.kind == "toml").collect();
    assert!(files.len() >= 12, "{}", files.len());
    for Block { place, text, .. } in files {
        bench.write("flow.toml", &text);
        let output = bench.call(&["check", "flow.toml"]);
        let said = stderr(&output);
        assert!(output.status.success() && said.lines().count() == 1, "{place}: {said}");
    }
}

/// An excerpt begins with `# from FILE`; its lines stand in that file, in this order.
#[test]
fn excerpts_are_what_stands_in_the_examples() {
    let mut files = BTreeSet::new();
    for Block { place, text, .. } in blocks() {
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
    // Waits for somebody, who is in another terminal.
    (
        "windlass run examples/release.toml -p version=1.4.0",
        "windlass run examples/release.toml -p version=1.4.0 &
         until test -s examples/out/release/inbox; do sleep 0.01; done",
    ),
    // Never ends by itself.
    ("windlass events -f 'approval:**'", "windlass events 'approval:**'"),
    // For shells in which somebody types, and for whoever has jq.
    ("source <(windlass completions bash)", "windlass completions bash > /dev/null"),
    ("source <(windlass completions zsh)", "windlass completions zsh > /dev/null"),
    (
        "windlass why last/deploy --json | jq -r '.reasons[] | select(.kind == \"lock\") | .holders[]'",
        "windlass run deploy.toml; windlass why last/deploy --json",
    ),
];

/// What the pages' commands find: the examples, and scripts that do nothing.
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

/// The lines of a block that call windlass, as a script.
fn script(text: &str) -> String {
    let mut script = "export HOME=\"$PWD\" PATH=\"$PWD/bin:$PATH\" BUILD_ID=17\n".to_owned();
    let calls = |line: &&str| line.contains("windlass ") && !line.starts_with("cargo ");
    for line in text.lines().filter(calls) {
        let line = line.split("  #").next().unwrap_or(line).trim_end();
        let instead = INSTEAD.iter().find(|(written, _)| *written == line);
        script += instead.map_or(line, |(_, instead)| instead);
        script += "\n";
    }
    script + "wait\n"
}

#[test]
fn every_command_in_the_docs_runs_and_prints_what_is_shown_below_it() {
    let blocks = blocks();
    let mut scripts = 0;
    for (place, block) in blocks.iter().enumerate() {
        if block.kind != "sh" || !block.text.contains("windlass ") {
            continue;
        }
        let output = stage().script(&script(&block.text)).output().expect("a shell runs");
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success(), "{}: {said}", block.place);
        // The cookbook shows what its commands print.
        let shown = blocks.get(place + 1).filter(|next| next.kind == "text");
        if let Some(shown) = shown.filter(|shown| shown.place.starts_with("cookbook.md")) {
            check_shown(shown, &output);
        }
        scripts += 1;
    }
    assert!(scripts >= 12, "{scripts}");
}

/// Each line that is shown was printed, whatever the run was called and however long it took.
fn check_shown(shown: &Block, output: &Output) {
    let said = stdout(output) + &stderr(output);
    let printed: BTreeSet<_> = said.lines().map(plain).collect();
    for line in shown.text.lines() {
        assert!(printed.contains(&plain(line)), "{}: {line:?} is not in\n{said}", shown.place);
    }
}

/// A line without what differs from run to run: ids, times, and which GPU it was.
fn plain(line: &str) -> String {
    let line = line.split(" on GPU ").next().unwrap_or(line);
    let id = |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| match word.split_once('/') {
        Some((run, step)) if id(run) => format!("RUN/{step}"),
        _ if id(word) => "RUN".to_owned(),
        _ if word.parse::<f64>().is_ok() && word.contains('.') => "TIME".to_owned(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
