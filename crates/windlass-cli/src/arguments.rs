//! What can be asked for.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{
    EnumValueParser, FalseyValueParser, OsStringValueParser, PossibleValue, TypedValueParser,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Parser, Subcommand, ValueEnum};
use windlass_server::{Name, check_name};
use windlass_workflow::{DurationError, EventPattern};

use crate::completions;
use crate::exit::Exit;
use crate::output;
use crate::state;
use crate::talk::{quoted, tame};

mod holding;
mod looking;
mod storing;

pub(crate) use holding::{
    AcquireArguments, CheckArguments, Holding, Kind, LockArguments, LockPrimitive, SemArguments,
    SemPrimitive, Slots, TokenArguments,
};
pub(crate) use looking::{
    HistoryArguments, LogArguments, ManArguments, PruneArguments, Shell, ShowArguments, StepTarget,
    WhyArguments,
};
pub(crate) use storing::{StoreArguments, StoreVerb};

use crate::display::OutputMode;

/// Runs shell workflows and coordinates processes on one machine, durably.
#[derive(Parser)]
#[command(name = "windlass", version, about, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// The store with runs, logs and locks [default: the user's own, in $XDG_STATE_HOME/windlass]
    #[arg(
        long,
        global = true,
        env = "WINDLASS_STATE",
        hide_env_values = true,
        value_name = "DIR",
        value_parser = OsStringValueParser::new()
    )]
    pub(crate) state: Option<OsString>,

    /// Use the store in /var/lib/windlass, which several users of this machine share
    #[arg(long, global = true)]
    pub(crate) system: bool,

    /// Print what happens as JSON, one object per line
    #[arg(long, global = true, env = "WINDLASS_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,

    /// How to show a run: auto, live, prefix, group, raw or quiet
    #[arg(
        long,
        global = true,
        env = "WINDLASS_OUTPUT_MODE",
        value_name = "MODE",
        value_parser = OutputModeParser,
        hide_possible_values = true,
        default_value = "auto"
    )]
    pub(crate) output: OutputMode,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Arguments {
    /// What this process was called with; how it ends if that makes no sense, or was a question about
    /// the command itself. Either is told by then.
    pub(crate) fn of_process() -> Result<Self, Exit> {
        let words = words();
        let parsed = Self::try_parse_from(&words).map_err(|error| plainer(error, &words));
        let parsed = parsed.and_then(Self::with_some_state);
        let parsed = parsed.and_then(|parsed| parsed.with_system(&words));
        parsed.and_then(|parsed| parsed.with_json(&words)).map_err(|error| told(&error))
    }

    /// Refuses `--json` where a verb has nothing of its own to print. The variable is for all verbs of
    /// a script, and means nothing there.
    fn with_json(self, words: &[OsString]) -> Result<Self, clap::Error> {
        let instead = match &self.verb {
            Verb::Completions { .. } => "`windlass completions` prints a script",
            Verb::Man(_) => "`windlass man` prints manual pages",
            Verb::Lock(LockArguments { primitive: None, .. })
            | Verb::Sem(SemArguments { primitive: None, .. }) => {
                "standard output is the command's; `windlass holders --json` shows who holds what"
            }
            _ => return Ok(self),
        };
        if !own_words(words).any(|word| word == "--json") {
            return Ok(self);
        }
        let message = format!("--json has no meaning here: {instead}");
        Err(Arguments::command().error(ErrorKind::ArgumentConflict, message))
    }

    /// Chooses the machine's store, if that was asked for. It stands above the variable, not beside the
    /// flag: only to make a store, both make sense.
    fn with_system(mut self, words: &[OsString]) -> Result<Self, clap::Error> {
        let is_flag = |word: &[u8]| word == b"--state" || word.starts_with(b"--state=");
        match (self.system, own_words(words).any(|word| is_flag(word.as_encoded_bytes()))) {
            (true, false) => self.state = Some(state::SYSTEM.into()),
            (true, true) if !matches!(self.verb, Verb::Store(_)) => {
                let both = "--system and --state name two stores; give one of them";
                return Err(Arguments::command().error(ErrorKind::ArgumentConflict, both));
            }
            _ => {}
        }
        Ok(self)
    }

    fn with_some_state(mut self) -> Result<Self, clap::Error> {
        let unset = |state: &OsString| state.is_empty() && variable_is_empty("WINDLASS_STATE");
        self.state = self.state.filter(|state| !unset(state));
        if self.state.as_ref().is_some_and(|state| state.is_empty()) {
            let empty = "--state needs a directory, and was given an empty text";
            return Err(Arguments::command().error(ErrorKind::InvalidValue, empty));
        }
        Ok(self)
    }
}

