//! The plans of whole files.

use std::time::Duration;

use windlass_core::{Amount, EdgeKind};
use windlass_workflow::{
    Backoff, Command, GuardAction, Jitter, OnFailure, Plan, ResourceKind, Shell, Variable, parse,
};

const NIGHTLY: &str = include_str!("../../../../docs/nightly.toml");

fn plan(text: &str) -> Plan {
    let workflow = parse("flow.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    workflow.bind([]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.name.as_str()).collect()
}

fn step<'p>(plan: &'p Plan, name: &str) -> &'p windlass_workflow::Step {
    plan.steps.iter().find(|step| step.name == name).expect(name)
}

#[test]
fn the_guides_file_has_the_plan_that_its_comments_describe() {
    let plan = plan(NIGHTLY);
    assert_eq!((plan.name.as_str(), plan.concurrency), ("nightly", Some(8)));
    assert_eq!(plan.deadline, Some(Duration::from_secs(7200)));
    assert_eq!(plan.on_failure, OnFailure::Finish);
    let tests = ["test[linux,unit]", "test[linux,e2e]", "test[macos,unit]"];
    assert_eq!(names(&plan)[1..4], tests, "the excluded one is left out");
    let kinds: Vec<_> = plan.resources.iter().map(|resource| &resource.kind).collect();
    let gpu = ResourceKind::Items {
        items: vec!["0".to_owned(), "1".to_owned()],
        env: Some("CUDA_VISIBLE_DEVICES".to_owned()),
    };
    assert_eq!(*kinds[0], gpu);
    assert_eq!(*kinds[1], ResourceKind::Count(Amount::try_from(16_u64 << 30).expect("it fits")));
    assert!(matches!(kinds[2], ResourceKind::Rate { rate, burst: 20 } if rate.count == 100));
    let names: Vec<_> = plan.limits().iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["gpu", "memory"], "a rate is not held");
    assert_eq!((plan.semaphores[0].name.as_str(), plan.semaphores[0].capacity), ("build-slots", 4));
    assert!(plan.hooks.failure.is_some() && plan.hooks.escalate.is_some());
}

#[test]
fn the_steps_of_the_guide_have_every_key() {
    let plan = plan(NIGHTLY);
    let retry = &step(&plan, "fetch").ending.retry;
    assert_eq!((retry.count, retry.backoff, retry.jitter), (5, Backoff::Exponential, Jitter::Full));
    assert_eq!(retry.on_exit.as_deref(), Some(&[6, 7, 28][..]));
    let report = step(&plan, "report");
    assert_eq!(report.after.len(), 3);
    assert!(report.after.iter().all(|edge| edge.kind == EdgeKind::Done));
    let deploy = step(&plan, "deploy");
    let lock = deploy.needs.locks[0].fill(|variable| plan.value(deploy, variable));
    assert_eq!(lock.as_deref(), Ok("deploy-staging"));
    let slots = deploy.needs.semaphores[0];
    assert_eq!((slots.semaphore, slots.weight), (0, 2));
    assert_eq!((&deploy.gate.guards[..], &deploy.ending.ensures[..]), (&[0][..], &[1][..]));
    assert_eq!(plan.guards[0].on_timeout, GuardAction::Escalate);
    assert_eq!(plan.guards[0].wake_on[0].to_string(), "approval:{env}:given");
    assert!(
        deploy.gate.when.is_some()
            && deploy.ending.finally.is_some()
            && deploy.ending.grace.is_some()
    );
    let output = Variable::Output { step: "report".to_owned(), key: "url".to_owned() };
    assert!(deploy.execution.run.variables().contains(&&output));
}

#[test]
fn the_limit_of_a_log_is_the_steps_the_defaults_or_the_workflows() {
    let limits = |text: &str| {
        let plan = plan(&format!(
            "{text}\n[step.a]\nrun = 'true'\n[step.b]\nrun = 'true'\nlog_limit = '1M'"
        ));
        (plan.log_limit, plan.steps[0].execution.log_limit, plan.steps[1].execution.log_limit)
    };
    assert_eq!(limits(""), (1 << 30, 1 << 30, 1 << 20));
    assert_eq!(limits("log_limit = '2G'"), (2 << 30, 2 << 30, 1 << 20));
    let both = "log_limit = '2G'\n[defaults]\nlog_limit = 5000";
    assert_eq!(limits(both), (2 << 30, 5000, 1 << 20));
}

#[test]
fn guards_of_other_pipelines_work_once_their_names_are_parameters() {
    let plan = plan(include_str!("../../../../docs/guards.toml"));
    let texts: Vec<_> = plan.guards.iter().map(|guard| guard.condition.text.text()).collect();
    assert_eq!(texts[0], "test -f plans/\"${WINDLASS_V_name}\".md");
    assert!(texts[3].starts_with("test \"${WINDLASS_V_after}\" = none || "), "{}", texts[3]);
}

#[test]
fn steps_keep_the_order_of_the_file_except_after_their_dependencies() {
    let text =
        "[step.z]\nrun = 'true'\nafter = ['a']\n[step.y]\nrun = 'true'\n[step.a]\nrun = 'true'";
    let workflow = parse("dir/flow.toml", text).expect("nothing is wrong");
    assert_eq!(names(workflow.plan()), ["y", "a", "z"]);
    assert_eq!(workflow.plan().steps[2].after[0].step, 1);
    assert_eq!(workflow.plan().name, "flow");
}

