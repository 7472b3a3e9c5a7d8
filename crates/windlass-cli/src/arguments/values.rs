//! The values of options and arguments, and what is wrong with those that cannot be read.

use std::ffi::OsStr;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use windlass_workflow::DurationError;

use super::{looking, variable_is_empty};
use crate::display::OutputMode;

/// How many steps may run at once; none if the variable is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jobs(pub(crate) Option<u32>);

/// A guard to decide about.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// That of a `windlass guard`.
    Guard(String),
    /// That of a step of a run.
    Step { run: String, step: String },
}

/// Reads a mode of output; an empty variable counts as unset.
#[derive(Clone)]
pub(super) struct OutputModeParser;

impl TypedValueParser for OutputModeParser {
    type Value = OutputMode;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OutputMode, clap::Error> {
        match value.is_empty() {
            true => Ok(OutputMode::Auto),
            false => EnumValueParser::new().parse_ref(command, argument, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let modes = OutputMode::value_variants().iter();
        Some(Box::new(modes.filter_map(ValueEnum::to_possible_value)))
    }
}

pub(super) fn param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "write a whole number".to_owned())
}

/// Reads how many steps may run at once.
pub(super) fn jobs(text: &str) -> Result<Jobs, String> {
    match text.is_empty() && variable_is_empty("WINDLASS_JOBS") {
        true => Ok(Jobs(None)),
        false => slots(text).map(|jobs| Jobs(Some(jobs))),
    }
}

/// Reads a number of slots.
pub(super) fn slots(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(slots @ 1..) => Ok(slots),
        _ => Err(format!("write a whole number from 1 to {}", u32::MAX)),
    }
}

/// Reads the priority of a run.
pub(super) fn priority(text: &str) -> Result<i16, String> {
    let error = || format!("write a whole number from {} to {}", i16::MIN, i16::MAX);
    text.parse().map_err(|_| error())
}

pub(super) fn run_to_resume(text: &str) -> Result<String, String> {
    let tip =
        |run: &str, _: &str| format!("only a whole run can be resumed: windlass resume {run}");
    looking::whole_run(text, tip)
}

pub(super) fn run_to_attach(text: &str) -> Result<String, String> {
    let tip = |run: &str, step: &str| {
        format!("only a whole run can be shown; the output of a step: windlass log -f {run}/{step}")
    };
    looking::whole_run(text, tip)
}

pub(super) fn run_to_retry(text: &str) -> Result<String, String> {
    let tip = |run: &str, step: &str| {
        format!("name the step with --step: windlass retry {run} --step {step}")
    };
    looking::whole_run(text, tip)
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    windlass_workflow::parse_duration(text).map_err(|error| match error {
        DurationError::Malformed { .. } => {
            format!("{error}; write whole numbers with ms, s, m, h or d, such as 30s or 1h 30m")
        }
        _ => error.to_string(),
    })
}

pub(super) fn target(text: &str) -> Result<Target, String> {
    match text.split_once('/') {
        Some(("guard", name)) if !name.is_empty() => Ok(Target::Guard(name.to_owned())),
        Some((run, step)) if !run.is_empty() && !step.is_empty() => {
            Ok(Target::Step { run: run.to_owned(), step: step.to_owned() })
        }
        _ => Err("write RUN/STEP for a step, or guard/NAME for a `windlass guard`".to_owned()),
    }
}
