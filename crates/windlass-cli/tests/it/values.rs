//! Values in the texts of a workflow: where they stand, where they do not, and that none is ever run.

use crate::bench::{Bench, stderr, stdout};

/// Runs `flow` with these arguments; what it prints.
fn said(bench: &Bench, flow: &str, arguments: &[&str]) -> String {
    bench.write("flow.toml", flow);
    let output = bench.call(&[&["run", "flow.toml"], arguments].concat());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn a_name_after_a_dollar_is_the_shells_own_in_every_context() {
    let hostile = "branch=(touch canary)";
    for shell in ["sh", "bash"] {
        let flow = format!(
            r#"
            name = "(touch canary)"
            [params]
            branch = ""
            [defaults]
            shell = "{shell}"
            [step.nested]
            run = "sh -c 'echo building ${{branch}} ${{name}} ${{step}} ${{run}} ${{attempt}} ${{workspace}}.'"
            [step.escaped]
            run = 'echo \${{branch}} "\${{branch}}" "\${{name}}"'
            [step.here]
            run = """
cat <<'END'
${{branch}} ${{workspace}}
END
"""
            [step.list]
            run = ["sh", "-c", "echo list ${{branch}}."]
            "#
        );
        let bench = Bench::new();
        let said = said(&bench, &flow, &["-p", hostile]);
        for line in [
            "nested | building .",
            "escaped | ${branch} ${branch} ${name}",
            "here | ${branch} ${workspace}",
            "list | list .",
        ] {
            let plain = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let wanted: Vec<_> = line.split_whitespace().collect();
            assert!(plain.into_iter().any(|line| line == wanted), "{shell}: {line} in {said}");
        }
        assert!(!bench.path("canary").exists(), "{shell}: a value was run");
    }
}

#[test]
fn doubled_braces_write_single_ones_in_every_context() {
    let flow = r#"
        [params]
        v = "value"
        [step.text]
        run = "echo {{v}} '{{v}}' {v}"
        [step.list]
        run = ["echo", "{{v}}", "{{step}}", "{{.Name}}", "{{{v}}}"]
        [step.env]
        env = { A = "{{v}}={v}" }
        run = "echo \"$A\""
        [step.dir]
        dir = "{{v}}"
        run = "pwd"
        [step.foreign]
        shell = ["env", "echo"]
        run = "{{v}} {{ v }} ${v}"
    "#;
    let bench = Bench::new();
    std::fs::create_dir(bench.path("{v}")).expect("it can be made");
    let said = said(&bench, flow, &[]);
    for line in [
        "text | {v} {v} value",
        "list | {v} {step} {{.Name}} {{v}}",
        "env | {v}=value",
        "foreign | {v} {{ v }} ${v}",
    ] {
        assert!(said.lines().any(|said| said == line), "{line} in {said}");
    }
    assert!(
        said.lines().any(|line| line.starts_with("dir | ") && line.ends_with("/{v}")),
        "{said}"
    );
}

#[test]
fn check_points_at_a_name_behind_a_dollar_where_no_shell_reads_it() {
    let bench = Bench::new();
    bench.write("flow.toml", "[params]\nv = 1\n[step.a]\nrun = ['echo', '${v}', '{v}']\n");
    let output = bench.call(&["check", "flow.toml"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("warning: step `a`: `${v}` is not replaced"), "{said}");
    assert!(said.contains("write {v} for the value"), "{said}");
}
