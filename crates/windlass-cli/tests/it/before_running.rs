//! `check`, `graph`, `schema`, `init`: what is asked before anything runs.

use std::fs;

use serde_json::Value;

use crate::bench::{Bench, repository, stderr, stdout};
use crate::terminal::Terminal;

#[test]
fn check_reports_every_error_and_runs_nothing() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'touch ran'\ntimeot = '5m'\n[step.b]\nrun = 'true'\nafter = ['c']\n",
    );
    let output = bench.ends_with(2, &["check", "flow.toml"]);
    let said = stderr(&output);
    assert!(said.contains("flow.toml:3:1") && said.contains("flow.toml:6:10"), "{said}");
    assert!(said.contains("did you mean `timeout`?"), "{said}");
    assert_eq!(stdout(&output), "", "stdout is for data");
    assert!(!bench.path("ran").exists() && !bench.path("state").exists());
}

#[test]
fn check_reports_a_file_without_errors() {
    let bench = Bench::new();
    bench.write("flow.toml", "[params]\nx = 1\n[step.a]\nrun = 'true'\n");
    let output = bench.ends_with(0, &["check", "flow.toml"]);
    let said = stderr(&output);
    assert!(said.starts_with("warning: nothing in this file uses the parameter `x`"), "{said}");
    assert!(said.ends_with("flow.toml: 1 step, no errors\n"), "{said}");
}

#[test]
fn check_prints_one_object_per_line_as_json() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 1\n[step.b]\nrun = ''\n");
    let output = bench.call(&["check", "flow.toml", "--json"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), ""));
    let lines = stdout(&output);
    let told: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let places: Vec<_> = told.iter().map(|told| (&told["line"], &told["column"])).collect();
    assert_eq!(places, [(&2.into(), &7.into()), (&4.into(), &7.into())]);
    assert!(told.iter().all(|told| told["event"] == "mistake" && told["schema"] == 1));
}

#[test]
fn check_takes_values_for_parameters() {
    let bench = Bench::new();
    let text = "[params]\nenv = { choices = ['staging', 'prod'] }\n[step.a]\nrun = 'echo {env}'\n";
    bench.write("flow.toml", text);
    assert!(bench.call(&["check", "flow.toml"]).status.success(), "values come later");
    assert!(bench.call(&["check", "flow.toml", "-p", "env=prod"]).status.success());
    let output = bench.ends_with(2, &["check", "flow.toml", "-p", "env=test"]);
    assert!(stderr(&output).contains("its choices are staging, prod"), "{}", stderr(&output));
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_its_line() {
    let bench = Bench::new();
    fs::write(bench.path("flow.toml"), b"name = 'x'\nbad = '\xff'\n").expect("it can be written");
    for verb in ["check", "graph", "run"] {
        let output = bench.call(&[verb, "flow.toml"]);
        assert_eq!(output.status.code(), Some(2), "{verb}");
        let said = stderr(&output);
        assert!(said.contains("flow.toml is not valid UTF-8: line 2"), "{verb}: {said}");
        let output = bench.call(&[verb, "flow.toml", "--json"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), ""), "{verb}");
        let told: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        assert_eq!((&told["event"], &told["file"]), (&"mistake".into(), &"flow.toml".into()));
        assert_eq!((&told["line"], &told["column"]), (&2.into(), &8.into()), "{verb}");
    }
}

#[test]
fn check_takes_several_files_and_ends_as_the_worst_of_them() {
    let bench = Bench::new();
    bench.write("good.toml", "[step.a]\nrun = 'true'\n");
    bench.write("bad.toml", "[step.a]\nrun = 1\n");
    let output = bench.ends_with(2, &["check", "bad.toml", "missing.toml", "good.toml"]);
    let said = stderr(&output);
    assert!(said.contains("--> bad.toml:2:7"), "{said}");
    assert!(said.contains("windlass: cannot read missing.toml"), "{said}");
    assert!(said.ends_with("good.toml: 1 step, no errors\n"), "{said}");
    assert!(bench.call(&["check", "good.toml", "good.toml"]).status.success());
}

