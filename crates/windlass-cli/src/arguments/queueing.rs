//! The arguments of verbs for queues.

use std::time::Duration;

use clap::{Args, ValueEnum};
use windlass_server::Amount;

use super::StepTarget;
use super::limits::{limit, size};
use super::serving::variable;
use super::values::{duration, slots, whole};
use crate::completions;
use crate::times;

#[derive(Args)]
pub(crate) struct AddArguments {
    /// The queue; it is created if there is none of this name
    #[arg(short, long, value_name = "QUEUE", default_value = "default")]
    pub(crate) queue: String,

    /// Start only when this step of the queue has succeeded
    #[arg(long, value_name = "ID", value_parser = StepNumber::read)]
    pub(crate) after: Vec<StepNumber>,

    /// Start no earlier than at this time: `03:00`, `2027-01-31 03:00`, or as in RFC 3339
    #[arg(long, value_name = "TIME", value_parser = times::at)]
    pub(crate) at: Option<i64>,

    /// Start no earlier than after this time
    #[arg(long = "in", value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,

    /// Give the step a name besides its number
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Hold this lock while the command runs
    #[arg(long = "lock", value_name = "NAME")]
    pub(crate) locks: Vec<String>,

    /// Take this much of a limit of the store while the command runs: a number, or a size such as 64G
    #[arg(long = "use", value_name = "NAME=AMOUNT", value_parser = limit_use)]
    pub(crate) uses: Vec<(String, Amount)>,

    /// Set how urgent the step is in its queue; larger is more urgent
    #[arg(long, value_name = "P", value_parser = whole::<i64>, allow_negative_numbers = true, default_value_t = 0)]
    pub(crate) priority: i64,

    /// Try a failed command again up to N times
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value_t = 0)]
    pub(crate) retry: u32,

    /// End an attempt after this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Pass this variable of the environment to the command, besides PATH, HOME, USER, SHELL, LANG, LC_*, TZ
    /// and VIRTUAL_ENV
    #[arg(long = "env", value_name = "NAME", value_parser = variable)]
    pub(crate) env: Vec<String>,

    /// The command; a single word with blanks is shell text
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

fn limit_use(text: &str) -> Result<(String, Amount), String> {
    let (name, amount) = text.split_once('=').ok_or("write NAME=AMOUNT, such as gpu=1")?;
    match (limit(name)?, size(amount)?) {
        (_, Amount::ZERO) => Err("write an amount above 0, such as gpu=1".to_owned()),
        used => Ok(used),
    }
}

#[derive(Args)]
pub(crate) struct QueueArguments {
    /// The queue [default: list all queues]
    #[arg(value_name = "QUEUE")]
    pub(crate) name: Option<String>,

    /// Run at most N steps of the queue at once from now on
    #[arg(long, value_name = "N", value_parser = slots, requires = "name")]
    pub(crate) slots: Option<u32>,

    /// Show all steps, even if there are many
    #[arg(short, long, requires = "name")]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct EditArguments {
    /// A step that has not begun
    #[arg(value_name = "QUEUE/ID", value_parser = queue_step, add = completions::steps())]
    pub(crate) step: (String, String),

    /// Start only when this step of the queue has succeeded, in place of those that it follows
    #[arg(long, value_name = "ID", value_parser = StepNumber::read)]
    pub(crate) after: Vec<StepNumber>,

    /// Start no earlier than at this time: `03:00`, `2027-01-31 03:00`, or as in RFC 3339
    #[arg(long, value_name = "TIME", value_parser = times::at)]
    pub(crate) at: Option<i64>,

    /// Start no earlier than after this time, from now on; 0s starts the step as soon as it can
    #[arg(long = "in", value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,

    /// Give the step this name besides its number
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Hold this lock while the command runs, in place of those that the step has
    #[arg(long = "lock", value_name = "NAME")]
    pub(crate) locks: Vec<String>,

    /// Take this much of a limit of the store while the command runs, in place of what the step takes
    #[arg(long = "use", value_name = "NAME=AMOUNT", value_parser = limit_use)]
    pub(crate) uses: Vec<(String, Amount)>,

    /// Set how urgent the step is in its queue; larger is more urgent
    #[arg(long, value_name = "P", value_parser = whole::<i64>, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// Try a failed command again up to N times
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    pub(crate) retry: Option<u32>,

    /// End an attempt after this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Take these away from the step
    #[arg(long, value_name = "SETTING", value_enum, value_delimiter = ',')]
    pub(crate) clear: Vec<Clearable>,

    /// Pass this variable of the environment to the command, besides those that it has
    #[arg(long = "env", value_name = "NAME", value_parser = variable)]
    pub(crate) env: Vec<String>,

    /// The new command; a single word with blanks is shell text
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What a step of a queue can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clearable {
    /// The steps that it follows
    After,
    /// The time before which it does not start
    At,
    /// Its locks
    Lock,
    /// Its name
    Name,
    /// Its time limit
    Timeout,
    /// What it takes of limits
    Use,
}

#[derive(Args)]
pub(crate) struct MoveArguments {
    /// A step that has not begun
    #[arg(value_name = "QUEUE/ID", value_parser = queue_step, add = completions::steps())]
    pub(crate) step: (String, String),

    #[command(flatten)]
    pub(crate) to: SpotArguments,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SpotArguments {
    /// Move it in front of this step
    #[arg(long, value_name = "ID", value_parser = StepNumber::read)]
    pub(crate) before: Option<StepNumber>,

    /// Move it in front of all others
    #[arg(long)]
    pub(crate) first: bool,

    /// Move it behind all others
    #[arg(long)]
    pub(crate) last: bool,
}

#[derive(Args)]
pub(crate) struct RemoveArguments {
    /// Steps that have not begun
    #[arg(required = true, value_name = "QUEUE/ID", value_parser = queue_step, add = completions::steps())]
    pub(crate) steps: Vec<(String, String)>,
}

fn queue_step(text: &str) -> Result<(String, String), String> {
    let StepTarget { run, step } = StepTarget::read(text)?;
    let step = step.ok_or("write QUEUE/ID, such as default/17")?;
    Ok((run, step))
}

#[derive(Args)]
pub(crate) struct WaitArguments {
    /// Runs, queues, or steps: `QUEUE/ID`
    #[arg(required = true, value_name = "RUN[/STEP]", value_parser = StepTarget::read, add = completions::runs_and_steps())]
    pub(crate) targets: Vec<StepTarget>,

    /// End with the exit code of the command of the first step that has not succeeded
    #[arg(long)]
    pub(crate) code: bool,
}

/// A step of a queue: `17`, or `QUEUE/17`.
#[derive(Clone, Debug)]
pub(crate) struct StepNumber {
    pub(crate) queue: Option<String>,
    pub(crate) number: u64,
}

impl StepNumber {
    fn read(text: &str) -> Result<Self, String> {
        let (queue, number) = match text.split_once('/') {
            Some((queue, number)) => (Some(queue.to_owned()), number),
            None => (None, text),
        };
        match number.parse() {
            Ok(number) if queue.as_deref() != Some("") => Ok(Self { queue, number }),
            _ => Err("write the number of a step, such as 17 or default/17".to_owned()),
        }
    }
}
