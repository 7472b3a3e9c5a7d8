use crate::bench::{Bench, repository, stderr, stdout};

#[test]
fn the_hello_example_runs() {
    let bench = Bench::new();
    let file = repository().join("examples/hello.toml");
    let output = bench.ends_with(0, &["run", file.to_str().expect("a plain path")]);
    let lines = "greet | hello from greet\nwork | done\nfarewell | bye\n";
    assert_eq!(stdout(&output), lines);
}

#[test]
fn a_failed_step_shows_its_output_and_fails_the_run() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'echo out; echo err >&2; exit 3'\n[step.b]\nrun = 'true'\nafter = ['a']\n",
    );
    let output = bench.ends_with(1, &["run", "flow.toml"]);
    assert_eq!(stdout(&output), "a | out\na | err\n");
    let said = stderr(&output);
    assert!(said.contains(": exit code 3\n") && said.contains("b: blocked: a failed\n"), "{said}");
}

#[test]
fn errors_are_reported_before_anything_runs() {
    let bench = Bench::new();
    bench
        .write("flow.toml", "[step.a]\nrun = 'touch ran'\n[step.b]\nrun = 'true'\nafter = ['c']\n");
    let output = bench.ends_with(2, &["run", "flow.toml"]);
    assert!(stderr(&output).contains("flow.toml:5:10"), "{}", stderr(&output));
    assert!(!bench.path("ran").exists() && !bench.path("state").exists());
}

#[test]
fn missing_files_and_runs_are_reported() {
    let bench = Bench::new();
    let output = bench.ends_with(2, &["run", "nothing.toml"]);
    assert!(stderr(&output).contains("cannot read nothing.toml"), "{}", stderr(&output));
    let output = bench.ends_with(2, &["resume", "zz"]);
    assert!(stderr(&output).contains("no run \"zz\""), "{}", stderr(&output));
}

/// Asserts that a call ends with 2 and names what to do instead, and nothing that does not exist.
#[track_caller]
fn check_instead(bench: &Bench, call: &[&str], instead: &str) {
    let output = bench.ends_with(2, call);
    let said = stderr(&output);
    assert!(said.contains(instead) && !said.contains("as a value"), "{call:?}: {said}");
}

#[test]
fn a_missing_file_is_answered_with_what_was_probably_meant() {
    let bench = Bench::new();
    bench.write("windlass.toml", "[step.test]\nrun = 'true'\n");
    bench.write("ci.toml", "[step.lint]\nrun = 'true'\n");
    for (call, instead) in [
        (&["run", "ci"][..], "there is no file ci; did you mean ci.toml?"),
        (&["check", "ci"], "there is no file ci; did you mean ci.toml?"),
        (&["graph", "./ci"], "there is no file ./ci; did you mean ./ci.toml?"),
        (&["run", "lint", "ci.toml"], "the file comes before the steps: windlass run ci.toml lint"),
        (&["run", "test"], "to run a step of windlass.toml: windlass run windlass.toml test"),
        (&["run", "cd.toml"], "cannot read cd.toml: No such file"),
    ] {
        check_instead(&bench, call, instead);
    }
}

#[test]
fn verbs_and_options_of_other_tools_are_answered_with_those_of_windlass() {
    let bench = Bench::new();
    bench.write("ci.toml", "[step.lint]\nrun = 'true'\n");
    for (call, instead) in [
        (&["status"][..], "windlass ps"),
        (&["validate", "ci.toml"], "windlass check FILE"),
        (&["stop", "last"], "windlass cancel RUN"),
        (&["logs"], "'log'"),
        (&["ci.toml"], "windlass run ci.toml"),
        (&["run", "ci.toml", "--dry-run"], "windlass check FILE"),
        (&["--state", "lock", "run", "-n", "ci.toml"], "`windlass run` has no option -n: "),
        (&["run", "ci.toml", "--step", "lint"], "windlass run FILE STEP"),
        (&["run", "ci.toml", "-q"], "--output quiet"),
        (&["run", "ci.toml", "--no-such-thing"], "unexpected argument '--no-such-thing'"),
        (&["lock", "x", "./deploy.sh", "--prod"], "put the command after `--`"),
        (&["add", "make"], "put the command after `--`"),
        (&["attach", "last/lint"], "windlass log -f last/lint"),
        (&["serve", "--slots", "0"], "write a whole number from 1 to 4294967295"),
        (&["submit", "ci.toml", "--env", "A=1"], "write only the name, A: "),
    ] {
        check_instead(&bench, call, instead);
    }
}