#[test]
fn json_has_all_steps_of_a_cycle() {
    let bench = Bench::new();
    let step = |n: usize| format!("[step.s{n}]\nrun = 'true'\nafter = ['s{}']\n", (n + 1) % 12);
    bench.write("flow.toml", &(0..12).map(step).collect::<String>());
    let output = bench.call(&["check", "flow.toml", "--json"]);
    let told: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let cycle: Vec<_> = (0..12).map(|n| Value::from(format!("s{n}"))).collect();
    assert_eq!(told["cycle"], Value::from(cycle));
}

#[test]
fn only_check_warns_of_unused_parameters() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[params]\nx = 1\n[step.a]\nrun = 'true'\n[guard.g]\ncondition = 'true'\n",
    );
    assert!(stderr(&bench.call(&["check", "flow.toml"])).contains("warning: "));
    for call in [&["run", "flow.toml"][..], &["graph", "flow.toml"], &["guard", "flow.toml", "g"]] {
        let output = bench.ends_with(0, call);
        assert!(!stderr(&output).contains("warning"), "{call:?}: {}", stderr(&output));
    }
}

#[test]
fn without_a_file_windlass_toml_is_taken() {
    let bench = Bench::new();
    for verb in ["run", "check", "graph"] {
        let output = bench.call(&[verb]);
        assert_eq!(output.status.code(), Some(2), "{verb}");
        let said = stderr(&output);
        assert!(said.contains("there is no windlass.toml in this directory"), "{verb}: {said}");
        assert!(said.contains("windlass init"), "{verb}: {said}");
    }
    bench.write("windlass.toml", "[step.a]\nrun = 'echo {v}'\n[params]\nv = 1\n");
    assert!(stdout(&bench.call(&["run", "-p", "v=2"])).contains("a | 2\n"));
    assert_eq!(stderr(&bench.call(&["check"])), "windlass.toml: 1 step, no errors\n");
    assert_eq!(stdout(&bench.call(&["graph"])), "* a\n");
    let output = bench.ends_with(2, &["run", "a"]);
    assert!(stderr(&output).contains("windlass run windlass.toml a\n"), "{}", stderr(&output));
}

#[test]
fn errors_are_coloured_if_the_variables_ask_for_it() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 1\n");
    bench.write("warned.toml", "[step.a]\nrun = 'echo {nmae}'\n");
    for file in ["flow.toml", "warned.toml"] {
        let said = |variables: &[(&str, &str)]| {
            let mut command = bench.command(&["check", file]);
            stderr(&command.envs(variables.iter().copied()).output().expect("it runs"))
        };
        let forced = ("CLICOLOR_FORCE", "1");
        assert!(said(&[forced]).contains("\x1b[1m"), "{file}");
        assert!(!said(&[]).contains('\x1b'), "{file}: it is no terminal");
        assert!(!said(&[forced, ("NO_COLOR", "1")]).contains('\x1b'), "{file}");
        let mut terminal = Terminal::start(bench.command(&["check", file]), (24, 80));
        terminal.end();
        assert!(terminal.bytes().contains("\x1b[1m"), "{file}: {}", terminal.bytes());
    }
}

/// Every command that `init` prints or writes, in the order of the file.
#[test]
fn what_init_recommends_works() {
    let bench = Bench::new();
    let output = bench.call(&["init"]);
    let said = stderr(&output);
    let (_, advice) = said.trim_end().split_once("run it with: ").expect("it says what to do");
    let file = bench.read("windlass.toml");
    let listed = file.lines().filter_map(|line| line.strip_prefix("#   "));
    let listed = listed.map(|line| line.split("  ").next().unwrap_or(line));
    let quoted = file.split('`').skip(1).step_by(2).filter(|text| text.starts_with("windlass "));
    let commands: Vec<_> = [advice].into_iter().chain(listed).chain(quoted).collect();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(words[0], "windlass", "{command}");
        let output = bench.call(&words[1..]);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
}

#[test]
fn graph_draws_in_every_format() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'true'\n[step.b]\nrun = 'true'\nafter = ['a']\n");
    let draw = |arguments: &[&str]| {
        let output = bench.ends_with(0, &[&["graph", "flow.toml"], arguments].concat());
        stdout(&output)
    };
    assert_eq!(draw(&[]), "* a\n`-* b\n");
    assert!(draw(&["--format", "dot"]).contains("\"a\" -> \"b\";"));
    assert!(draw(&["--format", "mermaid"]).contains("s0 --> s1"));
    let json: Value = serde_json::from_str(&draw(&["--json"])).expect("JSON");
    assert_eq!(json["steps"][1]["after"][0]["step"], "a");
}

