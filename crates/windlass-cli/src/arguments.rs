//! The command line: verbs, options, and errors in it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{FalseyValueParser, OsStringValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use windlass_workflow::EventPattern;

use crate::completions;
use crate::exit::Exit;
use crate::state;

mod holding;
mod instead;
mod limits;
mod looking;
mod mistakes;
mod queueing;
mod serving;
mod storing;
mod values;

pub(crate) use holding::{
    AcquireArguments, CheckArguments, Holding, Kind, LockArguments, LockPrimitive, SemArguments,
    SemPrimitive, TokenArguments,
};
pub(crate) use limits::{LimitsArguments, LimitsVerb, SetArguments};
pub(crate) use looking::{
    HistoryArguments, LogArguments, ManArguments, PruneArguments, Shell, ShowArguments, StepTarget,
    WhyArguments,
};
pub(crate) use queueing::{
    AddArguments, Clearable, EditArguments, MoveArguments, QueueArguments, RemoveArguments,
    StepNumber, WaitArguments,
};
pub(crate) use serving::{
    ServeArguments, ServiceArguments, SubmitArguments, Unit, WorkerArguments, WorkersVerb,
};
pub(crate) use storing::{StoreArguments, StoreVerb};
pub(crate) use values::{Jobs, Target};

use self::mistakes::{own_words, print_error, without_variables};
use self::values::{
    OutputModeParser, duration, jobs, param, priority, run_to_attach, run_to_resume, run_to_retry,
    target, whole,
};
use crate::display::OutputMode;

/// The heading of the options that every verb has.
const GLOBAL: &str = "Global options";

