//! The arguments of `windlass store`.

use clap::{Args, Subcommand};
use windlass_server::Rights;

#[derive(Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    pub(crate) verb: StoreVerb,
}

#[derive(Subcommand)]
pub(crate) enum StoreVerb {
    /// Create a store: your own, or with --group or --system one that a group shares
    #[command(
        after_help = "Examples:\n  sudo windlass store init --system --group ops\n  windlass store init --state /srv/ci/windlass --group ci\n\n--system creates /var/lib/windlass. Together with --state DIR it creates a shared store in DIR."
    )]
    Init {
        /// The group whose members share the store, by name or number [default with --system: your own group]
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
    /// Give an account of the database the rights that it needs, and no others
    #[command(
        after_help = "Examples:\n  windlass store grant monitor --read\n  windlass store grant alice --operate\n  windlass store grant fleet --work\n\nThe account exists already, and none of them may change the tables. May be repeated."
    )]
    Grant {
        /// The account
        role: String,

        #[command(flatten)]
        rights: RightsArguments,
    },
    /// Show what your account may do with the store in a database
    #[command(after_help = "Example:\n  windlass store check")]
    Check,
}

/// The rights that an account gets.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RightsArguments {
    /// Look at everything
    #[arg(long)]
    read: bool,

    /// Use all verbs
    #[arg(long)]
    operate: bool,

    /// Be a scheduler or a worker, too
    #[arg(long)]
    work: bool,
}

impl RightsArguments {
    pub(crate) fn rights(&self) -> Rights {
        match self {
            Self { work: true, .. } => Rights::Work,
            Self { operate: true, .. } => Rights::Operate,
            _ => Rights::Read,
        }
    }
}
