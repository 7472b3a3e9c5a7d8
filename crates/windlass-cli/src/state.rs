//! Opens the store that the command line names.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use thiserror::Error;
use windlass_server::{Network, Store, StoreError, is_database, without_password};

use crate::messages::printable;
use crate::store::OutsiderError;

/// The directory of the store that several users of the machine share.
pub(crate) const SYSTEM: &str = "/var/lib/windlass";

/// Opens the store in `state`, or the user's own, and creates it if it is missing. The machine's store is
/// created only by `store init`.
pub(crate) fn open(state: Option<&Path>) -> Result<Store, Box<dyn Error>> {
    if let Some(url) = database(state)? {
        return Ok(telling(Store::in_database(url, &databases()?)?));
    }
    let dir = dir(state)?;
    let opened = match dir == Path::new(SYSTEM) {
        true => Store::open_existing(&dir, network()),
        false => Store::open_with(&dir, network()),
    };
    opened.map(telling).map_err(|error| explained(error, &dir))
}

/// Has a connection tell which process it waits for, when writers are kept out for long.
fn telling(mut store: Store) -> Store {
    store.when_blocked(|blocker| {
        let line = printable(&format!("waiting for the store: {blocker}"));
        // A service goes on when its terminal is gone.
        let _ = writeln!(io::stderr(), "windlass: {line}");
    });
    store
}

/// Opens the store for reading, and creates nothing. If the user's own store does not exist yet, it
/// counts as empty, and a note says so. A missing store that a flag names is an error.
pub(crate) fn look(state: Option<&Path>) -> Result<Store, Box<dyn Error>> {
    let opened = existing(state);
    let usual =
        state.is_none_or(|dir| env::var_os("WINDLASS_STATE").is_some_and(|set| set == *dir));
    if let (Err(error), true) = (&opened, usual)
        && let Some(missing @ StoreError::NoStore { .. }) = error.downcast_ref()
    {
        eprintln!("windlass: {missing} yet");
        return Ok(Store::in_memory()?);
    }
    opened
}

/// Opens the store in `state`, or the user's own, and creates nothing.
pub(crate) fn existing(state: Option<&Path>) -> Result<Store, Box<dyn Error>> {
    if database(state)?.is_some() {
        return open(state);
    }
    let dir = dir(state)?;
    Store::open_existing(&dir, network()).map(telling).map_err(|error| explained(error, &dir))
}

/// Creates the store in `state`, or the user's own. With a group, all its members may use it.
pub(crate) fn init(state: Option<&Path>, gid: Option<u32>) -> Result<Store, Box<dyn Error>> {
    if let Some(url) = database(state)? {
        return match gid {
            Some(_) => Err(GroupOfDatabase.into()),
            None => Ok(Store::create_in_database(url, &databases()?)?),
        };
    }
    let dir = dir(state)?;
    let made = match gid {
        Some(gid) => Store::share(&dir, network(), gid),
        None => Store::open_with(&dir, network()),
    };
    made.map_err(|error| match error {
        StoreError::Io { source, .. }
            if dir == Path::new(SYSTEM) && source.kind() == io::ErrorKind::PermissionDenied =>
        {
            NeedsRoot { source }.into()
        }
        error => error.into(),
    })
}

/// Returns the URL of the database that has the store, if it is in one.
pub(crate) fn database(state: Option<&Path>) -> Result<Option<&str>, PasswordShown> {
    let Some(url) = state.and_then(Path::to_str).filter(|url| is_database(url)) else {
        return Ok(None);
    };
    let shown = without_password(url);
    let is_argument = env::var_os("WINDLASS_STATE").is_none_or(|set| set != url);
    match shown != url && is_argument {
        true => Err(PasswordShown { shown }),
        false => Ok(Some(url)),
    }
}

/// Returns the directory for the files that this machine has of stores in databases.
fn databases() -> Result<PathBuf, Box<dyn Error>> {
    Ok(default_dir()?.join("databases"))
}

/// Returns the directory of the store, or the URL of its database without a password.
pub(crate) fn dir(state: Option<&Path>) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(url) = database(state)? {
        return Ok(without_password(url).into());
    }
    let dir = state.map_or_else(default_dir, |dir| Ok(dir.to_owned()))?;
    Ok(std::path::absolute(&dir).unwrap_or(dir))
}

/// Converts an error, and adds how to create the machine's store or how to become a member of a group.
fn explained(error: StoreError, dir: &Path) -> Box<dyn Error> {
    let outsider = match &error {
        StoreError::NoStore { dir } if dir == Path::new(SYSTEM) => return Box::new(NoSystemStore),
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            OutsiderError::of(dir)
        }
        _ => None,
    };
    outsider.map_or_else(|| error.into(), Into::into)
}

/// The password of a database is an argument.
#[derive(Debug, Error)]
#[error(
    "every user of this machine can see the password in an argument; use --state '{shown}', and put the password into ~/.pgpass, or set WINDLASS_STATE to the whole URL instead"
)]
pub(crate) struct PasswordShown {
    shown: String,
}

/// A database is not shared by a group.
#[derive(Debug, Error)]
#[error("--group is for stores in directories; who may use a database is decided by its accounts")]
pub(crate) struct GroupOfDatabase;

/// The machine's store cannot be created by an ordinary user.
#[derive(Debug, Error)]
#[error(
    "cannot create {SYSTEM}: {source}; run as root: sudo windlass store init --system --group NAME"
)]
pub(crate) struct NeedsRoot {
    source: io::Error,
}

/// The machine has no store that several users share.
#[derive(Debug, Error)]
#[error(
    "there is no store in {SYSTEM}; create it with: sudo windlass store init --system --group NAME"
)]
pub(crate) struct NoSystemStore;

/// Returns whether the user allows a network file system.
fn network() -> Network {
    match env::var("WINDLASS_NETWORK_STATE") {
        Ok(said) if said == "allow" => Network::Allow,
        _ => Network::Refuse,
    }
}

fn default_dir() -> Result<PathBuf, Box<dyn Error>> {
    let strategy = etcetera::choose_base_strategy()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(state.join("windlass"))
}
