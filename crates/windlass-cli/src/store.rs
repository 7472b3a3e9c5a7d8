//! `windlass store init`: makes a store, also one that several users share.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::getegid;
use serde::Serialize;
use thiserror::Error;

use crate::arguments::{Form, StoreArguments, StoreVerb};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;

/// The machine knows no such group.
#[derive(Debug, Error)]
#[error("there is no group {group:?} on this machine")]
pub(crate) struct GroupError {
    group: String,
}

pub(crate) fn store(
    state: Option<&Path>,
    system: bool,
    arguments: &StoreArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let StoreVerb::Init { group } = &arguments.verb;
    let gid = match group {
        Some(group) => Some(gid_of(group)?),
        None => system.then(|| getegid().as_raw()),
    };
    let store = state::init(state, gid)?;
    let made = Made {
        schema: 1,
        event: "store",
        dir: store.dir().display().to_string(),
        group: gid.map(|gid| entry(&gid.to_string()).map_or(gid.to_string(), |(name, _)| name)),
    };
    print(&match form {
        Form::Json => json(&made),
        Form::Text => made.text(),
    });
    Ok(Exit::Success)
}

/// What was made.
#[derive(Serialize)]
struct Made {
    schema: u32,
    event: &'static str,
    dir: String,
    /// The group whose members share it.
    group: Option<String>,
}

impl Made {
    fn text(&self) -> String {
        match &self.group {
            Some(group) => format!("{}: shared by the members of group {group}\n", self.dir),
            None => format!("{}: for its owner alone\n", self.dir),
        }
    }
}

fn gid_of(group: &str) -> Result<u32, GroupError> {
    let known = || entry(group).map(|(_, gid)| gid);
    let unknown = || GroupError { group: group.to_owned() };
    group.parse().ok().or_else(known).ok_or_else(unknown)
}

/// Returns name and number of a group that is called by either. The machine may have its groups
/// elsewhere than in the file, and `getent` knows where.
fn entry(group: &str) -> Option<(String, u32)> {
    let asked = Command::new("getent").args(["group", "--", group]).output();
    let asked = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let listed = || fs::read_to_string("/etc/group").unwrap_or_default();
    let text = asked.ok().filter(|text| !text.is_empty()).unwrap_or_else(listed);
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?, fields.nth(1)?);
        (name == group || gid == group).then_some((name.to_owned(), gid.parse().ok()?))
    })
}