#[test]
fn schema_prints_a_schema() {
    let output = Bench::new().call(&["schema"]);
    let schema: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(schema["properties"]["step"].is_object());
}

#[test]
fn init_writes_a_file_that_runs_and_overwrites_nothing() {
    let bench = Bench::new();
    assert!(bench.call(&["init"]).status.success());
    assert!(bench.call(&["check", "windlass.toml"]).status.success());
    let output = bench.ends_with(0, &["run", "windlass.toml"]);
    assert!(stdout(&output).contains("publish | building web"), "{}", stdout(&output));

    bench.write("windlass.toml", "mine");
    let output = bench.ends_with(2, &["init"]);
    assert!(stderr(&output).contains("already exists; nothing was written"));
    assert_eq!(bench.read("windlass.toml"), "mine");
}

#[test]
fn values_reach_commands_as_they_are() {
    let bench = Bench::new();
    let file = repository().join("examples/values.toml");
    let output = bench.ends_with(0, &["run", file.to_str().expect("a plain path")]);
    let title = "it's \"50%\" $(done)";
    let said = stdout(&output);
    for line in [
        format!("bare | {title} 3 false\n"),
        format!("quoted | single: {title}\n"),
        format!("quoted | double: {title}\n"),
        format!("quoted | nested: {title}\n"),
        format!("quoted | here: {title}\n"),
        format!("list | {title} from list\n"),
        format!("environment | {title} and 3\n"),
    ] {
        assert!(said.contains(&line), "{line} in {said}");
    }
}

#[test]
fn a_step_runs_in_its_directory_with_its_names_filled_in() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).expect("it can be made");
    bench.write(
        "flow.toml",
        "[params]\nd = 'sub'\n[step.a]\ndir = '{d}'\neach = { n = [1, 2] }\nlock = 'l-{n}'\n\
         run = 'echo {workspace} {attempt} {name} > {n}'\n",
    );
    bench.ends_with(0, &["run", "flow.toml"]);
    let dir = fs::canonicalize(bench.path("sub")).expect("it is there");
    assert_eq!(bench.read("sub/1"), format!("{} 1 flow\n", dir.display()));
    assert_eq!(bench.read("sub/2"), bench.read("sub/1"));
}

#[test]
fn check_warns_of_what_has_no_effect_and_run_does_not() {
    let bench = Bench::new();
    let flow = "[resource]\ngpu = 1\ntpu = 1\n\
        [guard.used]\ncondition = 'true'\ntimeout = '1m'\non_timeout = 'escalate'\n\
        [guard.spare]\ncondition = 'true'\n\
        [step.a]\nwhen = ''\nguard = 'used'\nuse = { gpu = 1 }\nrun = 'true'\n";
    bench.write("flow.toml", flow);
    let warnings = [
        "warning: no step uses the resource `tpu`",
        "warning: no step uses the guard `spare`",
        "warning: step `a`: an empty `when` always holds",
        "warning: guard `used` escalates, but there is no hook for that",
    ];
    let output = bench.call(&["check", "flow.toml"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("warning: ").count(), warnings.len(), "{said}");
    for warning in warnings {
        assert!(said.contains(warning), "{warning}: {said}");
    }
    let output = bench.ends_with(0, &["run", "flow.toml"]);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
}

#[test]
fn the_locale_decides_which_characters_a_graph_has() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'true'\n[step.b]\nafter = 'a'\nrun = 'true'\n");
    for (locale, drawn) in [("C", "* a\n`-* b\n"), ("C.UTF-8", "● a\n╰─● b\n")] {
        for call in [&["graph", "flow.toml"][..], &["graph", "flow.toml", "--format", "text"]] {
            let output = bench.command(call).env("LC_ALL", locale).output().expect("it starts");
            assert_eq!(stdout(&output), drawn, "{locale} {call:?}");
        }
    }
}
