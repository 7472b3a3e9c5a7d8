//! What can be asked for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// Runs shell workflows and coordinates processes on one machine, durably.
#[derive(Parser)]
#[command(name = "windlass", version, about, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Where runs, logs and locks are kept [default: $XDG_STATE_HOME/windlass]
    #[arg(long, global = true, env = "WINDLASS_STATE", value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Print what happens as JSON, one object per line
    #[arg(long, global = true, env = "WINDLASS_JSON")]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run a workflow
    #[command(after_help = "Example:\n  windlass run examples/hello.toml")]
    Run {
        /// The workflow file
        file: PathBuf,
    },
    /// Go on with a run that was interrupted
    #[command(after_help = "Example:\n  windlass resume 3fa9c2d1")]
    Resume {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Say everything that is wrong with a workflow, without running anything
    #[command(after_help = "Example:\n  windlass check nightly.toml -p env=prod")]
    Check {
        /// The workflow file
        file: PathBuf,

        /// A value for a parameter; once one is given, all that have no default must be
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,
    },
    /// Show which step waits for which
    #[command(
        after_help = "Example:\n  windlass graph nightly.toml --format dot | dot -Tsvg > nightly.svg"
    )]
    Graph {
        /// The workflow file
        file: PathBuf,

        /// How to show it [default: text, or json with --json]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
    /// Print the JSON Schema of workflow files, for editors
    #[command(after_help = "Example:\n  windlass schema > windlass.schema.json")]
    Schema,
    /// Write a first windlass.toml to learn from
    #[command(after_help = "Example:\n  windlass init && windlass check windlass.toml")]
    Init,
    /// Run a command while holding locks that the whole machine shares
    #[command(after_help = "Example:\n  windlass lock deploy --wait 5m -- ./deploy.sh")]
    Lock {
        /// The locks, taken together or not at all
        #[arg(required = true, value_name = "NAME", value_parser = name)]
        names: Vec<String>,

        /// How long to wait for them, such as 30s or 1h 30m [default: as long as it takes]
        #[arg(long, value_name = "DURATION", value_parser = windlass_workflow::parse_duration)]
        wait: Option<Duration>,

        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

/// For whom to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs: one object per line.
    Json,
}

impl From<bool> for Form {
    /// What the flag `--json` asks for.
    fn from(json: bool) -> Self {
        if json { Form::Json } else { Form::Text }
    }
}

/// How to show a graph.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A picture for the terminal
    Text,
    /// For Graphviz
    Dot,
    /// For Markdown
    Mermaid,
    /// For programs
    Json,
}

fn param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a lock has a name".to_owned()) } else { Ok(text.to_owned()) }
}
