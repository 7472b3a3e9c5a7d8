//! What the verbs that make stores can be asked for.

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    pub(crate) verb: StoreVerb,
}

#[derive(Subcommand)]
pub(crate) enum StoreVerb {
    /// Make a store: the user's own, or, with --system or --group, one that all members of a group share
    Init {
        /// The group, by name or number [default with --system: the caller's]
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
}
