use super::*;

/// What is said about a file that cannot be run.
fn mistakes(text: &str) -> String {
    parse("flow.toml", text).expect_err("it has mistakes").to_string()
}

#[test]
fn a_mistyped_step_is_underlined_with_a_suggestion() {
    let text =
        "[step.report]\nrun = \"true\"\n\n[step.deploy]\nrun = \"true\"\nafter = [\"reprot\"]\n";
    assert_eq!(
        mistakes(text),
        r#"error: step `deploy` waits for `reprot`, which does not exist
 --> flow.toml:6:10
  |
6 | after = ["reprot"]
  |          ^^^^^^^^ no such step
  |
  = help: did you mean `report`?"#
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = r#"
concurrency = 0
[resource]
gpu = 2
[step.a]
run = " "
use = { gpus = 1 }
[step.b]
run = "true"
use = { gpu = 3 }
retry = { count = 1, delay = "5" }
lock = 7
"#;
    let mistakes = parse("flow.toml", text).unwrap_err().mistakes;
    let messages: Vec<_> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`concurrency` is the number of steps that may run at once",
            "step `a` has an empty command",
            "step `a` uses `gpus`, which is not declared",
            "step `b` uses 3 of `gpu`, and there are only 2",
            "\"5\" is not a duration",
            "step `b`: `lock` is a name, or a list of names",
        ]
    );
}

#[test]
fn a_cycle_is_told_as_its_path() {
    let text = r#"
[step.out]
run = "true"
after = ["a"]
[step.a]
run = "true"
after = ["c"]
[step.b]
run = "true"
after = ["a"]
[step.c]
run = "true"
after = ["b"]
"#;
    let said = mistakes(text);
    assert!(said.contains("wait for each other: `a` -> `c` -> `b` -> `a`"), "{said}");
}

#[test]
fn unknown_keys_and_broken_syntax_are_told_with_their_place() {
    assert!(mistakes("[step.a]\nrun = \"true\"\nafetr = []\n").contains("flow.toml:3:1"));
    assert!(mistakes("[step.a\nrun = 1").contains("flow.toml:1:"));
}

#[test]
fn steps_keep_the_order_of_the_file_except_behind_those_they_follow() {
    let text = r#"
[step.z]
run = "true"
after = ["a"]
[step.y]
run = "true"
[step.a]
run = "true"
"#;
    let plan = parse("dir/flow.toml", text).expect("nothing is wrong");
    let names: Vec<_> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["y", "a", "z"]);
    assert_eq!(plan.steps[2].after, [1]);
    assert_eq!(plan.name, "flow");
}
