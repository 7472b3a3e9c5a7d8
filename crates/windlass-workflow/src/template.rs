//! Templates: texts with placeholders, outside shell text.
//!
//! `{v}` is replaced by the value of `v` if the name is known, and `{{v}}` by the text `{v}`. `${v}` and
//! every other brace stay as they are. Knows nothing of quoting; `shell` does.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use crate::variable::Variable;

/// A text with placeholders, such as the name of a lock.
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

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplatePart {
    /// Literal text.
    Text(String),
    /// A known name in doubled braces, `{{name}}`, which renders as `{name}`.
    Escaped(String),
    /// A placeholder for the value of a variable.
    Variable(Variable),
}

/// A template refers to a variable that has no value.
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
    /// The variable without a value.
    pub variable: Variable,
}

impl Template {
    /// Returns a template without placeholders.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![TemplatePart::Text(text.into())] }
    }

    /// Parses a text. A `{name}` that is not `known` stays as it is.
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

    /// Parses a text, and passes the range of each name to `resolver`.
    pub(crate) fn parse_with(text: &str, resolver: &mut impl Resolver) -> Self {
        let mut parts = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|found| at + found) {
            at = open + 1;
            let (part, end) = match brace(text, open, resolver) {
                Brace::Plain => continue,
                Brace::Dollar(name) => {
                    resolver.dollar_name(name, open - 1..open + name.len() + 2);
                    continue;
                }
                Brace::Doubled(name) => {
                    (TemplatePart::Escaped(name.to_owned()), open + name.len() + 4)
                }
                Brace::Single(name) => {
                    let range = open..open + name.len() + 2;
                    let Some(variable) = resolver.resolve(name, range.clone()) else { continue };
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

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Iterates over the variables in the order of their placeholders.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(variable) => Some(variable),
            TemplatePart::Text(_) | TemplatePart::Escaped(_) => None,
        })
    }

    /// Returns the text with every placeholder replaced by the value that `value` returns for it.
    pub fn fill(
        &self,
        mut value: impl FnMut(&Variable) -> Option<String>,
    ) -> Result<String, MissingValue> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(part) => text.push_str(part),
                TemplatePart::Escaped(name) => {
                    text.push('{');
                    text.push_str(name);
                    text.push('}');
                }
                TemplatePart::Variable(variable) => {
                    let missing = || MissingValue { variable: variable.clone() };
                    text.push_str(&value(variable).ok_or_else(missing)?);
                }
            }
        }
        Ok(text)
    }
}

impl From<Variable> for Template {
    /// Returns a template of one placeholder.
    fn from(variable: Variable) -> Self {
        Self { parts: vec![TemplatePart::Variable(variable)] }
    }
}

impl fmt::Display for Template {
    /// Writes the source of the template, placeholders included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => f.write_str(text),
            TemplatePart::Escaped(name) => write!(f, "{{{{{name}}}}}"),
            TemplatePart::Variable(variable) => write!(f, "{{{variable}}}"),
        })
    }
}

/// Resolves the names in a text.
pub(crate) trait Resolver {
    /// Returns the variable that `{name}` refers to; `range` includes the braces.
    fn resolve(&mut self, name: &str, range: Range<usize>) -> Option<Variable>;

    /// Returns whether `{name}` would refer to a variable, without recording a reference.
    fn is_known(&mut self, name: &str) -> bool;

    /// Is called for `${name}`, which is never a placeholder.
    fn dollar_name(&mut self, _name: &str, _range: Range<usize>) {}
}

/// What begins at an opening brace.
pub(crate) enum Brace<'t> {
    /// Nothing: the brace is literal.
    Plain,
    /// `${name}`, which is never a placeholder.
    Dollar(&'t str),
    /// `{{name}}` of a known name.
    Doubled(&'t str),
    /// `{name}`, whether the name is known or not.
    Single(&'t str),
}

/// Classifies the brace at `open`.
pub(crate) fn brace<'t>(text: &'t str, open: usize, resolver: &mut impl Resolver) -> Brace<'t> {
    let rest = &text[open..];
    match (placeholder(rest), doubled(rest)) {
        (Some(name), _) if text[..open].ends_with('$') => Brace::Dollar(name),
        (Some(name), _) => Brace::Single(name),
        (None, Some(name)) if resolver.is_known(name) => Brace::Doubled(name),
        _ => Brace::Plain,
    }
}

/// Returns the name between the doubled braces that `text` begins with: `{{env}}`.
fn doubled(text: &str) -> Option<&str> {
    let name = placeholder(text.strip_prefix('{')?)?;
    text[name.len() + 3..].starts_with('}').then_some(name)
}

/// Returns the name in the placeholder that `text` begins with: `{env}`, `{report.url}`.
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
    fn known_names_are_replaced_and_everything_else_stays() {
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
    fn doubled_braces_escape_a_known_name() {
        check("{{env}} {{a.b}}", "{env} {a.b}");
        check("{{{env}}} {{{{env}}}}", "{{env}} {{{env}}}");
        check("${{env}} {{env}", "${env} {<env>");
        check("{env}} {{env} }", "<env>} {<env> }");
        check("{{other}} {{.Name}} {{ env }} {{}}", "{{other}} {{.Name}} {{ env }} {{}}");
        check("{'a': {'b': 1}}", "{'a': {'b': 1}}");
    }

    #[test]
    fn the_error_names_the_variable_without_a_value() {
        let unfilled = Template::parse("{env}", known).fill(|_| None).unwrap_err();
        assert_eq!(unfilled.to_string(), "`{env}` has no value here");
    }
}