/// The words of the command line. Many are used to write `help VERB`, which is no verb here, since it
/// would have to be one of `lock` and `sem` as well, and no lock could be called so.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Returns the words that are for windlass itself, not for a command behind `--`.
fn own_words(words: &[OsString]) -> impl Iterator<Item = &OsString> {
    words.iter().skip(1).take_while(|word| *word != "--")
}

/// Prints the help that was asked for, or what is wrong. Whatever was given is part of that, also what
/// would do something to a terminal or has no end.
fn told(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        output::note(error.print().and_then(|()| io::stdout().flush()));
        return Exit::Success;
    }
    let said = error.render().to_string();
    let tame = tame(&said);
    if tame == said.trim_end() {
        // Whoever has closed the stream still gets the exit code.
        let _ = error.print();
    } else {
        eprintln!("{tame}");
    }
    Exit::Usage
}

/// A variable that is empty is as good as none.
fn variable_is_empty(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// The same error as if no variable were set. The usage below an error lists what was given, and a
/// reader would take what came from a variable for something that has to be written.
fn plainer(error: clap::Error, words: &[OsString]) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    if let Some(instead) = flock_option(&error, words) {
        return Arguments::command().error(ErrorKind::UnknownArgument, instead);
    }
    if let Some(reserved) = reserved_name(&error, words) {
        return Arguments::command().error(ErrorKind::InvalidValue, reserved);
    }
    let unset = |arg: Arg| arg.env(None::<&'static str>);
    let verb = |verb: Command| verb.mut_args(unset);
    let command = Arguments::command().mut_args(unset).mut_subcommands(verb);
    let mut error = match command.try_get_matches_from(words) {
        Err(plain) if plain.kind() == error.kind() => plain,
        _ => error,
    };
    if error.kind() == ErrorKind::UnknownArgument && is_wrapper(words) {
        // The tip would be to put the option behind `--`, where the command stands.
        error.remove(ContextKind::Suggested);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && names_command(&error) {
        let tip = "a command stands behind `--`, as in: windlass lock deploy -- ./deploy.sh";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        if let Some(ContextValue::String(given)) = error.get(kind) {
            let given = quoted(given);
            error.insert(kind, ContextValue::String(given));
        }
    }
    error
}

/// Returns what to use instead, if `windlass lock` was given an option that only `flock` has.
fn flock_option(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_lock = own_words(words).any(|word| word == "lock");
    let instead = holding::in_place_of_flock(given).filter(|_| is_unknown && is_lock)?;
    Some(format!("`windlass lock` has no option {given}: {instead}"))
}

/// Returns whether a verb was called that runs a command behind `--`.
fn is_wrapper(words: &[OsString]) -> bool {
    own_words(words).any(|word| word == "lock" || word == "sem")
}

/// Why a lock or a semaphore cannot be called like a primitive, if somebody seems to have tried: no
/// primitive has a command behind `--`.
fn reserved_name(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::MissingRequiredArgument];
    let verb = words.iter().position(|word| word == "lock" || word == "sem")?;
    let (name, rest) = words.get(verb + 1..)?.split_first()?;
    let name = name.to_str().filter(|name| LockPrimitive::has_subcommand(name))?;
    if !kinds.contains(&error.kind()) || !rest.iter().any(|word| word == "--") {
        return None;
    }
    let why = check_name(&Name::Lock(name.to_owned())).err()?;
    Some(format!("{why}, and takes no command behind `--`"))
}

/// Whether it is the command that a wrapper misses.
fn names_command(error: &clap::Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|arg| arg.contains("COMMAND")),
        _ => false,
    }
}

