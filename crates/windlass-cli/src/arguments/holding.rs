//! What the verbs that hold names can be asked for.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_server::{LeaseTerms, Name, check_name};
use windlass_workflow::SHORTEST_HEARTBEAT_TIMEOUT;

use super::duration;

#[derive(Args)]
pub(crate) struct LockArguments {
    #[command(subcommand)]
    pub(crate) primitive: Option<LockPrimitive>,

    /// The locks, taken together or not at all
    #[arg(required = true, value_name = "NAME", value_parser = LockKind::name)]
    pub(crate) names: Vec<Name>,

    /// Do not wait: the same as --wait 0s
    #[arg(short, long, visible_alias = "nb", conflicts_with_all = ["wait", "timeout"])]
    nonblock: bool,

    /// How long to wait, as a number of seconds, as flock has it
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "wait")]
    timeout: Option<Duration>,

    /// What every lock is anyway: exclusive, and not inherited by the command
    #[arg(short = 'x', long, short_alias = 'e', hide = true)]
    exclusive: bool,
    #[arg(short = 'o', long, hide = true)]
    close: bool,

    #[command(flatten)]
    pub(crate) holding: Holding,
}

/// Returns what to use in place of an option of `flock` that `windlass lock` does not have.
pub(super) fn in_place_of_flock(option: &str) -> Option<&'static str> {
    Some(match option {
        "-s" | "--shared" => {
            "there are no shared locks; let readers take slots of a semaphore: \
             windlass sem NAME --capacity N -- COMMAND"
        }
        "-u" | "--unlock" => {
            "a lock is released when its command ends; release one that `acquire` took with: \
             windlass lock release NAME --holder ID --token NUMBER"
        }
        "-c" | "--command" => "put the command behind `--`: windlass lock NAME -- sh -c 'COMMAND'",
        "-F" | "--no-fork" => {
            "leave it out: windlass stays to keep the lock alive, and passes signals and the exit \
             code on"
        }
        "--fcntl" => "leave it out: the lock is not a lock on a file",
        "--verbose" => "leave it out: `windlass holders` shows who holds a lock and who waits",
        _ => return None,
    })
}

impl LockArguments {
    /// Returns how long to wait; none to wait for as long as it takes.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.timeout.or(self.holding.wait) }
    }
}

#[derive(Args)]
pub(crate) struct SemArguments {
    #[command(subcommand)]
    pub(crate) primitive: Option<SemPrimitive>,

    /// The semaphore
    #[arg(required = true, value_name = "NAME", value_parser = SemKind::name)]
    pub(crate) name: Option<Name>,

    #[command(flatten)]
    pub(crate) slots: Slots,

    #[command(flatten)]
    pub(crate) holding: Holding,
}

/// How a wrapper holds what it holds.
#[derive(Args)]
pub(crate) struct Holding {
    /// How long to wait, such as 30s or 1h 30m [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// The exit code if the wait was in vain
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) terms: Terms,

    /// The command and its arguments, behind `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Slots {
    /// How many slots to take
    #[arg(short = 'n', long, default_value_t = 1)]
    pub(crate) weight: u32,

    /// How many slots there are; needed on first use
    #[arg(long, value_name = "SLOTS")]
    pub(crate) capacity: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Terms {
    /// How long to hold at most; then the command is ended
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    max_hold: Option<Duration>,

    /// After how long without a heartbeat others may take over
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = some_time)]
    heartbeat_timeout: Duration,
}

impl From<&Terms> for LeaseTerms {
    fn from(terms: &Terms) -> Self {
        let Terms { max_hold, heartbeat_timeout } = *terms;
        LeaseTerms { heartbeat_timeout, max_hold }
    }
}

#[derive(Subcommand)]
pub(crate) enum LockPrimitive {
    /// Take a lock and keep it; prints how it was had, and the token
    Acquire(AcquireArguments<LockKind>),
    /// Give a lock back
    Release(TokenArguments<LockKind>),
    /// Say that the holder is still there
    Heartbeat(TokenArguments<LockKind>),
    /// Ask whether a token is still good
    Check(CheckArguments<LockKind>),
}

#[derive(Subcommand)]
pub(crate) enum SemPrimitive {
    /// Take slots and keep them; prints how they were had, and the token
    Acquire {
        #[command(flatten)]
        acquire: AcquireArguments<SemKind>,

        #[command(flatten)]
        slots: Slots,
    },
    /// Give slots back
    Release(TokenArguments<SemKind>),
    /// Say that the holder is still there
    Heartbeat(TokenArguments<SemKind>),
    /// Ask whether a token is still good
    Check(CheckArguments<SemKind>),
}

/// Of what a primitive is.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    fn name(text: &str) -> Result<Name, String>;
}

#[derive(Clone)]
pub(crate) struct LockKind;

#[derive(Clone)]
pub(crate) struct SemKind;

impl Kind for LockKind {
    fn name(text: &str) -> Result<Name, String> {
        checked(Name::Lock(text.to_owned()))
    }
}

impl Kind for SemKind {
    fn name(text: &str) -> Result<Name, String> {
        checked(Name::Semaphore(text.to_owned()))
    }
}

#[derive(Args)]
pub(crate) struct AcquireArguments<K: Kind> {
    /// What to take
    #[arg(value_parser = K::name)]
    pub(crate) name: Name,

    /// Who takes it: any text that stands for one life of one holder
    #[arg(long, value_name = "ID")]
    pub(crate) holder: String,

    /// A process without which the hold is void; while it is seen alive, no heartbeats are needed
    #[arg(long)]
    pub(crate) pid: Option<u32>,

    /// How long to wait for it
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) wait: Duration,

    #[command(flatten)]
    pub(crate) terms: Terms,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

#[derive(Args)]
pub(crate) struct TokenArguments<K: Kind> {
    /// What is held
    #[arg(value_parser = K::name)]
    pub(crate) name: Name,

    /// Who holds it
    #[arg(long, value_name = "ID")]
    pub(crate) holder: String,

    /// The token that `acquire` printed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) token: u64,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

#[derive(Args)]
pub(crate) struct CheckArguments<K: Kind> {
    /// What is held
    #[arg(value_parser = K::name)]
    pub(crate) name: Name,

    /// Who should hold it [default: whoever has the token]
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,

    /// The token
    #[arg(long, value_name = "NUMBER")]
    pub(crate) token: u64,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

fn checked(name: Name) -> Result<Name, String> {
    check_name(&name).map_err(|error| error.to_string())?;
    Ok(name)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse().map(Duration::try_from_secs_f64) {
        Ok(Ok(seconds)) => Ok(seconds),
        _ => Err("write a number of seconds, such as 5 or 0.5".to_owned()),
    }
}

/// A time that a process can keep.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < SHORTEST_HEARTBEAT_TIMEOUT {
        return Err(format!("{text} is too short: write {SHORTEST_HEARTBEAT_TIMEOUT:?} or more"));
    }
    Ok(time)
}
