//! The variables that a placeholder can refer to.

use std::fmt;

/// A variable that a placeholder refers to.
///
/// ```
/// use windlass_workflow::Variable;
///
/// let url = Variable::Output { step: "report".to_owned(), key: "url".to_owned() };
/// assert_eq!(url.to_string(), "report.url");
/// assert_eq!(url.environment_name(), "WINDLASS_V_report_2eurl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Variable {
    /// A parameter.
    Param(String),
    /// A variable of the step's `each`.
    Each(String),
    /// The workflow's name.
    Name,
    /// The step's directory.
    Workspace,
    /// The run's id.
    Run,
    /// The step's name.
    Step,
    /// The number of the attempt, from 1.
    Attempt,
    /// An output of an earlier step, which that step has written to `$WINDLASS_OUTPUT`.
    Output {
        /// The step that wrote it.
        step: String,
        /// The key under which it was written.
        key: String,
    },
}

/// The names of the variables that every workflow has.
pub(crate) const BUILT_IN: [&str; 5] = ["name", "workspace", "run", "step", "attempt"];

impl Variable {
    pub(crate) fn built_in(name: &str) -> Option<Self> {
        Some(match name {
            "name" => Variable::Name,
            "workspace" => Variable::Workspace,
            "run" => Variable::Run,
            "step" => Variable::Step,
            "attempt" => Variable::Attempt,
            _ => return None,
        })
    }

    /// Returns the name of the environment variable that carries the value into shell text. Different
    /// variables of one text have different names.
    #[must_use]
    pub fn environment_name(&self) -> String {
        let mut name = "WINDLASS_V_".to_owned();
        for byte in self.to_string().bytes() {
            match byte {
                b'_' => name.push_str("__"),
                byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
                byte => name.push_str(&format!("_{byte:02x}")),
            }
        }
        name
    }
}

impl fmt::Display for Variable {
    /// Writes the name between the braces of a placeholder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::Param(name) | Variable::Each(name) => f.write_str(name),
            Variable::Name => f.write_str("name"),
            Variable::Workspace => f.write_str("workspace"),
            Variable::Run => f.write_str("run"),
            Variable::Step => f.write_str("step"),
            Variable::Attempt => f.write_str("attempt"),
            Variable::Output { step, key } => write!(f, "{step}.{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_variables_share_an_environment_name() {
        let names = ["a-b", "a_b", "a__b", "a_2db", "a", "a_"];
        let params = names.iter().map(|name| Variable::Param((*name).to_owned()));
        let encoded: BTreeSet<_> = params.map(|param| param.environment_name()).collect();
        assert_eq!(encoded.len(), names.len(), "{encoded:?}");
        let plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        assert!(encoded.iter().all(plain), "{encoded:?}");
    }

    #[test]
    fn built_in_variables_are_displayed_by_their_names() {
        for name in BUILT_IN {
            assert_eq!(Variable::built_in(name).map(|v| v.to_string()), Some(name.to_owned()));
        }
    }
}
