//! Texts with `{…}` in them, outside shell text: there a value stands as it is.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use crate::variable::Variable;

/// A text with references in it, such as a lock's name.
///
/// ```
/// use windlass_workflow::{Template, Variable};
///
/// let known = |name: &str| (name == "env").then(|| Variable::Param(name.to_owned()));
/// let lock = Template::parse("deploy-{env}", known);
/// assert_eq!(lock.fill(|_| Some("prod".to_owned())).as_deref(), Ok("deploy-prod"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Text that stands as it is.
    Text(String),
    /// What its value stands for.
    Variable(Variable),
}

/// A value was needed that is not known.
///
/// ```
/// use windlass_workflow::{Template, Variable};
///
/// let unfilled = Template::from(Variable::Run).fill(|_| None).unwrap_err();
/// assert_eq!(unfilled.variable, Variable::Run);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{{{variable}}}` has no value here")]
pub struct Unfilled {
    /// Whose.
    pub variable: Variable,
}

impl Template {
    /// Text without references.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())] }
    }

    /// Reads a text. A `{name}` that is not `known` is left as it is.
    pub fn parse(text: &str, mut known: impl FnMut(&str) -> Option<Variable>) -> Self {
        Self::parse_at(text, |name, _| known(name))
    }

    /// As [`Template::parse`]; `known` is told where in the text each name stands, braces included.
    pub(crate) fn parse_at(
        text: &str,
        mut known: impl FnMut(&str, Range<usize>) -> Option<Variable>,
    ) -> Self {
        let mut parts = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|found| at + found) {
            at = open + 1;
            let Some(name) = placeholder(&text[open..]) else { continue };
            let shells = text[..open].ends_with('$');
            let range = open..open + name.len() + 2;
            let Some(variable) = (!shells).then(|| known(name, range.clone())).flatten() else {
                continue;
            };
            if from < open {
                parts.push(Part::Text(text[from..open].to_owned()));
            }
            parts.push(Part::Variable(variable));
            (from, at) = (range.end, range.end);
        }
        if from < text.len() {
            parts.push(Part::Text(text[from..].to_owned()));
        }
        Self { parts }
    }

    /// The pieces, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What it refers to, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Text(_) => None,
        })
    }

    /// The text with every reference replaced by what `value` says.
    pub fn fill(
        &self,
        mut value: impl FnMut(&Variable) -> Option<String>,
    ) -> Result<String, Unfilled> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Variable(variable) => {
                    let unfilled = || Unfilled { variable: variable.clone() };
                    text.push_str(&value(variable).ok_or_else(unfilled)?);
                }
            }
        }
        Ok(text)
    }
}

impl From<Variable> for Template {
    /// The value and nothing else.
    fn from(variable: Variable) -> Self {
        Self { parts: vec![Part::Variable(variable)] }
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Variable(variable) => write!(f, "{{{variable}}}"),
        })
    }
}

/// The name between the braces that `text` begins with, if it is one: `{env}`, `{report.url}`.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let end = inner.find(|c: char| !plain(c) && c != '.')?;
    let name = &inner[..end];
    let (head, key) = name.split_once('.').unwrap_or((name, "x"));
    let begins = head.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let whole = begins && !key.is_empty() && key.chars().all(plain);
    (whole && inner[end..].starts_with('}')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Option<Variable> {
        match name {
            "env" => Some(Variable::Param("env".to_owned())),
            "a.b" => Some(Variable::Output { step: "a".to_owned(), key: "b".to_owned() }),
            _ => None,
        }
    }

    fn check(text: &str, filled: &str) {
        let template = Template::parse(text, known);
        assert_eq!(template.to_string(), text);
        let value = |variable: &Variable| Some(format!("<{variable}>"));
        assert_eq!(template.fill(value).as_deref(), Ok(filled), "{text}");
    }

    #[test]
    fn known_names_are_replaced_and_everything_else_stands() {
        check("", "");
        check("plain", "plain");
        check("x{env}y", "x<env>y");
        check("{env}{a.b}", "<env><a.b>");
        check("{other} {env", "{other} {env");
        check("${env} {{env}}", "${env} {<env>}");
        check("{} {a.} {.b} {a.b.c} { env }", "{} {a.} {.b} {a.b.c} { env }");
        check("é{env}é", "é<env>é");
    }

    #[test]
    fn a_value_that_is_not_known_is_named() {
        let unfilled = Template::parse("{env}", known).fill(|_| None).unwrap_err();
        assert_eq!(unfilled.to_string(), "`{env}` has no value here");
    }
}