/// What waits for a person.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A `windlass guard` of that name.
    Guard(String),
    /// A step of a run.
    Step { run: String, step: String },
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run a workflow
    #[command(
        after_help = "Examples:\n  windlass run examples/hello.toml\n  windlass run nightly.toml report -p env=prod -j 8"
    )]
    Run {
        /// The workflow file; `-` is standard input [default: windlass.toml]
        file: Option<PathBuf>,

        /// Only these steps, and what they need
        #[arg(value_name = "STEP")]
        steps: Vec<String>,

        /// A value for a parameter
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,

        /// How many steps may run at once [default: what the file says, or one per CPU]
        #[arg(short, long, value_name = "N", env = "WINDLASS_JOBS", value_parser = jobs)]
        jobs: Option<Jobs>,
    },
    /// Go on with a run that was interrupted
    #[command(after_help = "Examples:\n  windlass resume\n  windlass resume 3fa9c2d1")]
    Resume {
        /// The run: its id, the beginning of it, or `last` [default: the last interrupted run]
        #[arg(value_parser = run_to_resume, add = completions::runs())]
        run: Option<String>,
    },
    /// Try what failed or was cancelled in a run again, and everything that follows it
    #[command(
        after_help = "Examples:\n  windlass retry 3fa9c2d1\n  windlass retry 3fa9 --step deploy"
    )]
    Retry {
        /// The run: its id, the beginning of it, or `last`
        #[arg(value_parser = run_to_retry, add = completions::runs())]
        run: String,

        /// Only this step, and what follows it
        #[arg(long = "step", value_name = "STEP")]
        steps: Vec<String>,
    },
    /// Cancel a run, or some of its steps
    #[command(after_help = "Examples:\n  windlass cancel 3fa9c2d1\n  windlass cancel 3fa9/deploy")]
    Cancel {
        /// The run; behind a slash, only this step or group of steps
        #[arg(value_name = "RUN[/STEP]", value_parser = StepTarget::read, add = completions::steps())]
        target: StepTarget,
    },
    /// Say everything that is wrong with workflows, without running anything
    #[command(
        after_help = "Examples:\n  windlass check nightly.toml -p env=prod\n  windlass check flows/*.toml"
    )]
    Check {
        /// The workflow files; `-` is standard input [default: windlass.toml]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,

        /// A value for a parameter; once one is given, all that have no default must be
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,
    },
    /// Show which step waits for which
    #[command(
        after_help = "Example:\n  windlass graph nightly.toml --format dot | dot -Tsvg > nightly.svg"
    )]
    Graph {
        /// The workflow file; `-` is standard input [default: windlass.toml]
        file: Option<PathBuf>,

        /// How to show it [default: text, or json with --json]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
    /// Print the JSON Schema of workflow files, for editors
    #[command(after_help = "Example:\n  windlass schema > windlass.schema.json")]
    Schema,
    /// Write a first windlass.toml to learn from
    #[command(after_help = "Example:\n  windlass init && windlass run")]
    Init,
    /// Run a command while holding locks
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  windlass lock deploy --wait 5m -- ./deploy.sh\n  windlass lock db dns -- ./migrate.sh\n  windlass lock -n deploy -- ./deploy.sh\n  windlass --system lock deploy -- ./deploy.sh\n  windlass lock acquire deploy --holder build-17\n\nAll processes of a user share the names, whatever directory they run in. With --system, all users of the\nmachine's store do."
    )]
    Lock(LockArguments),
    /// Run a command while holding slots of a semaphore
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  windlass sem build --capacity 4 -- make\n  windlass sem build -n 2 -- make -j2\n  windlass sem release build --holder build-17 --token 5"
    )]
    Sem(SemArguments),
    /// Check a guard of a workflow file, and wait for it as it says
    #[command(
        after_help = "Examples:\n  windlass guard deploy.toml approved -p env=prod\n  windlass guard deploy.toml site_up --wait 0s"
    )]
    Guard {
        /// The workflow file; `-` is standard input
        file: PathBuf,

        /// The guard's name
        name: String,

        /// A value for a parameter
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,

        /// How long to wait at most; 0s checks once [default: as long as the guard says]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// Let a guard pass that has not passed by itself
    #[command(
        after_help = "Examples:\n  windlass approve 3fa9c2d1/deploy\n  windlass approve guard/approved"
    )]
    Approve {
        /// A step or group of steps as RUN/STEP, or guard/NAME
        #[arg(value_parser = target, add = completions::steps())]
        target: Target,
    },
    /// Fail a guard that has not passed by itself
    #[command(
        after_help = "Examples:\n  windlass reject 3fa9c2d1/deploy\n  windlass reject guard/approved"
    )]
    Reject {
        /// A step or group of steps as RUN/STEP, or guard/NAME
        #[arg(value_parser = target, add = completions::steps())]
        target: Target,
    },
    /// Emit an event
    #[command(after_help = "Example:\n  windlass emit approval:prod:given")]
    Emit {
        /// The event's name: segments with colons between them
        event: String,
    },
    /// Show events, oldest first
    #[command(
        after_help = "Examples:\n  windlass events 'approval:**'\n  windlass events -f\n  windlass events -f --after 120"
    )]
    Events {
        /// Only events that match one of these: `*` is one segment, `**` at the end any number
        patterns: Vec<EventPattern>,

        /// Show events as they are emitted, from now on
        #[arg(short, long)]
        follow: bool,

        /// With -f, begin with the events that were emitted earlier
        #[arg(short, long, conflicts_with = "after")]
        all: bool,

        /// Only events with larger numbers than this; with -f, begin with those
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
    },
    /// List the runs that are running or interrupted
    #[command(after_help = "Examples:\n  windlass ps\n  windlass ps --json")]
    Ps,
    /// List the runs that have ended, the newest first
    #[command(after_help = "Examples:\n  windlass history\n  windlass history nightly -n 5")]
    History(HistoryArguments),
    /// Show a run: its steps, when each ran, and what took the longest
    #[command(
        after_help = "Examples:\n  windlass show\n  windlass show 3fa9 --svg nightly.svg\n  windlass show last/test"
    )]
    Show(ShowArguments),
    /// Print what steps have written
    #[command(
        after_help = "Examples:\n  windlass log last/test\n  windlass log 3fa9/fetch@2\n  windlass log -f"
    )]
    Log(LogArguments),
    /// Say every reason why a step waits, or why it ended as it did
    #[command(after_help = "Examples:\n  windlass why\n  windlass why last/deploy")]
    Why(WhyArguments),
    /// Forget runs that have ended long ago, with their logs, and old events
    #[command(
        after_help = "Examples:\n  windlass prune --dry-run\n  windlass prune --older-than 7d\n  windlass prune --keep 100"
    )]
    Prune(PruneArguments),
    /// Print what makes a shell complete verbs, flags, runs and steps
    #[command(
        after_help = "Examples:\n  source <(windlass completions bash)\n  windlass completions fish > ~/.config/fish/completions/windlass.fish"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write one for every verb
    #[command(
        after_help = "Examples:\n  windlass man | man -l -\n  windlass man --dir ~/.local/share/man/man1"
    )]
    Man(ManArguments),
    /// Show who holds and who waits for what
    #[command(after_help = "Examples:\n  windlass holders\n  windlass holders deploy --json")]
    Holders {
        /// Only the lock or semaphore of this name
        name: Option<String>,
    },
    /// Make a store, also one that several users share
    #[command(
        after_help = "Examples:\n  sudo windlass store init --system --group ops\n  windlass store init --state /srv/ci/windlass --group ci"
    )]
    Store(StoreArguments),
}

