//! The environment that processes inherit from this one: all of it, except for the password of the store.
//!
//! A password in `PGPASSWORD`, or in the URL of `WINDLASS_STATE`, is for this process. A step would find it there
//! and may print it, so it is lent instead: `windlass` in a step reads it from this process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::sync::Arc;

use windlass_store::{LentPassword, PASSFILE_VARIABLE, Store, StoreError};

use crate::attempt::STATE_VARIABLE;
use crate::coordinator::RunError;
use crate::service::EnvironmentError;

/// The variable in which the programs of PostgreSQL find a password.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

/// The environment of this process as others inherit it, for as long as this value lasts.
#[derive(Clone, Default)]
pub struct Inherited {
    /// Variables with other values than here; none for those that are left out.
    changes: Vec<(&'static str, Option<OsString>)>,
    _lent: Option<Arc<LentPassword>>,
}

impl Inherited {
    /// Returns the environment without the password of `store`, which is lent.
    pub fn without_password_of(store: &Store) -> Result<Self, StoreError> {
        let Some(lent) = store.lend_password()? else { return Ok(Self::default()) };
        let mut changes = vec![
            (STATE_VARIABLE, Some(store.dir().into())),
            (PASSFILE_VARIABLE, Some(lent.path().into())),
        ];
        // Another password is for the commands themselves.
        if env::var_os(PASSWORD_VARIABLE).is_some_and(|password| lent.is(&password)) {
            changes.push((PASSWORD_VARIABLE, None));
        }
        Ok(Self { changes, _lent: Some(Arc::new(lent)) })
    }

    /// Has a command inherit it. Variables that the command is given later replace those of the environment.
    pub fn give_to(&self, command: &mut Command) {
        for (name, value) in &self.changes {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Lends the password to a command that its user has called, which keeps all variables.
    pub(crate) fn lend_to(&self, command: &mut Command) {
        let lent = self.changes.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        command.envs(lent);
    }

    /// Returns all variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let is_changed = |name: &OsStr| self.changes.iter().any(|(changed, _)| name == *changed);
        let kept = env::vars_os().filter(move |(name, _)| !is_changed(name));
        let own = |(name, value): &(&str, Option<OsString>)| Some((name.into(), value.clone()?));
        kept.chain(self.changes.iter().filter_map(own))
    }
}

/// Refuses to store variables with the password of `store`.
pub(crate) fn expect_no_password(
    store: &Store,
    variables: &BTreeMap<String, String>,
) -> Result<(), RunError> {
    let Some(lent) = store.lend_password()? else { return Ok(()) };
    match variables.get(PASSWORD_VARIABLE).is_some_and(|value| lent.is(OsStr::new(value))) {
        true => Err(EnvironmentError::Password.into()),
        false => Ok(()),
    }
}
