//! Steps go to workers that have what they ask for, and a run says why none has.

use serde_json::{Value, json};

use super::*;
use crate::looking::json::check_line;
use crate::looking::shells::offered;

/// Starts a scheduler, and a worker for each of these lists of arguments.
fn service(flow: &str, workers: &[&[&str]]) -> Service {
    let mut service = Service::new(flow);
    service.start(&["serve", "--no-worker"]);
    for worker in workers {
        service.start(&[&["worker"], *worker].concat());
    }
    let all_are_up = |service: &Service| {
        service.shown(&["workers"]).lines().filter(|line| line.contains("up")).count()
            == workers.len()
    };
    eventually("the workers are there", || all_are_up(&service));
    service
}

const GPU: &[&str] =
    &["--name", "gpu-1", "--slots", "4", "--items", "gpu=7,9", "--label", "zone=a"];
const PLAIN: &[&str] = &["--name", "plain", "--slots", "2", "--label", "zone=b"];

#[test]
fn what_a_worker_has_is_listed() {
    let more = [GPU, &["--resource", "ram=64G"]].concat();
    let service = service("", &[&more, PLAIN]);
    let listed = service.shown(&["workers"]);
    let row = |name| listed.lines().find(|line| line.starts_with(name)).expect("it is listed");
    assert!(row("gpu-1").ends_with("  gpu=7,9 ram=64G  zone=a"), "{listed}");
    assert!(row("plain").ends_with("  zone=b"), "{listed}");
    let json = service.shown(&["workers", "--json"]);
    json.lines().for_each(check_line);
    let resources = r#""gpu":{"amount":2,"items":["7","9"]},"ram":{"amount":68719476736}"#;
    for part in
        [&format!(r#""resources":{{{resources}}},"labels":{{"zone":"a"}}"#), r#""resources":{}"#]
    {
        assert!(json.contains(part), "{json}");
    }
}

#[test]
fn a_shell_is_offered_workers_and_labels() {
    let service = service("", &[GPU, PLAIN]);
    let offered = |words: &[&str]| offered(&service.bench, words);
    for verb in ["drain", "cordon", "uncordon"] {
        assert_eq!(offered(&["workers", verb, ""]), ["gpu-1", "plain"]);
    }
    assert_eq!(offered(&["workers", "drain", "gpu-1", "p"]), ["plain"]);
    assert_eq!(offered(&["worker", "--name", "g"]), ["gpu-1"]);
    for verb in ["worker", "serve"] {
        assert_eq!(offered(&[verb, "--label", ""]), ["zone=a", "zone=b"]);
        assert_eq!(offered(&[verb, "--label", "zone=b"]), ["zone=b"]);
    }
}

#[test]
fn a_step_goes_to_a_worker_with_its_labels_and_resources_and_gets_its_items() {
    let flow = "[step.a]\nuse = { \"worker.gpu\" = 1 }\nrun = 'echo $WINDLASS_WORKER_GPU > a; \
                until test -e b; do sleep 0.02; done'\n\
                [step.b]\nuse = { \"worker.gpu\" = 1 }\nrun = 'until test -s a; do sleep 0.02; done; \
                echo $WINDLASS_WORKER_GPU > b'\n\
                [step.both]\nafter = ['a', 'b']\nuse = { \"worker.gpu\" = 2 }\n\
                run = 'echo $WINDLASS_WORKER_GPU > both'\n\
                [step.c]\non = { zone = 'b' }\nrun = 'echo ${WINDLASS_WORKER_GPU-none} > c'\n";
    let service = service(flow, &[GPU, PLAIN]);
    let run = service.submit(&[]);
    service.wait(&run, 0);
    let mut items = ["a", "b"].map(|file| service.bench.read(file));
    items.sort();
    assert_eq!(items, ["7\n", "9\n"]);
    assert_eq!(service.bench.read("both"), "7,9\n");
    assert_eq!(service.bench.read("c"), "none\n");
}

#[test]
fn a_step_goes_where_the_step_was_that_it_goes_with_also_after_the_scheduler_was_killed() {
    let flow = "[step.a]\non = 'gpu-1'\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n\
                [step.b]\nafter = ['a']\nwith = 'a'\nrun = 'touch b; until test -e on; do sleep 0.02; done'\n\
                [step.c]\nafter = ['b']\nwith = 'b'\nrun = 'true'\n";
    let mut service = service(flow, &[GPU, PLAIN]);
    let run = service.submit(&[]);
    service.bench.await_file("began");
    service.kill(0);
    service.bench.write("go", "");
    service.start(&["serve", "--no-worker"]);
    service.bench.await_file("b");
    signal(&service.processes[1], Signal::TERM);
    eventually("draining", || service.shown(&["workers"]).contains("draining"));
    service.bench.write("on", "");
    let why = || service.shown(&["why", &format!("{run}/c")]);
    eventually("it waits for that worker", || {
        why().contains("no worker that has executed b has room: ")
    });
    assert!(why().contains("plain is not gpu-1"), "{}", why());
    service.start(&[&["worker"], GPU].concat());
    service.wait(&run, 0);
}

#[test]
fn why_says_what_each_kind_of_worker_lacks() {
    let flow = "[step.a]\nuse = { \"worker.gpu\" = 2 }\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n\
                [step.b]\nuse = { \"worker.gpu\" = 1 }\nrun = 'true'\npriority = -1\n";
    let service = service(flow, &[GPU, PLAIN]);
    let run = service.submit(&[]);
    service.bench.await_file("began");
    let expected = "no worker has room: gpu-1 has 0 of gpu free (the step takes 1); \
                    plain has no gpu (the step takes 1)";
    let why = || service.shown(&["why", &format!("{run}/b")]);
    eventually("it waits for a GPU", || why().contains(expected));
    let json = service.shown(&["why", "--json", &format!("{run}/b")]);
    json.lines().for_each(check_line);
    let json: Value = serde_json::from_str(&json).expect("an object");
    let reasons = json["reasons"].as_array().expect("a list");
    let worker = reasons.iter().find(|reason| reason["kind"] == "worker").expect("it is there");
    let expected = json!([
        {"workers": ["gpu-1"], "lacks":
            [{"kind": "free", "name": "gpu", "wanted": "1", "free": "0", "reserved": "0"}]},
        {"workers": ["plain"], "lacks":
            [{"kind": "total", "name": "gpu", "wanted": "1", "total": "0"}]},
    ]);
    assert_eq!(worker["kinds"], expected);
    service.bench.write("go", "");
    service.wait(&run, 0);
}

#[test]
fn a_step_that_no_worker_could_ever_take_is_refused_unless_it_may_wait_for_one() {
    let flow = "[step.a]\nuse = { \"worker.gpu\" = 3 }\non = { zone = 'a' }\nrun = 'true'\n";
    let mut service = service(flow, &[GPU, PLAIN]);
    let refused = stderr(&service.bench.ends_with(2, &["submit", "flow.toml"]));
    let expected = "no worker could ever execute step \"a\": gpu-1 has 2 of gpu (the step takes 3); \
                    plain has no label zone=a and has no gpu (the step takes 3); \
                    to let it wait for another worker: windlass submit --wait-for-workers";
    assert!(refused.contains(expected), "{refused}");
    let run = service.submit(&["--wait-for-workers"]);
    let why = || service.shown(&["why", &run]);
    eventually("it waits", || why().contains("gpu-1 has 2 of gpu (the step takes 3)"));
    let large = ["--name", "large", "--resource", "gpu=4", "--label", "zone=a"];
    service.start(&[&["worker"], &large[..]].concat());
    service.wait(&run, 0);
}

#[test]
fn a_run_in_the_foreground_ignores_what_its_steps_ask_of_workers_and_says_so() {
    let flow = "[step.a]\nuse = { \"worker.gpu\" = 3 }\nrun = 'true'\n\
                [step.b]\nafter = ['a']\nwith = 'a'\nrun = 'true'\n[step.c]\nrun = 'true'\n";
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let said = stderr(&bench.ends_with(0, &["run", "flow.toml"]));
    let expected = "warning: a run in the foreground has no workers, so `on`, `with` and `use` of `worker.…` are \
                    ignored: a, b; to heed them: windlass submit\n";
    assert!(said.contains(expected), "{said}");
    bench.write("flow.toml", "[step.c]\nrun = 'true'\n");
    let said = stderr(&bench.ends_with(0, &["run", "flow.toml"]));
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn what_a_worker_has_is_read_with_a_clear_error() {
    let bench = Bench::new();
    for (argument, expected) in [
        ("--resource=gpu", "write it as NAME=AMOUNT, such as gpu=4"),
        ("--resource=slots=3", "how many steps the worker executes at once is --slots"),
        ("--resource=g u=3", "a name has letters, digits, dots, dashes and underscores"),
        ("--items=gpu=0,,1", "an item is empty"),
        ("--items=gpu=0,1,0", "the item 0 is there twice"),
        ("--label=zone", "write it as KEY=VALUE, such as zone=a"),
    ] {
        for verb in ["worker", "serve"] {
            let refused = stderr(&bench.ends_with(2, &[verb, argument]));
            assert!(refused.contains(expected), "{argument}: {refused}");
        }
    }
}
