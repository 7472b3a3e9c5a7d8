//! The arguments of `windlass store`.

use clap::{Args, Subcommand};

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
}
