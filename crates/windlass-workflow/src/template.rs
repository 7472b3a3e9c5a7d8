//! TextReader with `{…}` in them, outside shell text: there a value stands as it is.
//!
//! `{v}` of a known value is a reference, `{{v}}` writes `{v}`, and `${v}` stays as it is. So does
//! every other brace.

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
    parts: Vec<TemplatePart>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplatePart {
    /// Text that stands as it is.
    Text(String),
    /// A known name in doubled braces, `{{name}}`, which writes `{name}`.
    Braced(String),
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
pub struct MissingValue {
    /// Whose.
    pub variable: Variable,
}

impl Template {
    /// Text without references.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![TemplatePart::Text(text.into())] }
    }

    /// Reads a text. A `{name}` that is not `known` is left as it is.
    pub fn parse(text: &str, known: impl FnMut(&str) -> Option<Variable>) -> Self {
        struct Closure<K>(K);
        impl<K: FnMut(&str) -> Option<Variable>> Resolver for Closure<K> {
            fn resolve(&mut self, name: &str, _: Range<usize>) -> Option<Variable> {
                (self.0)(name)
            }

            fn is_known(&mut self, name: &str) -> bool {
                (self.0)(name).is_some()
            }
        }
        Self::parse_with(text, &mut Closure(known))
    }

    /// As [`Template::parse`]; `names` is told where in the text each name stands.
    pub(crate) fn parse_with(text: &str, names: &mut impl Resolver) -> Self {
        let mut parts = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|found| at + found) {
            at = open + 1;
            let (part, end) = match brace(text, open, names) {
                Brace::Plain => continue,
                Brace::Dollar(name) => {
                    names.behind_dollar(name, open - 1..open + name.len() + 2);
                    continue;
                }
                Brace::Doubled(name) => {
                    (TemplatePart::Braced(name.to_owned()), open + name.len() + 4)
                }
                Brace::Single(name) => {
                    let range = open..open + name.len() + 2;
                    let Some(variable) = names.resolve(name, range.clone()) else { continue };
                    (TemplatePart::Variable(variable), range.end)
                }
            };
            if from < open {
                parts.push(TemplatePart::Text(text[from..open].to_owned()));
            }
            parts.push(part);
            (from, at) = (end, end);
        }
        if from < text.len() {
            parts.push(TemplatePart::Text(text[from..].to_owned()));
        }
        Self { parts }
    }

    /// The pieces, in order.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// What it refers to, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(variable) => Some(variable),
            TemplatePart::Text(_) | TemplatePart::Braced(_) => None,
        })
    }

    /// The text with every reference replaced by what `value` says.
    pub fn fill(
        &self,
        mut value: impl FnMut(&Variable) -> Option<String>,
    ) -> Result<String, MissingValue> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(part) => text.push_str(part),
                TemplatePart::Braced(name) => {
                    text.push('{');
                    text.push_str(name);
                    text.push('}');
                }
                TemplatePart::Variable(variable) => {
                    let unfilled = || MissingValue { variable: variable.clone() };
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
        Self { parts: vec![TemplatePart::Variable(variable)] }
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => f.write_str(text),
            TemplatePart::Braced(name) => write!(f, "{{{{{name}}}}}"),
            TemplatePart::Variable(variable) => write!(f, "{{{variable}}}"),
        })
    }
}

/// What the names in a text refer to.
pub(crate) trait Resolver {
    /// Returns what a text refers to by `{name}` at `range`, braces included.
    fn resolve(&mut self, name: &str, range: Range<usize>) -> Option<Variable>;

    /// Returns whether `{name}` would refer to something; the text does not refer to it.
    fn is_known(&mut self, name: &str) -> bool;

    /// Diagnostics that `${name}` stands at `range`, where it is not a value.
    fn behind_dollar(&mut self, _name: &str, _range: Range<usize>) {}
}

/// What an opening brace begins.
pub(crate) enum Brace<'t> {
    /// Nothing: the brace stands for itself.
    Plain,
    /// `{name}` behind a `$`, which is never a value.
    Dollar(&'t str),
    /// `{{name}}` of a known name.
    Doubled(&'t str),
    /// `{name}`, known or not.
    Single(&'t str),
}

/// Reads the brace that stands at `open`.
pub(crate) fn brace<'t>(text: &'t str, open: usize, names: &mut impl Resolver) -> Brace<'t> {
    let rest = &text[open..];
    match (placeholder(rest), doubled(rest)) {
        (Some(name), _) if text[..open].ends_with('$') => Brace::Dollar(name),
        (Some(name), _) => Brace::Single(name),
        (None, Some(name)) if names.is_known(name) => Brace::Doubled(name),
        _ => Brace::Plain,
    }
}

/// Returns the name between the doubled braces that `text` begins with: `{{env}}`.
fn doubled(text: &str) -> Option<&str> {
    let name = placeholder(text.strip_prefix('{')?)?;
    text[name.len() + 3..].starts_with('}').then_some(name)
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
        check("${env} $${env}", "${env} $${env}");
        check("{} {a.} {.b} {a.b.c} { env }", "{} {a.} {.b} {a.b.c} { env }");
        check("é{env}é", "é<env>é");
    }

    #[test]
    fn doubled_braces_write_single_ones_around_a_known_name() {
        check("{{env}} {{a.b}}", "{env} {a.b}");
        check("{{{env}}} {{{{env}}}}", "{{env}} {{{env}}}");
        check("${{env}} {{env}", "${env} {<env>");
        check("{env}} {{env} }", "<env>} {<env> }");
        check("{{other}} {{.Name}} {{ env }} {{}}", "{{other}} {{.Name}} {{ env }} {{}}");
        check("{'a': {'b': 1}}", "{'a': {'b': 1}}");
    }

    #[test]
    fn a_value_that_is_not_known_is_named() {
        let unfilled = Template::parse("{env}", known).fill(|_| None).unwrap_err();
        assert_eq!(unfilled.to_string(), "`{env}` has no value here");
    }
}
