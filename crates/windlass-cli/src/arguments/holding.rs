//! The arguments of `windlass lock` and `windlass sem`.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_server::{Amount, LeaseTerms, Name, Need, check_limit_name, check_name};
use windlass_workflow::{SHARED, SHORTEST_HEARTBEAT_TIMEOUT};

use super::limits::size;
use super::values::{duration, whole};

#[derive(Args)]
pub(crate) struct LockArguments {
    #[command(subcommand)]
    pub(crate) primitive: Option<LockPrimitive>,

    /// The locks; all of them are acquired together
    #[arg(required = true, value_name = "NAME", value_parser = LockKind::name)]
    pub(crate) names: Vec<Name>,

    /// Do not wait, like --wait 0s
    #[arg(short, long, visible_alias = "nb", conflicts_with_all = ["wait", "timeout"])]
    nonblock: bool,

    /// Wait at most this many seconds, as with flock
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "wait")]
    timeout: Option<Duration>,

    /// Accepted for scripts that were written for flock: every lock is exclusive
    #[arg(short = 'x', long, short_alias = 'e', hide = true)]
    exclusive: bool,
    /// Accepted as well: no command inherits a lock
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
        "-c" | "--command" => "put the command after `--`: windlass lock NAME -- sh -c 'COMMAND'",
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
    /// Returns how long to wait; none to wait without limit.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.timeout.or(self.holding.wait) }
    }
}

#[derive(Args)]
pub(crate) struct SemArguments {
    #[command(subcommand)]
    pub(crate) primitive: Option<SemPrimitive>,

    /// The semaphore, or shared.NAME for a limit of the store
    #[arg(required = true, value_name = "NAME", value_parser = SemKind::name)]
    pub(crate) name: Option<Name>,

    #[command(flatten)]
    pub(crate) slots: Slots,

    #[command(flatten)]
    pub(crate) holding: Holding,
}

/// How a wrapper waits for names and holds them.
#[derive(Args)]
pub(crate) struct Holding {
    /// Wait at most this long, such as 30s or 1h 30m [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Exit with this code if the wait times out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 75, value_parser = exit_code)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) terms: Terms,

    /// The command and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Slots {
    /// Take this many slots of a semaphore, or this amount of a limit, such as 2 or 8G
    #[arg(short = 'n', long, value_name = "SLOTS", default_value = "1", value_parser = weight)]
    weight: Weight,

    /// The capacity of the semaphore; required on first use
    #[arg(long, value_name = "SLOTS", value_parser = whole::<u32>)]
    pub(crate) capacity: Option<u32>,
}

/// How much to take: slots of a semaphore, or an amount of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weight {
    Slots(u32),
    Size(Amount),
}

impl Slots {
    /// Returns what a caller needs of a name, and the capacity of the semaphore to declare first. Fails with
    /// what is wrong with the arguments.
    pub(crate) fn need(&self, name: &Name) -> Result<(Need, Option<u32>), String> {
        let weight = match (name, self.weight, self.capacity) {
            (Name::Limit(limit), _, Some(_)) => {
                return Err(format!(
                    "shared.{limit} is a limit of the store; set it with: windlass limits set {limit}=AMOUNT"
                ));
            }
            (Name::Limit(_), Weight::Slots(slots), None) => Amount::from(slots).steps(),
            (Name::Limit(_), Weight::Size(size), None) => size.steps(),
            (_, Weight::Slots(slots), _) => u64::from(slots),
            (_, Weight::Size(_), _) => {
                return Err("--weight: write a whole number of slots".to_owned());
            }
        };
        Ok((Need { name: name.clone(), weight }, self.capacity))
    }
}

#[derive(Args)]
pub(crate) struct Terms {
    /// End the hold after this time, and terminate the command if there is one
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    max_hold: Option<Duration>,

    /// Let others take over after this long without a heartbeat
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
    /// Acquire a lock and hold it; print the result and the fencing token
    Acquire(AcquireArguments<LockKind>),
    /// Release a lock
    Release(TokenArguments<LockKind>),
    /// Renew the lease of a holder
    Heartbeat(TokenArguments<LockKind>),
    /// Check whether a token is still valid
    Check(CheckArguments<LockKind>),
}

