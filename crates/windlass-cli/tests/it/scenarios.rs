use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use windlass_server::WorkState;
use windlass_sim::scenario::{End, Entry, Scenario, WorkPlan};

use crate::bench::{Bench, stderr, stdout};

/// A scenario's millisecond takes this many real ones, so that scheduling noise cannot change the
/// order of what a scenario keeps apart.
const STRETCH: u32 = 20;
const RETRY_CODE: i32 = 75;

#[test]
fn every_scenario_runs_on_the_command() {
    let scenarios = Scenario::all();
    let runnable = scenarios.iter().filter(|scenario| !scenario.not_on.contains_key("command"));
    std::thread::scope(|scope| {
        for scenario in runnable {
            scope.spawn(|| scenario.check_in_real_time(&run(scenario)));
        }
    });
}

fn run(scenario: &Scenario) -> Vec<Entry> {
    let bench = Bench::new();
    bench.write("flow.toml", &workflow(scenario));
    let output = bench.call(&["run", "flow.toml", "--json"]);
    assert!(output.stderr.len() < 1000, "{}", stderr(&output));
    let lines = stdout(&output);
    let events = lines.lines().map(|line| serde_json::from_str(line).expect("one object per line"));
    let steps = events.filter(|event: &Value| event["event"] == "step");
    steps.map(|event| entry(scenario, &event)).collect()
}

fn entry(scenario: &Scenario, event: &Value) -> Entry {
    let text = |key: &str| event[key].as_str().expect("a text");
    let state = |state: &WorkState| state.to_string().eq_ignore_ascii_case(text("state"));
    Entry {
        at: windlass_sim::scenario::Timestamp::from_millis(event["at"].as_u64().expect("a time")),
        work: scenario.place(text("step")).expect("a step of the scenario"),
        state: WorkState::ALL.into_iter().find(state).expect("a state"),
        attempt: event["attempt"].as_u64().expect("a number") as u32,
    }
}

fn workflow(scenario: &Scenario) -> String {
    let mut text = format!("concurrency = {}\n[resource]\n", scenario.slots);
    for (name, amount) in scenario.limits.iter() {
        writeln!(text, "{name} = {amount}").expect("a string takes everything");
    }
    for work in &scenario.works {
        text.push_str(&step(scenario, work));
    }
    text
}

fn step(scenario: &Scenario, work: &WorkPlan) -> String {
    let after = work.after.iter().map(|&(place, kind)| {
        format!("{:?} = {:?}", scenario.works[place].name, format!("{kind:?}").to_lowercase())
    });
    let after: Vec<_> = after.collect();
    let uses: Vec<_> =
        work.needs.iter().map(|(name, amount)| format!("{name} = {amount}")).collect();
    let retries = (1..).take(work.ends.len()).map(|attempt| work.end(attempt));
    let delay = retries.filter_map(|end| match end {
        End::Retry(delay) => Some(delay * STRETCH),
        _ => None,
    });
    let delay = delay.max().unwrap_or(Duration::ZERO).as_millis();
    format!(
        "[step.{}]\nrun = '{}'\nafter = {{ {} }}\nuse = {{ {} }}\npriority = {}\n\
         retry = {{ count = {}, delay = \"{delay}ms\", on_exit = [{RETRY_CODE}] }}\n",
        work.name,
        command(work),
        after.join(", "),
        uses.join(", "),
        work.priority,
        work.retries,
    )
}

/// Sleeps as long as the work takes, then exits as its attempt ends.
fn command(work: &WorkPlan) -> String {
    let mut command =
        format!("sleep {}; case $WINDLASS_ATTEMPT in ", (work.takes * STRETCH).as_secs_f64());
    let last = work.ends.len();
    for attempt in 1..=last {
        let pattern = if attempt == last { "*".to_owned() } else { attempt.to_string() };
        let code = match work.end(attempt as u32) {
            End::Ok => 0,
            End::Fail => 1,
            End::Retry(_) => RETRY_CODE,
            End::Lost | End::Stopped => panic!("{}: a process cannot end like that", work.name),
        };
        write!(command, "{pattern}) exit {code};; ").expect("a string takes everything");
    }
    command + "esac"
}
