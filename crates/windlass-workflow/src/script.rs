//! Commands: shell text with the shell that runs it, or a program with its arguments.

use std::fmt;

use crate::shell::ShellText;
use crate::template::Template;
use crate::variable::Variable;

/// The command of a step or a hook.
///
/// ```
/// let text = "[step.a]\nrun = 'echo hi'\n[step.b]\nrun = ['echo', 'hi']";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let shown: Vec<_> = plan.steps.iter().map(|step| step.execution.run.to_string()).collect();
/// assert_eq!(shown, ["echo hi", "echo hi"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Text for a shell.
    Script(Script),
    /// A program and its arguments; never empty.
    List(Vec<Template>),
}

impl Command {
    /// Returns the variables that the command refers to.
    pub fn variables(&self) -> Vec<&Variable> {
        match self {
            Command::Script(script) => script.text.variables().iter().collect(),
            Command::List(arguments) => arguments.iter().flat_map(Template::variables).collect(),
        }
    }
}

impl fmt::Display for Command {
    /// Writes the command as it is in the file, a list with spaces between its entries.
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

/// Shell text, and the shell that runs it.
///
/// ```
/// let text = "[step.a]\nrun = 'make'\nwhen = 'test -f Makefile'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let when = plan.steps[0].gate.when.as_ref().expect("it has one");
/// assert_eq!(when.shell.program, "sh");
/// assert_eq!(when.text.text(), "test -f Makefile");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program that the text is passed to.
    pub shell: Shell,
    /// The text, with its values in environment variables.
    pub text: ShellText,
}

/// A program that runs shell text.
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
    /// The name or path of the program.
    pub program: String,
    /// The arguments before the text.
    pub arguments: Vec<String>,
}

impl Default for Shell {
    /// Returns `sh -eu -c`.
    fn default() -> Self {
        Self::named("sh")
    }
}

impl Shell {
    /// Returns the shell with this name and its usual arguments; if `text` has several words, they
    /// are the program and its arguments.
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

    /// Returns whether its quoting is that of POSIX, so that placeholders in its text can be quoted.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        ["sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "yash", "zsh"].contains(&name)
    }
}