#[derive(Subcommand)]
pub(crate) enum SemPrimitive {
    /// Acquire slots and hold them; print the result and the fencing token
    Acquire {
        #[command(flatten)]
        acquire: AcquireArguments<SemKind>,

        #[command(flatten)]
        slots: Slots,
    },
    /// Release slots
    Release(TokenArguments<SemKind>),
    /// Renew the lease of a holder
    Heartbeat(TokenArguments<SemKind>),
    /// Check whether a token is still valid
    Check(CheckArguments<SemKind>),
}

/// What a primitive is about: a lock or a semaphore.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// The help for its name.
    const HELP: &str;

    fn name(text: &str) -> Result<Name, String>;
}

#[derive(Clone)]
pub(crate) struct LockKind;

#[derive(Clone)]
pub(crate) struct SemKind;

impl Kind for LockKind {
    const HELP: &str = "The lock";

    fn name(text: &str) -> Result<Name, String> {
        checked(Name::Lock(text.to_owned()))
    }
}

impl Kind for SemKind {
    const HELP: &str = "The semaphore, or shared.NAME for a limit of the store";

    fn name(text: &str) -> Result<Name, String> {
        if let Some(limit) = text.strip_prefix(SHARED) {
            check_limit_name(limit).map_err(|error| error.to_string())?;
            return Ok(Name::Limit(limit.to_owned()));
        }
        checked(Name::Semaphore(text.to_owned()))
    }
}

#[derive(Args)]
pub(crate) struct AcquireArguments<K: Kind> {
    #[arg(help = K::HELP, value_parser = K::name)]
    pub(crate) name: Name,

    /// The holder: any text that no other holder uses, such as the id of a build
    #[arg(long, value_name = "ID")]
    pub(crate) holder: String,

    /// Release the hold when this process ends; no heartbeats are needed while it is alive
    #[arg(long, value_parser = whole::<u32>)]
    pub(crate) pid: Option<u32>,

    /// Wait at most this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) wait: Duration,

    #[command(flatten)]
    pub(crate) terms: Terms,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

#[derive(Args)]
pub(crate) struct TokenArguments<K: Kind> {
    #[arg(help = K::HELP, value_parser = K::name)]
    pub(crate) name: Name,

    /// The holder that acquired it
    #[arg(long, value_name = "ID")]
    pub(crate) holder: String,

    /// The token that `acquire` printed
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>)]
    pub(crate) token: u64,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

#[derive(Args)]
pub(crate) struct CheckArguments<K: Kind> {
    #[arg(help = K::HELP, value_parser = K::name)]
    pub(crate) name: Name,

    /// The holder that must have it [default: any]
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,

    /// The token to check
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>)]
    pub(crate) token: u64,

    #[arg(skip = PhantomData)]
    kind: PhantomData<K>,
}

fn checked(name: Name) -> Result<Name, String> {
    check_name(&name).map_err(|error| error.to_string())?;
    Ok(name)
}

/// Reads how much to take. Only a limit has parts and sizes.
fn weight(text: &str) -> Result<Weight, String> {
    let slots = whole(text);
    match (slots, size(text)) {
        (Ok(slots), _) => Ok(Weight::Slots(slots)),
        (Err(_), Ok(amount)) => Ok(Weight::Size(amount)),
        (Err(error), Err(_)) => Err(error),
    }
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u8::MAX))
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse().map(Duration::try_from_secs_f64) {
        Ok(Ok(seconds)) => Ok(seconds),
        _ => Err("write a number of seconds, such as 5 or 0.5".to_owned()),
    }
}

/// Reads a duration that heartbeats can keep up with.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < SHORTEST_HEARTBEAT_TIMEOUT {
        return Err(format!("{text} is too short: write {SHORTEST_HEARTBEAT_TIMEOUT:?} or more"));
    }
    Ok(time)
}
