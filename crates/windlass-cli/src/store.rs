//! `windlass store init`: makes a store, also one that several users share.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Gid, getegid, geteuid, getgroups};
use serde::Serialize;
use thiserror::Error;
use windlass_server::user_name;

use crate::arguments::{Form, StoreArguments, StoreVerb};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;

/// Why a group cannot share a store.
#[derive(Debug, Error)]
pub(crate) enum GroupError {
    #[error("there is no group {group:?} on this machine")]
    Unknown { group: String },
    #[error(
        "you are not a member of group {group:?}, so you cannot give it a store; have an \
         administrator run: usermod -aG {group} {user}, then log in again"
    )]
    NotMember { group: String, user: String },
    #[error(
        "you are a member of group {group:?}, but this session began before you were added; log in \
         again, or run: newgrp {group}"
    )]
    NotInSession { group: String },
}

pub(crate) fn store(
    state: Option<&Path>,
    system: bool,
    arguments: &StoreArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let StoreVerb::Init { group } = &arguments.verb;
    let gid = match group {
        Some(group) => Some(usable_gid(group)?),
        None => system.then(|| getegid().as_raw()),
    };
    let store = state::init(state, gid)?;
    let made = Made {
        schema: 1,
        event: "store",
        dir: store.dir().display().to_string(),
        group: gid.map(|gid| Group::find(&gid.to_string()).map_or(gid.to_string(), |g| g.name)),
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

/// Returns the number of a group to which this process can give files.
fn usable_gid(group: &str) -> Result<u32, GroupError> {
    let known = Group::find(group);
    let gid = group.parse().ok().or(known.as_ref().map(|known| known.gid));
    let gid = gid.ok_or_else(|| GroupError::Unknown { group: group.to_owned() })?;
    let in_session = || getgroups().is_ok_and(|groups| groups.contains(&Gid::from_raw(gid)));
    if geteuid().is_root() || getegid().as_raw() == gid || in_session() {
        return Ok(gid);
    }
    let user = user_name(geteuid().as_raw());
    let is_member = |known: &Group| known.members.contains(&user);
    let group = known.as_ref().map_or(group, |known| &known.name).to_owned();
    Err(match known.as_ref().is_some_and(is_member) {
        true => GroupError::NotInSession { group },
        false => GroupError::NotMember { group, user },
    })
}

/// A group as the machine knows it.
struct Group {
    name: String,
    gid: u32,
    /// The users who are listed as its members.
    members: Vec<String>,
}

impl Group {
    /// Finds a group by name or number. `getent` also knows groups that are not in the file.
    fn find(group: &str) -> Option<Self> {
        let asked = Command::new("getent").args(["group", "--", group]).output();
        let asked = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let listed = || fs::read_to_string("/etc/group").unwrap_or_default();
        let text = asked.ok().filter(|text| !text.is_empty()).unwrap_or_else(listed);
        text.lines().filter_map(Self::read).find(|known| known.is_called(group))
    }

    /// Reads a line `name:password:gid:member,member`.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?);
        let members = fields.next().unwrap_or_default().split(',').map(str::to_owned).collect();
        Some(Self { name, gid, members })
    }

    fn is_called(&self, group: &str) -> bool {
        self.name == group || self.gid.to_string() == group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_a_number_and_members() {
        let group = Group::read("ops:x:1200:alice,bob").expect("a whole line");
        assert!(group.is_called("ops") && group.is_called("1200") && !group.is_called("op"));
        assert_eq!(group.members, ["alice", "bob"]);
        assert!(Group::read("").is_none() && Group::read("ops:x:many:").is_none());
    }
}