#[test]
fn a_step_has_the_defaults_unless_it_sets_its_own() {
    let plan = plan(
        r#"
        [env]
        A = "env"
        B = "env"
        C = 1
        [resource]
        cpu = 4
        mem = 8
        [defaults]
        env = { B = "defaults", D = "defaults" }
        shell = "bash"
        timeout = "1m"
        use = { cpu = 1, mem = 2 }
        retry = { count = 2 }
        priority = 3
        dir = "sub"
        [step.plain]
        run = "true"
        [step.own]
        run = "true"
        env = { D = "step" }
        shell = "sh"
        timeout = "2m"
        use = { cpu = 2 }
        retry = { count = 0 }
        priority = -1
        dir = "other"
        "#,
    );
    let env = |name: &str| -> Vec<String> {
        step(&plan, name)
            .execution
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    };
    assert_eq!(env("plain"), ["A=env", "B=defaults", "C=1", "D=defaults"]);
    assert_eq!(env("own"), ["A=env", "B=defaults", "C=1", "D=step"]);
    let shown = |name: &str| {
        let step = step(&plan, name);
        let Command::Script(script) = &step.execution.run else { panic!("it is shell text") };
        let dir = step.execution.dir.as_ref().map(ToString::to_string).unwrap_or_default();
        let timeout = step.ending.timeout.map(|timeout| timeout.as_secs());
        (
            script.shell.clone(),
            timeout,
            step.needs.resources.to_string(),
            step.ending.retry.count,
            step.priority,
            dir,
        )
    };
    let (bash, sh) = (Shell::named("bash"), Shell::named("sh"));
    assert_eq!(shown("plain"), (bash, Some(60), "cpu=1 mem=2".into(), 2, 3, "sub".into()));
    assert_eq!(shown("own"), (sh, Some(120), "cpu=2 mem=2".into(), 0, -1, "other".into()));
}

#[test]
fn each_takes_out_what_is_excluded_and_adds_what_is_included() {
    let plan = plan(
        r#"
        [step.t]
        run = "echo {a} {b}"
        each = { a = [1, 2], b = ["x", true], exclude = [{ a = 2 }], include = [{ b = "z", a = 9 }] }
        [step.only]
        run = "echo {c}"
        each = { include = [{ c = "p" }, { c = "q" }] }
        "#,
    );
    assert_eq!(names(&plan), ["t[1,x]", "t[1,true]", "t[9,z]", "only[p]", "only[q]"]);
    assert_eq!(plan.steps[2].each, [("a".to_owned(), "9".to_owned()), ("b".into(), "z".into())]);
}

#[test]
fn a_step_can_depend_on_one_instance_of_an_each_or_on_its_counterpart() {
    let plan = plan(
        r#"
        [step.build]
        run = "make {os}"
        each = { os = ["linux", "macos"] }
        [step.pack]
        run = "pack {os}"
        each = { os = ["linux", "macos"] }
        after = ["build[{os}]"]
        [step.ship]
        run = "ship"
        after = "pack[linux]"
        "#,
    );
    let after = |name: &str| -> Vec<&str> {
        step(&plan, name).after.iter().map(|edge| plan.steps[edge.step].name.as_str()).collect()
    };
    assert_eq!(after("pack[linux]"), ["build[linux]"]);
    assert_eq!(after("pack[macos]"), ["build[macos]"]);
    assert_eq!(after("ship"), ["pack[linux]"]);
}

#[test]
fn a_list_needs_no_shell_and_takes_values_as_they_are() {
    let plan = plan("[params]\nv = '$(x)'\n[step.a]\nrun = ['echo', 'is {v}', '{w}']");
    let Command::List(words) = &plan.steps[0].execution.run else { panic!("it is a list") };
    let filled = words.iter().map(|word| word.fill(|v| plan.value(&plan.steps[0], v)).unwrap());
    assert_eq!(filled.collect::<Vec<_>>(), ["echo", "is $(x)", "{w}"]);
}

#[test]
fn a_shell_that_is_not_posix_runs_run_and_sh_runs_the_rest() {
    let plan = plan(
        "[step.a]\nshell = ['python3', '-c']\nrun = 'print(1)'\nwhen = 'true'\nfinally = 'true'",
    );
    let step = &plan.steps[0];
    let Command::Script(run) = &step.execution.run else { panic!("it is shell text") };
    assert_eq!(run.shell.program, "python3");
    assert_eq!(step.gate.when.as_ref().map(|when| when.shell.clone()), Some(Shell::default()));
    assert!(
        matches!(&step.ending.finally, Some(Command::Script(f)) if f.shell == Shell::default())
    );
}

#[test]
fn text_for_a_shell_that_is_not_posix_stays_as_it_is_but_for_doubled_braces() {
    let run = r#"print(f"{{v}}", "${v}", r"\{v\}", {"a": {}}, '{{.Name}}')"#;
    let text = format!(
        "[params]\nv = 1\n[step.a]\nshell = ['python3', '-c']\nrun = \"\"\"{}\"\"\"",
        run.replace('\\', "\\\\"),
    );
    let Command::Script(script) = &plan(&text).steps[0].execution.run else {
        panic!("it is shell text")
    };
    assert_eq!(script.text.text(), run.replace("{{v}}", "{v}"));
}

#[test]
fn a_number_with_a_decimal_point_keeps_it() {
    let plan = plan("[params]\nv = 1.0\n[step.t]\nrun = 'true'\neach = { r = [2.0, 0.5, 3] }");
    assert_eq!(names(&plan), ["t[2.0]", "t[0.5]", "t[3]"]);
    assert_eq!(plan.params["v"], "1.0", "as with -p v=1.0");
}