#[test]
fn a_command_in_one_word_is_answered_with_how_to_write_it() {
    let bench = Bench::new();
    for (command, hint) in [("echo hi", true), ("echohi", false)] {
        let output = bench.ends_with(127, &["lock", "x", "--", command]);
        assert_eq!(stderr(&output).contains("sh -c 'COMMAND'"), hint, "{}", stderr(&output));
    }
}

#[test]
fn a_store_that_cannot_be_used_is_69() {
    let bench = Bench::new();
    bench.write("state", "a file where a directory should be");
    bench.ends_with(69, &["lock", "x", "--", "true"]);
}

#[test]
fn the_error_for_a_time_without_a_unit_says_how_to_write_it() {
    let bench = Bench::new();
    let calls = [["--wait", "5"], ["--max-hold", "5"], ["--heartbeat-timeout", "5 years"]];
    for [option, time] in calls {
        let output = bench.ends_with(2, &["lock", "x", option, time, "--", "true"]);
        let how = format!("{time:?} is not a duration; write whole numbers with ms, s, m, h or d");
        assert!(stderr(&output).contains(&how), "{}", stderr(&output));
    }
}

#[test]
fn values_are_given_on_the_command_line_and_checked_before_anything_runs() {
    let bench = Bench::new();
    let flow = "[params]\ntag = { choices = ['a', 'b'] }\n[step.a]\nrun = 'echo {tag} > ran'\n";
    bench.write("flow.toml", flow);
    let refused = |arguments: &[&str], why: &str| {
        let output = bench.call(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&["run", "flow.toml"], "the parameter `tag` has no value: set it with -p tag=…");
    refused(&["run", "flow.toml", "-p", "tag=c"], "its choices are a, b");
    refused(&["run", "flow.toml", "-p", "tga=a"], "tga");
    refused(&["run", "flow.toml", "-p", "tag=a", "b"], "no step \"b\"");
    assert!(!bench.path("ran").exists());
    assert!(bench.call(&["run", "flow.toml", "-p", "tag=b"]).status.success());
    assert_eq!(bench.read("ran"), "b\n");
}

#[test]
fn a_lock_cannot_have_the_name_of_a_primitive() {
    let bench = Bench::new();
    for verb in ["lock", "sem"] {
        for name in ["acquire", "release", "heartbeat", "check"] {
            for more in [&["--", "echo", "hi"][..], &["--", "echo"], &["--wait", "5s", "--", "x"]] {
                let output = bench.ends_with(2, &[&[verb, name], more].concat());
                let why = format!("{name:?} cannot be a name: it is a verb of `windlass lock`");
                assert!(stderr(&output).contains(&why), "{}", stderr(&output));
            }
        }
    }
    let output = bench.call(&["lock", "check", "deploy"]);
    assert!(stderr(&output).contains("--token <NUMBER>"), "{}", stderr(&output));
}

#[test]
fn what_is_too_long_to_quote_is_cut_and_the_reason_is_not() {
    let bench = Bench::new();
    let long = "long name ".repeat(500);
    for (arguments, reason) in [
        (&["lock", &long, "--", "true"][..], "cannot be longer than 1024 bytes"),
        (&["lock", "acquire", &long, "--holder", "me"], "cannot be longer than 1024 bytes"),
        (&["lock", "x", "--wait", &long, "--", "true"], "such as 30s or 1h 30m"),
        (&["why", &long], "list runs with: windlass ps, windlass history"),
        (&["resume", &long], "list runs with: windlass ps, windlass history"),
    ] {
        let output = bench.call(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason) && said.len() < 1500, "{reason}: {said}");
    }
    let output = bench.call(&["lock", &long, "--", "true"]);
    assert!(stderr(&output).len() < 400, "{}", stderr(&output));
}

