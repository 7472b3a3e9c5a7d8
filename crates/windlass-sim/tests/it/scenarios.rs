use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use windlass_core::{Timestamp, WorkState};
use windlass_sim::scenario::{Entry, Scenario};
use windlass_sim::virtual_run;

#[test]
fn every_scenario_runs_on_the_bare_engine() {
    let scenarios = Scenario::all();
    assert!(scenarios.len() >= 219, "the scenarios were found");
    let holds = |scenario: &Scenario| {
        catch_unwind(AssertUnwindSafe(|| scenario.check(virtual_run::run(scenario)))).is_ok()
    };
    let failed = scenarios.iter().filter(|scenario| !holds(scenario));
    let failed: String = failed.map(|scenario| format!("failed: {}\n", scenario.name)).collect();
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn a_scenario_begins_with_its_rule() {
    for Scenario { name, rule, .. } in Scenario::all() {
        assert!(rule.starts_with(char::is_uppercase) && rule.ends_with('.'), "{name}: {rule}");
    }
}

/// Each scenario that a driver cannot run needs a reason, and their number must not grow unnoticed.
#[test]
fn exceptions_are_counted() {
    let scenarios = Scenario::all();
    let exceptions = scenarios.iter().flat_map(|scenario| &scenario.not_on);
    let mut counts = BTreeMap::new();
    for (driver, reason) in exceptions {
        assert!(!reason.is_empty(), "there is a reason why it is not on {driver}");
        *counts.entry(driver.as_str()).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([("command", 108), ("tokio", 31)]));
}

#[test]
fn a_mistake_in_a_scenario_is_named_with_its_line() {
    let error = Scenario::parse("x", "slots 1\nwork a after b\n").unwrap_err();
    assert_eq!(error.to_string(), "x:2: no work before this line is called \"b\"");
    let error = Scenario::parse("x", "work a takes 5").unwrap_err();
    assert_eq!(error.to_string(), "x:1: \"5\" is not a duration");
}

#[test]
fn a_trace_in_real_time_keeps_the_order_of_each_work_and_of_what_is_apart() {
    let expected = "0ns a Running 1\n1.5ms b Running 1\n5ms a Pending 1\n30ms a Pending 1\n";
    let text = format!("work a\nwork b\n----\n{expected}");
    let scenario = Scenario::parse("x", &text).expect("it can be read");
    let entry = |(work, state)| Entry { at: Timestamp::ZERO, work, state, attempt: 1 };
    let (running, pending) = (WorkState::Running, WorkState::Pending);
    let fits = |trace: &[(usize, WorkState)]| {
        let trace: Vec<_> = trace.iter().copied().map(entry).collect();
        scenario.fits_in_real_time(&trace)
    };
    let [a, b, again] = [(0, running), (1, running), (0, pending)];
    assert_eq!(fits(&[a, b, again, again]), Ok(()));
    assert_eq!(fits(&[b, a, again, again]), Ok(()), "they are too close");
    assert_eq!(fits(&[a, again, b, again]), Ok(()), "the first of two may come before");
    let problem = |trace: &[(usize, WorkState)]| fits(trace).unwrap_err();
    assert!(problem(&[a, again, again, b]).starts_with("\"1.5ms b Running 1\" is not before"));
    assert!(problem(&[again, a, b, again]).starts_with("\"0ns a Running 1\" is not before"));
    assert!(problem(&[a, b, again]).starts_with("3 changes, not 4"));
    assert!(problem(&[a, b, b, again]).starts_with("\"30ms a Pending 1\" is missing"));
}
