//! The pictures of the front page, made from a run on a terminal, and the same run held to what
//! `docs/output.md` shows of it.
//!
//! `UPDATE_PICTURES=1 cargo test -p windlass-cli pictures` draws them in `docs/images`, from a slow run:
//! once for the expected times, and once for the picture. Without it, the run is fast, and nothing is
//! written.

mod screen;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::bench::{Bench, repository};
use crate::docs::{Kind, blocks};
use crate::terminal::{Terminal, masked};

/// `./work SECONDS LINE…` prints its lines one after the other, and takes that long for all.
const FLOW: &str = r#"
name        = "release"
concurrency = 3

[resource]
gpu    = 2
memory = "16G"

[step.fetch]
run   = "./work 1 'resolving' 'receiving'; test \"$WINDLASS_ATTEMPT\" = 2"
retry = { count = 3, delay = "10ms" }

[step.docs]
run = "./work 1.5 'writing pages'"

[step.build]
after = ["fetch"]
run   = "./work 3 'Compiling crate-1' 'Compiling crate-2' 'Compiling crate-3' 'Compiling crate-4' 'Compiling crate-5'"
use   = { gpu = 1, memory = "4G" }

[step.test]
after = ["fetch"]
each  = { os = ["linux", "macos"] }
run   = "./work 2.5 'running 214 tests on {os}'"
use   = { memory = "2G" }

[step.approve]
after = ["docs"]
guard = ["approved"]
run   = "./work 0.5 'sending the notes'"

[step.publish]
after = ["approve", "build", "test"]
lock  = "registry"
run   = "./work 1 'uploading'"

[guard.approved]
condition = "test -e approved"
wake_on   = ["release:approved"]
"#;

/// Prints its arguments at a given pace; steps that are running in the picture then wait for a file.
const WORK: &str = r#"#!/bin/sh -eu
pause=$(awk "BEGIN { print $1 * $UNIT / ($# - 1) }"); shift
for line in "$@"; do echo "$line"; sleep "$pause"; done
case "$WINDLASS_STEP" in build|test*) until test -e go; do sleep 0.01; done ;; esac
"#;

/// As many rows and columns as the picture has.
const SIZE: (u16, u16) = (16, 100);

/// Returns whether pictures are drawn, so that steps are slow.
fn updating() -> bool {
    std::env::var_os("UPDATE_PICTURES").is_some()
}

fn picture(name: &str) -> PathBuf {
    repository().join("docs/images").join(name)
}

fn start(bench: &Bench) -> Terminal {
    let mut command = bench.command(&["run", "release.toml"]);
    command.env("UNIT", if updating() { "1" } else { "0" });
    Terminal::start(command, SIZE)
}

/// Returns a store with a successful run, from which times are estimated.
fn stage() -> Bench {
    let bench = Bench::new();
    bench.write("release.toml", FLOW);
    bench.write("work", WORK);
    assert!(bench.script("chmod +x work; touch go approved").status().expect("it runs").success());
    if updating() {
        assert!(start(&bench).end().success());
    }
    for file in ["go", "approved"] {
        fs::remove_file(bench.path(file)).expect("it was made");
    }
    bench
}

/// Returns whether the screen is the one for the picture.
fn is_telling(screen: &str) -> bool {
    let shows = |text: &str| screen.contains(text);
    let compiled = !updating() || shows("Compiling crate-4");
    let tested = shows("tests on linux") && shows("tests on macos");
    compiled && shows("Compiling crate") && tested && shows("waits for guard approved: exit")
}

#[test]
fn pictures_are_what_a_run_looks_like() {
    let bench = stage();
    let mut terminal = start(&bench);
    terminal.until("the moment that is worth a picture", is_telling);
    let (shown, drawn) = (terminal.screen(), screen::draw(terminal.cells()));
    for piece in ["fetch", "Compiling crate", "waits for guard approved", "gpu 1/2"] {
        assert!(drawn.contains(piece), "no {piece} in {drawn}");
    }
    assert_eq!(drawn.matches("<svg").count(), 1);

    bench.write("approved", "");
    assert!(bench.call(&["emit", "release:approved"]).status.success());
    bench.write("go", "");
    assert!(terminal.end().success(), "{}", terminal.screen());
    let output = bench.call(&["show", "last", "--svg", "timeline.svg"]);
    assert!(output.status.success(), "{output:?}");
    let timeline = bench.read("timeline.svg");
    assert!(timeline.contains(">test[linux]</text>"), "{timeline}");
    if updating() {
        fs::write(picture("live.svg"), drawn).expect("it can be written");
        fs::write(picture("timeline.svg"), timeline).expect("it can be written");
    }
    check_page(&shown);
}

/// Checks that `docs/output.md` shows this run, apart from times and last lines.
fn check_page(shown: &str) {
    let is_it = |block: &&crate::docs::Block| block.owner() == Some(Kind::Live);
    let blocks = blocks();
    let page: Vec<_> = blocks.iter().filter(is_it).collect();
    let [block] = page[..] else { panic!("the live display is shown {} times", page.len()) };
    assert_eq!(words(&block.text), words(shown), "{}", block.place);
}

/// Returns the lines without what differs from run to run, in no order.
fn words(screen: &str) -> BTreeSet<String> {
    let id = screen.split([' ', ':']).nth(1).unwrap_or("");
    masked(screen, id).lines().map(steady).collect()
}

/// Returns a line without expected times and without the number of a crate.
fn steady(line: &str) -> String {
    let line = line.split(", about ").next().unwrap_or(line);
    let line = line.split(", at least ").next().unwrap_or(line);
    let line = line.trim_end_matches(|c: char| c.is_ascii_digit());
    match line.split_once(" of ~") {
        Some((step, rest)) => {
            step.to_owned() + rest.trim_start_matches(|c| c != 's').trim_start_matches('s')
        }
        None => line.to_owned(),
    }
}

#[test]
fn the_front_page_has_its_pictures() {
    let page = fs::read_to_string(repository().join("README.md")).expect("it is there");
    for name in ["live.svg", "timeline.svg"] {
        assert!(page.contains(&format!("docs/images/{name}")), "README.md does not show {name}");
        let text = fs::read_to_string(picture(name)).expect("it was made");
        assert!(
            text.starts_with("<svg ") && text.ends_with("</svg>\n"),
            "{name} is a whole picture"
        );
        assert!(text.contains("prefers-color-scheme: dark"), "{name} is for dark pages, too");
    }
}
