//! Parameters: values that the user sets when a workflow runs.
//!
//! Binding checks every value and reports all errors at once.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;
use windlass_core::{nearest, some_of};

/// How many parameters an error lists.
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
    /// The parameter's name.
    pub name: String,
    /// The type of its values.
    pub kind: ParamType,
    /// The values it accepts; empty if it accepts every value of its type.
    pub choices: Vec<String>,
    /// Its value if the user sets none; without a default the user has to set one.
    pub default: Option<String>,
    /// What it is for, in the author's words.
    pub description: Option<String>,
}

/// The type of a parameter's values.
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
    /// A finite number.
    Float,
    /// `true` or `false`.
    Boolean,
}

impl ParamType {
    /// Returns the value in its canonical form, or none if it is not of this type.
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

/// Why a value cannot be bound to a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// The workflow has no parameter of this name.
    #[error("the workflow has no parameter `{name}`{}", suggestion(.nearest, .known))]
    Unknown {
        /// The name that the caller gave.
        name: String,
        /// The parameter whose name is most similar.
        nearest: Option<String>,
        /// The names of all parameters.
        known: Vec<String>,
    },
    /// A parameter without a default has no value.
    #[error("the parameter `{name}` has no value: set it with -p {name}=…{}", choice_list(.choices))]
    Missing {
        /// The parameter.
        name: String,
        /// The values it accepts, if the file lists them.
        choices: Vec<String>,
    },
    /// A parameter has two values.
    #[error("the parameter `{name}` is set twice")]
    Twice {
        /// The parameter.
        name: String,
    },
    /// The value is none of the choices.
    #[error("the parameter `{name}` cannot be {value:?}{}", choice_list(.choices))]
    NotAChoice {
        /// The parameter.
        name: String,
        /// The value that the caller gave.
        value: String,
        /// The values that the parameter accepts.
        choices: Vec<String>,
    },
    /// The value has a NUL character.
    #[error("the parameter `{name}` contains a NUL character, which cannot be passed to a command")]
    Nul {
        /// The parameter.
        name: String,
    },
    /// The value is not of the parameter's type.
    #[error("the parameter `{name}` is {value:?}, not {kind}")]
    WrongType {
        /// The parameter.
        name: String,
        /// The value that the caller gave.
        value: String,
        /// The type that the parameter accepts.
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

fn choice_list(choices: &[String]) -> String {
    match choices {
        [] => String::new(),
        choices => format!("; its choices are {}", choices.join(", ")),
    }
}

/// All errors of the values for a workflow's parameters; never empty.
///
/// ```
/// let text = "[params]\nbranch = 'main'\n[step.a]\nrun = 'echo {branch}'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let errors = workflow.bind([("brnach", "dev")]).unwrap_err();
/// let message = "the workflow has no parameter `brnach`; did you mean `branch`?";
/// assert_eq!(errors.to_string(), message);
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

/// Returns the value of every parameter: the given one, or else its default.
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
                let is_reported = |error: &ParamError| error.is_about(&param.name);
                if !errors.iter().any(is_reported) {
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
    fn a_given_value_replaces_the_default() {
        check(&[("env", "prod")], Ok("count=3 env=prod fast=false"));
        check(&[("env", "prod"), ("count", "-07")], Ok("count=-7 env=prod fast=false"));
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        check(
            &[("evn", "prod"), ("count", "many"), ("fast", "yes")],
            Err("the workflow has no parameter `evn`; did you mean `env`?\n\
                 the parameter `count` is \"many\", not a whole number\n\
                 the parameter `fast` is \"yes\", not true or false\n\
                 the parameter `env` has no value: set it with -p env=…; its choices are staging, prod"),
        );
        check(
            &[("env", "test"), ("count", "1"), ("count", "2")],
            Err("the parameter `env` cannot be \"test\"; its choices are staging, prod\n\
                 the parameter `count` is set twice"),
        );
        check(
            &[("env", "a\0")],
            Err(
                "the parameter `env` contains a NUL character, which cannot be passed to a command",
            ),
        );
    }
}
