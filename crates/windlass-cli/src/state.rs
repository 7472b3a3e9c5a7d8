//! Where the store lies.

use std::error::Error;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use windlass_server::{Network, Store};

/// Opens the store in `dir`, or in the user's state directory.
pub(crate) fn open(dir: Option<&Path>) -> Result<Store, Box<dyn Error>> {
    let dir = dir.map_or_else(default_dir, |dir| Ok(dir.to_owned()))?;
    Ok(Store::open_with(&dir, network())?)
}

/// Whether the user has said that a network file system is fine.
fn network() -> Network {
    match std::env::var("WINDLASS_NETWORK_STATE") {
        Ok(said) if said == "allow" => Network::Allow,
        _ => Network::Refuse,
    }
}

fn default_dir() -> Result<PathBuf, Box<dyn Error>> {
    let strategy = etcetera::choose_base_strategy()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(state.join("windlass"))
}
