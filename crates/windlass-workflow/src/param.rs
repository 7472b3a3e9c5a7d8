//! Parameters: what a workflow may be told when it is run.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;
use windlass_core::{nearest, some_of};

/// How many parameters are told to somebody who gave a value to one that there is not.
const MAX_LISTED: usize = 10;

/// A parameter of a workflow.
///
/// ```
/// let text = "[params]\nenv = { choices = ['staging', 'prod'] }\n[step.a]\nrun = 'echo {env}'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// assert_eq!(workflow.params()[0].choices, ["staging", "prod"]);
/// assert!(workflow.bind([]).is_err(), "it has no default");
/// assert!(workflow.bind([("env", "test")]).is_err(), "it is none of the choices");
/// assert_eq!(workflow.bind([("env", "prod")])?.params["env"], "prod");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Param {
    /// What it is called.
    pub name: String,
    /// What kind of value it takes.
    pub kind: ParamType,
    /// The only values it takes; empty if it takes any of its kind.
    pub choices: Vec<String>,
    /// The value when none is given; one must be given if there is none.
    pub default: Option<String>,
    /// What it is for.
    pub description: Option<String>,
}

/// What kind of value a parameter takes.
///
/// ```
/// use windlass_workflow::ParamType;
///
/// assert_eq!(ParamType::Integer.read("007").as_deref(), Some("7"));
/// assert_eq!(ParamType::Boolean.read("yes"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ParamType {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// True or false.
    Boolean,
}

impl ParamType {
    /// The value that a text stands for, if it is of this kind.
    #[must_use]
    pub fn read(self, text: &str) -> Option<String> {
        match self {
            ParamType::String => Some(text.to_owned()),
            ParamType::Integer => text.parse::<i64>().ok().map(|number| number.to_string()),
            ParamType::Float => text
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(|_| text.to_owned()),
            ParamType::Boolean => text.parse::<bool>().ok().map(|flag| flag.to_string()),
        }
    }
}

impl fmt::Display for ParamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParamType::String => "a text",
            ParamType::Integer => "a whole number",
            ParamType::Float => "a number",
            ParamType::Boolean => "true or false",
        })
    }
}

/// Why values do not fit the parameters of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// There is no such parameter.
    #[error("the workflow has no parameter `{name}`{}", suggestion(.nearest, .known))]
    Unknown {
        /// What was given.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// The parameters that there are.
        known: Vec<String>,
    },
    /// A parameter without a default was not given.
    #[error("the parameter `{name}` must be given: -p {name}=…{}", listed(.choices))]
    Missing {
        /// Which.
        name: String,
        /// The values it takes, if they are listed.
        choices: Vec<String>,
    },
    /// A parameter was given twice.
    #[error("the parameter `{name}` is given twice")]
    Twice {
        /// Which.
        name: String,
    },
    /// The value is none of the choices.
    #[error("the parameter `{name}` is {value:?}{}", listed(.choices))]
    NotAChoice {
        /// Which.
        name: String,
        /// What was given.
        value: String,
        /// The values it takes.
        choices: Vec<String>,
    },
    /// The value has a NUL character.
    #[error("the parameter `{name}` contains a NUL character, which no command can be given")]
    Nul {
        /// Which.
        name: String,
    },
    /// The value is not of the parameter's kind.
    #[error("the parameter `{name}` is {value:?}, not {kind}")]
    WrongType {
        /// Which.
        name: String,
        /// What was given.
        value: String,
        /// What it takes.
        kind: ParamType,
    },
}

fn suggestion(nearest: &Option<String>, known: &[String]) -> String {
    match (nearest, known) {
        (Some(name), _) => format!("; did you mean `{name}`?"),
        (None, []) => "; it has none".to_owned(),
        (None, known) => {
            format!(
                "; its parameters are {}",
                some_of(known.iter().map(String::as_str), MAX_LISTED)
            )
        }
    }
}

fn listed(choices: &[String]) -> String {
    match choices {
        [] => String::new(),
        choices => format!(", and takes one of {}", choices.join(", ")),
    }
}

/// Everything that is wrong with the values given; never empty.
///
/// ```
/// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'echo {branch}'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let errors = workflow.bind([("brnach", "dev")]).unwrap_err();
/// let said = "the workflow has no parameter `brnach`; did you mean `branch`?";
/// assert_eq!(errors.to_string(), said);
/// # Ok::<(), windlass_workflow::ParseErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ParamErrors(pub Vec<ParamError>);

