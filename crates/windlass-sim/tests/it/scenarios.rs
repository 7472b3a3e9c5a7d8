use windlass_sim::scenario::Scenario;
use windlass_sim::virtual_run;

#[test]
fn every_scenario_runs_on_the_bare_engine() {
    let scenarios = Scenario::all();
    assert!(scenarios.len() >= 6, "the scenarios were found");
    for scenario in scenarios {
        scenario.check(virtual_run::run(&scenario));
    }
}

#[test]
fn exceptions_are_counted() {
    let scenarios = Scenario::all();
    let exceptions: usize = scenarios.iter().map(|scenario| scenario.not_on.len()).sum();
    assert_eq!(exceptions, 2, "a driver that cannot run a scenario is an exception to argue for");
}

#[test]
fn a_mistake_in_a_scenario_is_named_with_its_line() {
    let error = Scenario::parse("x", "slots 1\nwork a after b\n").unwrap_err();
    assert_eq!(error.to_string(), "x:2: no work before this line is called \"b\"");
    let error = Scenario::parse("x", "work a takes 5").unwrap_err();
    assert_eq!(error.to_string(), "x:1: \"5\" is not a duration");
}
