//! Commands: shell text with the shell that reads it, or a program with its arguments.

use std::fmt;

use crate::shell::ShellText;
use crate::template::Template;
use crate::variable::Variable;

/// What a step runs.
///
/// ```
/// let text = "[step.a]\nrun = 'echo hi'\n[step.b]\nrun = ['echo', 'hi']";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let shown: Vec<_> = plan.steps.iter().map(|step| step.run.to_string()).collect();
/// assert_eq!(shown, ["echo hi", "echo hi"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Shell text.
    Script(Script),
    /// A program and its arguments; never empty.
    List(Vec<Template>),
}

impl Command {
    /// What it refers to.
    pub fn variables(&self) -> Vec<&Variable> {
        match self {
            Command::Script(script) => script.text.variables().iter().collect(),
            Command::List(arguments) => arguments.iter().flat_map(Template::variables).collect(),
        }
    }
}

impl fmt::Display for Command {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Script(script) => f.write_str(script.text.source()),
            Command::List(arguments) => {
                let arguments: Vec<_> = arguments.iter().map(Template::to_string).collect();
                f.write_str(&arguments.join(" "))
            }
        }
    }
}

/// Shell text, and the shell that reads it.
///
/// ```
/// let text = "[step.a]\nrun = 'make'\nwhen = 'test -f Makefile'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let when = plan.steps[0].when.as_ref().expect("it has one");
/// assert_eq!(when.shell.program, "sh");
/// assert_eq!(when.text.text(), "test -f Makefile");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The shell.
    pub shell: Shell,
    /// The text.
    pub text: ShellText,
}

/// A program that reads shell text.
///
/// ```
/// use windlass_workflow::Shell;
///
/// let bash = Shell::named("bash");
/// assert_eq!(bash.program, "bash");
/// assert_eq!(bash.arguments, ["-euo", "pipefail", "-c"]);
/// assert!(bash.is_posix() && !Shell::named("fish -c").is_posix());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// The program.
    pub program: String,
    /// The arguments that come before the text.
    pub arguments: Vec<String>,
}

impl Default for Shell {
    /// `sh -eu -c`.
    fn default() -> Self {
        Self::named("sh")
    }
}

impl Shell {
    /// The shell that a word stands for; a command of several words is taken as it is.
    #[must_use]
    pub fn named(text: &str) -> Self {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next().unwrap_or_default();
        let arguments: Vec<_> = words.collect();
        let usual: &[&str] = match program.as_str() {
            _ if !arguments.is_empty() => return Self { program, arguments },
            "bash" => &["-euo", "pipefail", "-c"],
            _ => &["-eu", "-c"],
        };
        Self { program, arguments: usual.iter().map(|&argument| argument.to_owned()).collect() }
    }

    /// Whether it quotes as POSIX says, so that `{v}` can be put into its text.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        ["sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "yash", "zsh"].contains(&name)
    }
}