impl fmt::Display for ParamErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ParamError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The value of every parameter: what is given, or else the default.
pub(crate) fn bind<'a>(
    params: &[Param],
    given: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<String, String>, ParamErrors> {
    let mut errors = Vec::new();
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let bound = bind_one(params, name, value);
        match bound {
            Ok(_) if values.contains_key(name) => {
                errors.push(ParamError::Twice { name: name.to_owned() });
            }
            Ok(value) => drop(values.insert(name.to_owned(), value)),
            Err(error) => errors.push(error),
        }
    }
    for param in params {
        match (&param.default, values.contains_key(&param.name)) {
            (_, true) => {}
            (Some(default), false) => drop(values.insert(param.name.clone(), default.clone())),
            (None, false) => {
                let refused = |error: &ParamError| error.is_about(&param.name);
                if !errors.iter().any(refused) {
                    let (name, choices) = (param.name.clone(), param.choices.clone());
                    errors.push(ParamError::Missing { name, choices });
                }
            }
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(ParamErrors(errors)) }
}

impl ParamError {
    fn is_about(&self, param: &str) -> bool {
        match self {
            ParamError::Unknown { name, .. }
            | ParamError::Missing { name, .. }
            | ParamError::Twice { name }
            | ParamError::Nul { name }
            | ParamError::NotAChoice { name, .. }
            | ParamError::WrongType { name, .. } => name == param,
        }
    }
}

fn bind_one(params: &[Param], name: &str, value: &str) -> Result<String, ParamError> {
    let Some(param) = params.iter().find(|param| param.name == name) else {
        let nearest = nearest(name, params.iter().map(|param| param.name.as_str()));
        return Err(ParamError::Unknown {
            name: name.to_owned(),
            nearest: nearest.map(str::to_owned),
            known: params.iter().map(|param| param.name.clone()).collect(),
        });
    };
    let (name, given) = (name.to_owned(), value.to_owned());
    if value.contains('\0') {
        return Err(ParamError::Nul { name });
    }
    let Some(value) = param.kind.read(value) else {
        return Err(ParamError::WrongType { name, value: given, kind: param.kind });
    };
    if !param.choices.is_empty() && !param.choices.contains(&value) {
        return Err(ParamError::NotAChoice { name, value, choices: param.choices.clone() });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Vec<Param> {
        let param = |name: &str, kind, choices: &[&str], default: Option<&str>| Param {
            name: name.to_owned(),
            kind,
            choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
            default: default.map(str::to_owned),
            description: None,
        };
        vec![
            param("env", ParamType::String, &["staging", "prod"], None),
            param("count", ParamType::Integer, &[], Some("3")),
            param("fast", ParamType::Boolean, &[], Some("false")),
        ]
    }

    fn check(given: &[(&str, &str)], expected: Result<&str, &str>) {
        let bound = bind(&params(), given.iter().copied());
        let shown = bound.map(|values| {
            let shown: Vec<_> =
                values.iter().map(|(name, value)| format!("{name}={value}")).collect();
            shown.join(" ")
        });
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(shown.map_err(|errors| errors.to_string()), expected);
    }

    #[test]
    fn what_is_given_comes_before_the_default() {
        check(&[("env", "prod")], Ok("count=3 env=prod fast=false"));
        check(&[("env", "prod"), ("count", "-07")], Ok("count=-7 env=prod fast=false"));
    }

    #[test]
    fn everything_that_does_not_fit_is_told_at_once() {
        check(
            &[("evn", "prod"), ("count", "many"), ("fast", "yes")],
            Err("the workflow has no parameter `evn`; did you mean `env`?\n\
                 the parameter `count` is \"many\", not a whole number\n\
                 the parameter `fast` is \"yes\", not true or false\n\
                 the parameter `env` must be given: -p env=…, and takes one of staging, prod"),
        );
        check(
            &[("env", "test"), ("count", "1"), ("count", "2")],
            Err("the parameter `env` is \"test\", and takes one of staging, prod\n\
                 the parameter `count` is given twice"),
        );
        check(
            &[("env", "a\0")],
            Err("the parameter `env` contains a NUL character, which no command can be given"),
        );
    }
}