/// Run shell workflows and coordinate processes on one machine
#[derive(Parser)]
#[command(name = "windlass", version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Use the store in this directory, or in the PostgreSQL database of this URL [default: your own, $XDG_STATE_HOME/windlass]
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "WINDLASS_STATE",
        hide_env_values = true,
        value_name = "DIR",
        value_parser = OsStringValueParser::new()
    )]
    pub(crate) state: Option<OsString>,

    /// Use the store that users of this machine share, /var/lib/windlass
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) system: bool,

    /// Print JSON, one object per line
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "WINDLASS_JSON",
        hide_env_values = true,
        value_parser = FalseyValueParser::new()
    )]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Arguments {
    /// Reads the command line of this process. On a mistake, or for `--help` and `--version`, prints the
    /// answer and returns how the process ends.
    pub(crate) fn of_process() -> Result<Self, Exit> {
        let words = words();
        let parsed = Self::try_parse_from(&words).map_err(|error| without_variables(error, &words));
        let parsed = parsed.and_then(Self::with_some_state);
        let parsed = parsed.and_then(|parsed| parsed.with_system(&words));
        parsed.and_then(|parsed| parsed.with_json(&words)).map_err(|error| print_error(&error))
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

    /// Chooses the machine's store for `--system`, which goes before the variable. Together with `--state`
    /// it has a meaning only for `store init`.
    fn with_system(mut self, words: &[OsString]) -> Result<Self, clap::Error> {
        let is_flag = |word: &[u8]| word == b"--state" || word.starts_with(b"--state=");
        match (self.system, own_words(words).any(|word| is_flag(word.as_encoded_bytes()))) {
            (true, false) => self.state = Some(state::SYSTEM.into()),
            (true, true) if !matches!(self.verb, Verb::Store(_)) => {
                let both = "--system and --state name two stores; use one of them";
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
            let empty = "--state needs a directory, but its value is empty";
            return Err(Arguments::command().error(ErrorKind::InvalidValue, empty));
        }
        Ok(self)
    }
}

/// Returns the words of the command line. `help VERB` becomes `VERB --help`: as a subcommand it would be
/// one of `lock` and `sem` as well, and no lock could have that name.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Returns whether a variable is set to an empty text, which counts as unset.
fn variable_is_empty(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// What to run.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// The workflow file; `-` is standard input [default: windlass.toml]
    pub(crate) file: Option<PathBuf>,

    /// Run only these steps and the steps they depend on
    #[arg(value_name = "STEP")]
    pub(crate) steps: Vec<String>,

    /// Set a parameter
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
    pub(crate) params: Vec<(String, String)>,

    /// Run at most N steps at once [default: as the file says, or one per CPU]
    #[arg(short, long, value_name = "N", env = "WINDLASS_JOBS", hide_env_values = true, value_parser = jobs)]
    pub(crate) jobs: Option<Jobs>,

    /// Set how urgent the run is among all runs of the store; larger is more urgent [default: as the file
    /// says, or 0]
    #[arg(long, value_name = "N", value_parser = priority, allow_negative_numbers = true)]
    pub(crate) priority: Option<i16>,
}

/// How the verbs that lead a run show it.
#[derive(Args)]
pub(crate) struct OutputArguments {
    /// Select how to show the run's output: auto, live, prefix, group, raw or quiet
    #[arg(
        long = "output",
        env = "WINDLASS_OUTPUT_MODE",
        hide_env_values = true,
        value_name = "MODE",
        value_parser = OutputModeParser,
        hide_possible_values = true,
        default_value = "auto"
    )]
    pub(crate) mode: OutputMode,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run a workflow
    #[command(
        after_help = "Examples:\n  windlass run examples/hello.toml\n  windlass run nightly.toml report -p env=prod -j 8\n  windlass run --detach nightly.toml"
    )]
    Run {
        #[command(flatten)]
        run: RunArguments,

        /// Submit the run, start a scheduler in the background if none is running, and print the run's id
        #[arg(short, long)]
        detach: bool,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Resume an interrupted run
    #[command(
        after_help = "Examples:\n  windlass resume\n  windlass resume 3fa9c2d1\n  windlass resume --all"
    )]
    Resume {
        /// The run: its id, the first characters of it, or `last` [default: the last interrupted run]
        #[arg(value_parser = run_to_resume, add = completions::runs())]
        run: Option<String>,

        /// Hand the run to a scheduler, start one in the background if none is running, and print the run's
        /// id
        #[arg(short, long)]
        detach: bool,

        /// Hand all interrupted runs to a scheduler, as with --detach
        #[arg(long, conflicts_with_all = ["run", "detach"])]
        all: bool,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Retry the failed and cancelled steps of a run, and all steps that follow them
    #[command(
        after_help = "Examples:\n  windlass retry 3fa9c2d1\n  windlass retry 3fa9 --step deploy"
    )]
    Retry {
        /// The run: its id, the first characters of it, or `last`
        #[arg(value_parser = run_to_retry, add = completions::runs())]
        run: String,

        /// Retry only this step and the steps that follow it
        #[arg(long = "step", value_name = "STEP")]
        steps: Vec<String>,

        /// Hand the run to a scheduler, start one in the background if none is running, and print the run's
        /// id
        #[arg(short, long)]
        detach: bool,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Cancel a run, or some of its steps
    #[command(after_help = "Examples:\n  windlass cancel 3fa9c2d1\n  windlass cancel 3fa9/deploy")]
    Cancel {
        /// The run, or one of its steps or groups of steps
        #[arg(value_name = "RUN[/STEP]", value_parser = StepTarget::read, add = completions::steps())]
        target: StepTarget,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Pause a run, or some of its steps: what runs may end, and nothing starts
    #[command(
        after_help = "Examples:\n  windlass pause 3fa9c2d1\n  windlass pause 3fa9c2d1/deploy\n  windlass pause 3fa9c2d1 --stop\n\nA deadline of a paused run stands still."
    )]
    Pause {
        /// The run, or one of its steps or groups of steps
        #[arg(value_name = "RUN[/STEP]", value_parser = StepTarget::read, add = completions::steps())]
        target: StepTarget,

        /// Stop the processes of the steps that run, too (SIGSTOP); their timeouts stand still
        #[arg(long)]
        stop: bool,
    },
    /// Let a paused run, or some of its steps, continue
    #[command(
        after_help = "Examples:\n  windlass unpause 3fa9c2d1\n  windlass unpause 3fa9c2d1/deploy"
    )]
    Unpause {
        /// The run, or one of its steps or groups of steps
        #[arg(value_name = "RUN[/STEP]", value_parser = StepTarget::read, add = completions::steps())]
        target: StepTarget,
    },
    /// Submit a workflow to the scheduler of the store
    #[command(
        after_help = "Examples:\n  windlass submit nightly.toml\n  windlass wait $(windlass submit nightly.toml report -p env=prod)\n\n`windlass serve` leads the run, which needs no terminal."
    )]
    Submit(SubmitArguments),
    /// Show a submitted run until it ends
    #[command(
        after_help = "Examples:\n  windlass attach 3fa9c2d1\n  windlass attach\n\nCtrl-C ends the display; the run continues."
    )]
    Attach {
        /// The run: its id, the first characters of it, or `last`
        #[arg(default_value = "last", value_parser = run_to_attach, add = completions::runs())]
        run: String,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Wait until runs, or steps of queues, have ended
    #[command(
        after_help = "Examples:\n  windlass wait 3fa9c2d1 && ./publish.sh\n  windlass wait default/17 default/18\n  windlass wait default\n\nThe exit code is that of the run, or 0 or 1 for a step; of several, the worst.\nA queue is waited for until nothing of it is queued or runs."
    )]
    Wait(WaitArguments),
    /// Add a command to a queue
    #[command(
        after_help = "Examples:\n  windlass add -- make test\n  windlass add --after 17 --lock deploy -- ./deploy.sh\n  windlass add --use gpu=1 -- ./train.sh\n  windlass add -q videos --timeout 1h -- 'ffmpeg -i in.mkv out.mp4 && rm in.mkv'\n\nPrints QUEUE/ID, which log, why, wait and cancel understand. Starts a scheduler in the background if\nnone is running."
    )]
    Add(AddArguments),
    /// List the queues, or the steps of a queue
    #[command(
        after_help = "Examples:\n  windlass queue\n  windlass queue default\n  windlass queue default --slots 4"
    )]
    Queue(QueueArguments),
    /// Change a step of a queue that has not begun
    #[command(
        after_help = "Examples:\n  windlass edit default/17 -- make test-all\n  windlass edit default/17 --priority 5 --timeout 1h\n  windlass edit default/17 --after 12 --clear timeout,lock\n\nWhat is not named stays, such as the directory of the command."
    )]
    Edit(EditArguments),
    /// Move a step of a queue that has not begun
    #[command(
        after_help = "Examples:\n  windlass move default/17 --first\n  windlass move default/17 --before 12\n\nSteps of a larger priority still come first, and a step that follows others waits for them."
    )]
    Move(MoveArguments),
    /// Remove steps that have not begun from a queue
    #[command(
        after_help = "Example:\n  windlass remove default/17 default/18\n\nSteps that follow them are blocked."
    )]
    Remove(RemoveArguments),
    /// Schedule the submitted runs of the store
    #[command(
        after_help = "Examples:\n  windlass serve\n  windlass serve --slots 4\n  windlass serve --no-worker\n  windlass serve --unit=worker > ~/.config/systemd/user/windlass-worker.service\n\nA signal ends the scheduler; its worker and the steps continue. One process schedules at a time;\nothers stand by."
    )]
    Serve(ServeArguments),
    /// Execute the steps of submitted runs
    #[command(
        after_help = "Example:\n  windlass worker --name gpu --slots 2\n\nAt the first signal, the worker takes no new steps, and ends when its steps have ended. The second\nsignal ends them."
    )]
    Worker(WorkerArguments),
    /// List the workers of the store, or have them take no new steps
    #[command(
        after_help = "Examples:\n  windlass workers\n  windlass workers drain gpu1\n  windlass workers cordon gpu1 && ./update-drivers.sh && windlass workers uncordon gpu1"
    )]
    Workers {
        #[command(subcommand)]
        verb: Option<WorkersVerb>,
    },
    /// Check workflow files for errors without running anything
    #[command(
        after_help = "Examples:\n  windlass check nightly.toml -p env=prod\n  windlass check flows/*.toml"
    )]
    Check {
        /// The workflow files; `-` is standard input [default: windlass.toml]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,

        /// Set a parameter, and check that all parameters without a default are set
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,
    },
    /// Draw the dependencies between steps
    #[command(
        after_help = "Example:\n  windlass graph nightly.toml --format dot | dot -Tsvg > nightly.svg"
    )]
    Graph {
        /// The workflow file; `-` is standard input [default: windlass.toml]
        file: Option<PathBuf>,

        /// The format: text, dot, mermaid or json [default: text, or json with --json]
        #[arg(long, value_enum, hide_possible_values = true)]
        format: Option<Format>,
    },
    /// Print the JSON Schema of workflow files, for editors
    #[command(after_help = "Example:\n  windlass schema > windlass.schema.json")]
    Schema,
    /// Write a windlass.toml to start from
    #[command(after_help = "Example:\n  windlass init && windlass run")]
    Init,
    /// Look for what is wrong with the store, its database, its workers and this machine's disk
    #[command(
        after_help = "Examples:\n  windlass doctor\n  windlass doctor --json\n\nThe exit code is 1 if something is wrong."
    )]
    Doctor,
    /// List the runs that have not ended
    #[command(after_help = "Examples:\n  windlass ps\n  windlass ps --json")]
    Ps,
    /// List finished runs, newest first
    #[command(after_help = "Examples:\n  windlass history\n  windlass history nightly -n 5")]
    History(HistoryArguments),
    /// Show the steps of a run, their timeline and the critical path
    #[command(
        after_help = "Examples:\n  windlass show\n  windlass show 3fa9 --svg nightly.svg\n  windlass show last/test"
    )]
    Show(ShowArguments),
    /// Print the output of steps
    #[command(
        after_help = "Examples:\n  windlass log last/test\n  windlass log 3fa9/fetch@2\n  windlass log -f"
    )]
    Log(LogArguments),
    /// Explain why steps wait, failed or were skipped
    #[command(after_help = "Examples:\n  windlass why\n  windlass why last/deploy")]
    Why(WhyArguments),
    /// Delete old finished runs with their logs, and old events
    #[command(
        after_help = "Examples:\n  windlass prune --dry-run\n  windlass prune --older-than 7d\n  windlass prune --keep 100"
    )]
    Prune(PruneArguments),
    /// Run a command while holding locks
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  windlass lock deploy --wait 5m -- ./deploy.sh\n  windlass lock db dns -- ./migrate.sh\n  windlass lock -n deploy -- ./deploy.sh\n  windlass --system lock deploy -- ./deploy.sh\n  windlass lock acquire deploy --holder build-17\n\nAll processes of a user share the names, in whatever directory they run. With --system, all users of\nthe machine's store share them."
    )]
    Lock(LockArguments),
    /// Run a command while holding slots of a semaphore
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  windlass sem build --capacity 4 -- make\n  windlass sem build -n 2 -- make -j2\n  windlass sem shared.gpu -- ./train.sh\n  windlass sem release build --holder build-17 --token 5"
    )]
    Sem(SemArguments),
    /// Show who holds locks and semaphores, and who waits for them
    #[command(after_help = "Examples:\n  windlass holders\n  windlass holders deploy --json")]
    Holders {
        /// Show only the lock or semaphore with this name
        name: Option<String>,
    },
    /// Set and show the limits that all runs and commands of the store share
    #[command(
        after_help = "Examples:\n  windlass limits\n  windlass limits set gpu=2 memory=64G\n  windlass limits set gpu --items 0,1 --env CUDA_VISIBLE_DEVICES"
    )]
    Limits(LimitsArguments),
    /// Wait until a guard of a workflow file passes
    #[command(
        after_help = "Examples:\n  windlass guard deploy.toml approved -p env=prod\n  windlass guard deploy.toml site_up --wait 0s"
    )]
    Guard {
        /// The workflow file; `-` is standard input
        file: PathBuf,

        /// The name of the guard
        name: String,

        /// Set a parameter
        #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = param)]
        params: Vec<(String, String)>,

        /// Wait at most this long; 0s checks once [default: as long as the guard says]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// Let a waiting guard pass
    #[command(
        after_help = "Examples:\n  windlass approve 3fa9c2d1/deploy\n  windlass approve guard/approved"
    )]
    Approve {
        /// The step or group of steps as RUN/STEP, or guard/NAME for a `windlass guard`
        #[arg(value_parser = target, add = completions::steps())]
        target: Target,
    },
    /// Make a waiting guard fail
    #[command(
        after_help = "Examples:\n  windlass reject 3fa9c2d1/deploy\n  windlass reject guard/approved"
    )]
    Reject {
        /// The step or group of steps as RUN/STEP, or guard/NAME for a `windlass guard`
        #[arg(value_parser = target, add = completions::steps())]
        target: Target,
    },
    /// Emit an event
    #[command(after_help = "Example:\n  windlass emit approval:prod:given")]
    Emit {
        /// The name of the event: segments separated by colons
        event: String,
    },
    /// Show events, oldest first
    #[command(
        after_help = "Examples:\n  windlass events 'approval:**'\n  windlass events -f\n  windlass events -f --after 120"
    )]
    Events {
        /// Show only events that match a pattern: `*` is one segment, `**` at the end any number
        #[arg(value_name = "PATTERN")]
        patterns: Vec<EventPattern>,

        /// Wait for new events and show them as they are emitted
        #[arg(short, long)]
        follow: bool,

        /// With -f, show earlier events first
        #[arg(short, long, conflicts_with = "after")]
        all: bool,

        /// Show only events with a number above this one
        #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>)]
        after: Option<u64>,
    },
    /// Create a store, also for several users
    #[command(
        after_help = "Examples:\n  sudo windlass store init --system --group ops\n  windlass store init --state /srv/ci/windlass --group ci"
    )]
    Store(StoreArguments),
    /// Print the completion script for a shell
    #[command(
        after_help = "Examples:\n  source <(windlass completions bash)\n  windlass completions fish > ~/.config/fish/completions/windlass.fish"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all verbs to a directory
    #[command(
        after_help = "Examples:\n  windlass man | man -l -\n  windlass man --dir ~/.local/share/man/man1"
    )]
    Man(ManArguments),
}

/// The form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs: one object per line.
    Json,
}

impl From<bool> for Form {
    /// Returns the form that the flag `--json` selects.
    fn from(json: bool) -> Self {
        if json { Form::Json } else { Form::Text }
    }
}

/// How to show a graph.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Text,
    Dot,
    Mermaid,
    Json,
}