/// How many steps may run at once, if that is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jobs(pub(crate) Option<u32>);

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

/// Reads a mode of output; a variable that is empty is as good as none.
#[derive(Clone)]
struct OutputModeParser;

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

fn param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// How many steps at once; none for a variable that is empty.
fn jobs(text: &str) -> Result<Jobs, String> {
    match text.parse() {
        _ if text.is_empty() && variable_is_empty("WINDLASS_JOBS") => Ok(Jobs(None)),
        Ok(1_u32..) => Ok(Jobs(text.parse().ok())),
        _ => Err(format!("write a whole number from 1 to {}", u32::MAX)),
    }
}

fn run_to_resume(text: &str) -> Result<String, String> {
    let tip = |run: &str, _: &str| format!("a whole run goes on: windlass resume {run}");
    looking::whole_run(text, tip)
}

fn run_to_retry(text: &str) -> Result<String, String> {
    let tip = |run: &str, step: &str| {
        format!("a step stands behind --step: windlass retry {run} --step {step}")
    };
    looking::whole_run(text, tip)
}

fn duration(text: &str) -> Result<Duration, String> {
    windlass_workflow::parse_duration(text).map_err(|error| match error {
        DurationError::Malformed { .. } => {
            format!("{error}; write whole numbers with ms, s, m, h or d, such as 30s or 1h 30m")
        }
        _ => error.to_string(),
    })
}

fn target(text: &str) -> Result<Target, String> {
    match text.split_once('/') {
        Some(("guard", name)) if !name.is_empty() => Ok(Target::Guard(name.to_owned())),
        Some((run, step)) if !run.is_empty() && !step.is_empty() => {
            Ok(Target::Step { run: run.to_owned(), step: step.to_owned() })
        }
        _ => Err("write RUN/STEP for a step, or guard/NAME for a `windlass guard`".to_owned()),
    }
}