#[test]
fn a_request_for_too_many_slots_is_answered_with_the_maximum() {
    let (bench, _) = Bench::run("[step.a]\nrun = 'true'\n");
    for jobs in ["0", "4294967296", "99999999999", "many"] {
        let output = bench.call(&["run", "flow.toml", "-j", jobs]);
        assert_eq!(output.status.code(), Some(2), "{jobs}");
        let how = "write a whole number from 1 to 4294967295";
        assert!(stderr(&output).contains(how), "{}", stderr(&output));
    }
    assert!(bench.call(&["run", "flow.toml", "-j", "4294967295"]).status.success());
}

#[test]
fn options_of_flock_mean_the_same_or_name_a_replacement() {
    let bench = Bench::new();
    for accepted in [
        &["-x"][..],
        &["-e"],
        &["--exclusive"],
        &["-o"],
        &["--close"],
        &["-n"],
        &["--nonblock"],
        &["--nb"],
        &["-xn"],
        &["-w", "5"],
        &["--timeout", "0.5"],
        &["-E", "9"],
        &["--conflict-exit-code", "9"],
    ] {
        let output = bench.call(&[&["lock"], accepted, &["d", "--", "true"]].concat());
        assert!(output.status.success(), "{accepted:?}: {}", stderr(&output));
    }
    for (refused, instead) in [
        ("-s", "windlass sem NAME --capacity N -- COMMAND"),
        ("--shared", "windlass sem NAME --capacity N -- COMMAND"),
        ("-u", "windlass lock release NAME"),
        ("--unlock", "windlass lock release NAME"),
        ("-c", "windlass lock NAME -- sh -c 'COMMAND'"),
        ("--command", "windlass lock NAME -- sh -c 'COMMAND'"),
        ("-F", "leave it out"),
        ("--no-fork", "leave it out"),
        ("--verbose", "windlass holders"),
        ("--fcntl", "leave it out"),
    ] {
        for call in [&["lock", refused, "d", "--", "true"][..], &["lock", "d", refused, "true"]] {
            let output = bench.call(call);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{call:?}: {said}");
            let expected = format!("`windlass lock` has no option {refused}: ");
            assert!(said.contains(&expected) && said.contains(instead), "{call:?}: {said}");
            assert!(!said.contains("as a value"), "{call:?}: {said}");
        }
    }
    let output = bench.call(&["sem", "s", "--capacity", "1", "-z", "--", "true"]);
    let said = stderr(&output);
    assert!(said.contains("unexpected argument '-z'") && !said.contains("as a value"), "{said}");
}

#[test]
fn a_name_with_an_unprintable_character_is_refused() {
    let bench = Bench::new();
    for (character, called) in [
        ('\u{202e}', "U+202E"),
        ('\u{2028}', "U+2028"),
        ('\u{2029}', "U+2029"),
        ('\u{2066}', "U+2066"),
        ('\u{200f}', "U+200F"),
        ('\u{61c}', "U+061C"),
        ('\u{85}', "U+0085"),
        ('\u{1b}', "U+001B"),
    ] {
        let name = format!("a{character}b");
        bench.write("flow.toml", &format!("name = 'n'\n[step.a]\nrun = 'true'\nlock = '{name}'\n"));
        let in_file = !character.is_control() || character == '\u{85}';
        let quoted = format!("\"a\\u{:04x}b\"", u32::from(character));
        bench.write("called.toml", &format!("name = {quoted}\n[step.a]\nrun = 'true'\n"));
        let calls = [
            (&["lock", &name, "--", "true"][..], true),
            (&["sem", &name, "--capacity", "1", "--", "true"], true),
            (&["lock", "acquire", &name, "--holder", "me"], true),
            (&["lock", "acquire", "x", "--holder", &name], true),
            (&["emit", &name], true),
            (&["check", "flow.toml"], in_file),
            (&["check", "called.toml"], true),
            (&["run", "called.toml"], true),
        ];
        for (call, _) in calls.iter().filter(|(_, can)| *can) {
            let output = bench.call(call);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{call:?}: {said}");
            assert!(said.contains(called), "{call:?}: {said}");
            assert!(!said.contains(character), "{call:?}: {said:?}");
        }
    }
}
