//! How submitted runs share the slots of the workers: in turn, and urgent ones first.

use super::*;

/// A run of steps that each note who has started.
const NOTES: &str = "[params]\nwho = ''\n\
    [step.s]\neach = { n = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10'], m = ['1', '2', '3'] }\n\
    run = 'echo {who} >> starts'\n";

impl Service {
    fn submit_as(&self, who: &str, more: &[&str]) -> String {
        let who = format!("who={who}");
        self.submit(&[&["-p", &who], more].concat())
    }

    fn starts(&self) -> Vec<String> {
        self.bench.read("starts").lines().map(str::to_owned).collect()
    }
}

#[test]
fn equal_runs_start_their_steps_in_turn() {
    let mut service = Service::new(NOTES);
    let runs = ["a", "b", "c"].map(|who| service.submit_as(who, &[]));
    service.start(&["serve", "--no-worker"]);
    service.start(&["worker", "--name", "one", "--slots", "1"]);
    runs.iter().for_each(|run| service.wait(run, 0));
    let starts = service.starts();
    assert_eq!(starts.len(), 90);
    for (place, three) in starts.chunks(3).enumerate() {
        let mut three = three.to_vec();
        three.sort();
        assert_eq!(three, ["a", "b", "c"], "from start {}: {starts:?}", 3 * place);
    }
}

#[test]
fn a_later_run_does_not_wait_for_an_earlier_one_with_many_steps() {
    let large: String =
        (0..400).map(|n| format!("[step.s{n}]\nrun = 'echo large >> starts'\n")).collect();
    let service = Service::with(&large, "1");
    let large = service.submit(&[]);
    eventually("it is under way", || service.bench.path("starts").exists());
    service.bench.write("flow.toml", NOTES);
    let small = service.submit_as("small", &[]);
    service.wait(&small, 0);
    let starts = service.starts();
    let from = starts.iter().position(|who| who == "small").expect("it has run");
    let to = starts.iter().rposition(|who| who == "small").expect("it has run");
    assert!(to - from < 60, "every second start is one of it: {from} to {to}");
    assert!(to < 300, "the large run is not over: {to}");
    service.bench.ends_with(0, &["cancel", &large]);
    service.wait(&large, 3);
}

#[test]
fn an_urgent_run_starts_its_steps_first() {
    let first = "[step.s]\nrun = 'until test -e go; do sleep 0.01; done'\n";
    let service = Service::with(first, "1");
    let first = service.submit(&[]);
    eventually("it runs", || service.shown(&["ps"]).contains("running"));
    service.bench.write("flow.toml", &format!("priority = -3\n{NOTES}"));
    let low = service.submit_as("low", &[]);
    let urgent = service.submit_as("urgent", &["--priority", "7"]);
    service.bench.write("flow.toml", NOTES);
    let usual = service.submit_as("usual", &[]);
    eventually("all are led", || service.said().contains(&format!("leads run {usual}")));
    service.bench.write("go", "");
    [&first, &low, &urgent, &usual].into_iter().for_each(|run| service.wait(run, 0));
    let mut starts = service.starts();
    assert_eq!(starts.len(), 90);
    starts.dedup();
    assert_eq!(starts, ["urgent", "usual", "low"]);
}
