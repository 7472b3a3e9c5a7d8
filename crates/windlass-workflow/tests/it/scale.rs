//! Ten times the steps take about ten times as long.
//!
//! Measures the CPU time of this thread, so that other load on the machine does not count.

#![cfg(unix)]

use std::fmt::Write;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use windlass_workflow::parse;

/// A chain of steps.
fn chain(steps: usize) -> String {
    let mut text = "[step.s0]\nrun = 'true'\n".to_owned();
    for step in 1..steps {
        writeln!(text, "[step.s{step}]\nafter = 's{}'\nrun = 'true'", step - 1)
            .expect("a string takes everything");
    }
    text
}

/// A chain and a fan, with locks, values and indirect references.
fn workflow(steps: usize) -> String {
    let mut text = "[params]\nenv = 'prod'\n[resource]\nmemory = '4G'\n".to_owned();
    for step in 0..steps {
        write!(text, "[step.s{step}]\nrun = 'echo {{env}} {{step}}'\nuse = {{ memory = '1G' }}\n")
            .expect("a string takes everything");
        match step {
            0 => {}
            step if step % 2 == 0 => {
                let before = step - 2;
                writeln!(text, "after = ['s{before}']\nenv = {{ BEFORE = '{{s{before}.key}}' }}")
                    .expect("a string takes everything");
            }
            _ => text.push_str("after = { s0 = 'done' }\nlock = 'lock-{env}'\n"),
        }
    }
    text
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("below a second"))
}

fn time_of(text: &str) -> Duration {
    let began = processor_time();
    let workflow = parse("large.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(workflow.warnings().is_empty());
    processor_time() - began
}

fn best_of(runs: usize, text: &str) -> Duration {
    (0..runs).map(|_| time_of(text)).min().expect("it runs at least once")
}

fn check_growth(steps: usize, text: fn(usize) -> String) {
    let small = best_of(2, &text(steps));
    let large = best_of(1, &text(10 * steps));
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    // Quadratic time would be a ratio of a hundred.
    assert!(ratio < 30.0, "{small:?} for {steps} steps, {large:?} for ten times as many");
}

#[test]
fn a_hundred_thousand_steps_take_about_ten_times_as_long_as_ten_thousand() {
    check_growth(10_000, chain);
}

#[test]
fn every_kind_of_reference_grows_with_the_steps() {
    check_growth(800, workflow);
}

#[test]
fn a_reference_far_back_is_found_upstream() {
    let text = workflow(300) + "[step.last]\nafter = ['s298']\nrun = 'echo {s0.key} {s100.key}'\n";
    parse("far.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let text = workflow(300) + "[step.last]\nafter = ['s298']\nrun = 'echo {s0.key} {s101.key}'\n";
    let errors = parse("far.toml", &text).expect_err("s101 is not upstream").errors;
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("does not come after `s101`"), "{}", errors[0].message);
}

#[test]
fn a_wide_each_and_a_wide_merge_stay_cheap() {
    let values: Vec<_> = (0..2000).map(|value| value.to_string()).collect();
    let text = format!(
        "[step.many]\neach = {{ n = [{}] }}\nrun = 'echo {{n}}'\n\
         [step.all]\nafter = ['many']\nrun = 'true'\n",
        values.join(", ")
    );
    let workflow = parse("wide.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(workflow.plan().steps.len(), 2001);
    assert_eq!(workflow.plan().steps[2000].after.len(), 2000);
}

#[test]
fn too_many_edges_are_an_error_before_they_fill_the_memory() {
    let values: Vec<_> = (0..10_000).map(|value| value.to_string()).collect();
    let each = format!("each = {{ n = [{}] }}", values.join(", "));
    let text = format!(
        "[step.first]\nafter = ['second']\nrun = 'true'\n{each}\n\
         [step.second]\nrun = 'true'\n{each}\n"
    );
    let errors = parse("edges.toml", &text).expect_err("10^8 edges are too many").errors;
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "this workflow has more than 5000000 edges between steps");
}
